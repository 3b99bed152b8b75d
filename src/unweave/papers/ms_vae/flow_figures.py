"""Figures 18 to 20: a mixture of normals refined by a flow, on MNIST."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.errors import UnknownNameError
from unweave.papers.recipe import published_table
from unweave.plots.colours import FAINT, palette

if TYPE_CHECKING:
    from torch import Tensor

    from unweave.papers.ms_vae.flow import MsFlow
    from unweave.plots.figure import Plot

MIXTURE, FLOW = "mixture of 10 normals", "with the conditional flow"
BOUND, SAMPLES, AHEAD = "bound with the flow", "flow on samples", "epochs with means ahead"
TRAINING, HELD_OUT = "training", "held out"
SIDE, SHOWN = 28, 8


def make(data: str, images: int, width: int, batch: int, epochs: int, seed: int) -> pd.DataFrame:
    """Train one mixture, and a flow on its means and one on its samples.

    `data` are `mnist` or `small digits`, the 8 × 8 digits of scikit-learn enlarged to 28 × 28; a
    sixth as many images as for training are held out.

    Returns:
        Rows of three `kind`s: `score` (`model`, `images`, `value`), `history` (`condition`,
        `epoch`, `step`, `training`, `held_out`) and `picture` (`model`, `picture`).
    """
    import torch

    from unweave.papers.ms_vae import flow

    flow.require_zuko()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, held_out = (part.to(device) for part in _images(data, images, seed))
    config = flow.FlowConfig(width=width, batch=batch, epochs=epochs, seed=seed)
    means = flow.train(x, config, held_out=held_out, device=device)
    samples = flow.train(
        x,
        replace(config, condition="samples"),
        held_out=held_out,
        mixture=means.mixture,
        device=device,
    )
    histories = [
        model.history.assign(condition=model.config.condition) for model in (means, samples)
    ]
    parts = {
        "score": _scores(means, samples, {TRAINING: x, HELD_OUT: held_out}),
        "history": pd.concat(histories),
        "picture": _pictures(means, held_out[:SHOWN]),
    }
    table = [part.assign(kind=kind, data=data) for kind, part in parts.items()]
    return pd.concat(table, ignore_index=True)


def _images(data: str, images: int, seed: int) -> tuple["Tensor", "Tensor"]:
    """Training images and held-out images, as logits `[n, 784]`."""
    from unweave.papers.ms_vae.flow import to_logits

    if data == "small digits":
        every = _small_digits()
        pixels = every[:images], every[images:]
    elif data == "mnist":
        from unweave.data import mnist

        splits = [mnist.load(split=split, size=SIDE) for split in ("train", "test")]
        bytes_of = [part.images(np.arange(len(part))).reshape(len(part), -1) for part in splits]
        pixels = bytes_of[0][:images], bytes_of[1]
    else:
        raise UnknownNameError("data set", data, ("mnist", "small digits"))
    return to_logits(pixels[0], seed), to_logits(pixels[1][: images // 6], seed + 1)


def _small_digits() -> np.ndarray:
    """The 1,797 digits included in scikit-learn, as bytes `[n, 784]`."""
    from PIL import Image
    from sklearn.datasets import load_digits

    images = (load_digits().images * (255 / 16)).astype(np.uint8)
    large = [
        np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
        for image in images
    ]
    return np.stack(large).reshape(len(large), -1)


def _scores(means: "MsFlow", samples: "MsFlow", images: dict[str, "Tensor"]) -> pd.DataFrame:
    rows: list[tuple[str, str, Any]] = []
    for name, x in images.items():
        found, other = means.evaluate(x), samples.evaluate(x)
        rows += [
            (MIXTURE, name, found["mixture"]),
            (FLOW, name, found["conditional"]),
            (BOUND, name, found["bound"]),
            (SAMPLES, name, other["conditional"]),
        ]
    return pd.DataFrame(rows, columns=["model", "images", "value"])


def _pictures(model: "MsFlow", x: "Tensor") -> pd.DataFrame:
    """Images, their Y, and samples of the flow given the same Y, as in Figures 18 and 19."""
    from unweave.papers.ms_vae.flow import from_logits

    y, samples = model.sample(x)
    rows = {"data": x, "mixture": y, "flow": samples}
    pictures = [from_logits(images).tobytes() for images in rows.values()]
    return pd.DataFrame({"model": list(rows), "picture": pictures})


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Log densities of training images next to published ones, and of held-out images."""
    scores = table[table["kind"] == "score"]
    wide = scores.pivot(index="model", columns="images", values="value").reindex(
        [MIXTURE, FLOW, BOUND, SAMPLES]
    )
    frame = pd.DataFrame(
        {"model": wide.index, "obtained": wide[TRAINING], "held_out": wide[HELD_OUT]}
    ).reset_index(drop=True)
    ahead = _ahead(table[table["kind"] == "history"])
    frame = pd.concat(
        [frame, pd.DataFrame({"model": [AHEAD], "obtained": ahead[0], "held_out": ahead[1]})],
        ignore_index=True,
    )
    frame = frame.merge(published_table(__package__, "figures-18-20"), how="left").assign(
        data=table["data"].iloc[0]
    )
    return frame[["data", "model", "published", "obtained", "held_out"]]


def _ahead(histories: pd.DataFrame) -> tuple[float, float]:
    """Share of epochs in which the flow on means is above the flow on samples."""
    wide = histories.pivot(index="step", columns="condition", values=["training", "held_out"])
    shares = [
        float((wide[by]["means"] > wide[by]["samples"]).mean()) for by in ("training", "held_out")
    ]
    return shares[0], shares[1]


def plot(table: pd.DataFrame, path: Path) -> None:
    """Draw data, mixture and flow samples, and log densities during training."""
    kinds = dict(list(table.groupby("kind")))
    pictures = {
        row.model: np.frombuffer(row.picture, np.uint8).reshape(-1, SIDE, SIDE)
        for row in kinds["picture"].itertuples()
    }
    scores = kinds["score"].set_index(["model", "images"])["value"]
    draw_flow(pictures, kinds["history"], scores[MIXTURE, HELD_OUT]).save(path)


def draw_flow(
    pictures: Mapping[str, np.ndarray], histories: pd.DataFrame, mixture: float
) -> "Plot":
    """Draw rows of images on the left, and log densities of held-out images on the right."""
    from unweave.plots.figure import Plot
    from unweave.plots.plot import PAGE, SMALL, plain

    figure = Plot(figsize=(PAGE, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_pictures(left, pictures)
    plain(right).tick_params(labelsize=SMALL, length=2, pad=2)
    names = list(histories["condition"].unique())
    for name, colour in zip(names, palette(len(names)), strict=True):
        rows = histories[histories["condition"] == name]
        right.plot(rows["step"], rows["held_out"], color=colour, linewidth=1, label=name)
        right.plot(rows["step"], rows["training"], color=colour, linewidth=1, linestyle="--")
    right.axhline(mixture, color=FAINT, linewidth=0.8, linestyle=":", label="mixture alone")
    right.plot([], [], color=FAINT, linewidth=1, linestyle="--", label="training batches")
    right.set_xlabel("step", fontsize=SMALL)
    right.set_ylabel("log density, nats", fontsize=SMALL)
    # Place the legend above the mixture's line and below the curves.
    right.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.1))
    return figure


def _draw_pictures(panel: Any, pictures: Mapping[str, np.ndarray]) -> None:
    from unweave.plots.plot import SMALL

    rows = [np.concatenate(list(images), 1) for images in pictures.values()]
    panel.imshow(np.concatenate(rows), cmap="gray_r", vmin=0, vmax=255)
    height = len(rows[0])
    panel.set_yticks([height * (k + 0.5) for k in range(len(rows))], list(pictures))
    panel.set_xticks([])
    panel.tick_params(labelsize=SMALL, length=0)
    panel.spines[:].set_visible(False)
