"""Figures 3 and 9 to 13: active and passive latents, and latent traversals."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.io.arrays import on_host
from unweave.papers.measurements import Trained
from unweave.papers.recipe import RecipeError
from unweave.papers.vae_ensemble.scores import ENSEMBLE, LARGEST_GAMMA, ORIGINAL, scored

if TYPE_CHECKING:
    from unweave.analysis.latents import Latents
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

POLARISED_FILE = "polarised.parquet"
"""Cache of the noise, signal and log Δ of every latent of every member."""
NOISE, SIGNAL = "σ² alone", "σ² and var(μ)"
"""Two criteria for active latents: log Δ < 0, and log Δ < 0 with varying means."""
SHAPES_FILE, IMAGES_FILE = "traversals_of_shapes.parquet", "traversals_of_images.parquet"
"""Caches of the change of images along each latent for each input, with a picture."""
STOPS = np.linspace(-3, 3, 7)
"""Values of a latent in a traversal."""
DRAWN = 8
"""Number of images per input from which latents are traversed; the first is shown."""
ACTIVE = 0.05
"""A latent is active for an input if its traversal changes images by at least this fraction of the
largest change along any latent of the same model."""
SHAPES = {"square": 0, "ellipse": 1, "heart": 2}


def extend_polarised(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return a row per latent of ensembles of two and three members and of β-VAEs with β = 4.

    Columns: `log_delta`; `noise`, the mean of σ²; `signal`, the variance of μ; `used`, whether
    that exceeds 0.01; `looks_active`, whether log Δ < 0.
    """
    rows, trained = scored(table), Trained(folder)
    wanted = (rows["kind"] == ORIGINAL) & rows["members"].isin([2, 3])
    if "beta" in rows:
        wanted |= (rows["method"] == "beta_vae") & (rows["beta"] == 4)

    def of_members(model: "Model") -> pd.DataFrame:
        return latents_of_members(trained.latents(model.members))

    chosen = rows[wanted]
    found = trained.measured(POLARISED_FILE, chosen["run"], of_members, "measuring latents")
    settings = ["run", "data", "method", "members", "gamma", "seed"]
    both = found.merge(chosen[settings], on="run")
    return both.assign(looks_active=both["log_delta"] < 0)


def latents_of_members(latents: "Latents") -> pd.DataFrame:
    """Return a row per latent of each member: its noise, its signal, and whether it is used."""
    from unweave.analysis.activity import VARIANCE
    from unweave.metrics.polarised_regime import log_noise_share

    return pd.concat(
        [
            pd.DataFrame(
                {
                    "member": member,
                    "latent": range(means.shape[1]),
                    "num_latents": means.shape[1],
                    "log_delta": log_noise_share(means, logvars),
                    "noise": np.exp(logvars).mean(0),
                    "signal": means.var(0),
                    "used": VARIANCE.holds(means.var(0)),
                }
            )
            for member, (means, logvars) in enumerate(
                zip(latents.means, latents.logvars, strict=True)
            )
        ],
        ignore_index=True,
    )


def active_by_noise_and_signal(table: pd.DataFrame) -> pd.DataFrame:
    """Add both criteria for active latents, and the expected noise of unused ones."""
    return table.assign(
        **{NOISE: table["looks_active"], SIGNAL: table["looks_active"] & table["used"]},
        expected_noise=1 / (1 + 2 * table["gamma"] * (table["members"] - 1)),
    )


def plot_polarised(table: pd.DataFrame, path: Path) -> None:
    """Plot sorted log Δ of every member, and signal against noise.

    There is a column of panels for each number of members and latents.
    """
    from unweave.plots.colours import GREY, MARKERS, PALETTE
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    ensembles = table["method"] == ENSEMBLE
    columns = list(table[ensembles].groupby(["num_latents", "members"]))
    figure, axes = panels(2, len(columns), (max(PAGE, 2.3 * len(columns)), 4.6))
    for place, ((d, members), part) in enumerate(columns):
        above, below = plain(axes[0, place]), plain(axes[1, place])
        others = table[~ensembles & (table["num_latents"] == d)]
        for colour, (gamma, rows) in zip(PALETTE, part.groupby("gamma"), strict=False):
            for marker, (member, latents) in zip(MARKERS, rows.groupby("member"), strict=False):
                name = f"γ = {gamma:g}" if member == 0 else None
                style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 3, "lw": 0.8}
                above.plot(_ordered(latents), label=name, **style)
            below.scatter(rows["noise"], rows["signal"], s=6, color=colour, alpha=0.6)
            expected = 1 / (1 + 2 * float(gamma) * (members - 1))
            below.axvline(expected, color=colour, linewidth=0.6, linestyle=":")
        if len(others):
            above.plot(_ordered(others), color=GREY, label="β-VAE, β = 4", lw=1)
            below.scatter(others["noise"], others["signal"], s=6, color=GREY)
        above.axhline(0, color=GREY, linewidth=0.6, linestyle=":")
        above.set_title(f"{members:g} members, {d} latents", fontsize=TEXT)
        above.set_xlabel("latents, sorted", fontsize=SMALL)
        above.set_xticks([0, d - 1], ["1", str(d)])
        below.set(xscale="log")
        below.set_xlabel("mean of σ² (dotted: expected if unused)", fontsize=SMALL)
    axes[0, 0].set_ylabel("log Δ", fontsize=TEXT)
    axes[1, 0].set_ylabel("var(μ)", fontsize=TEXT)
    axes[0, 0].legend(frameon=False, fontsize=SMALL)
    figure.save(path)


def _ordered(latents: pd.DataFrame) -> np.ndarray:
    """Return the mean over runs of sorted log Δ."""
    return np.mean([np.sort(one["log_delta"]) for _, one in latents.groupby("run")], axis=0)


def extend_11(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return a row per latent and shape, for VAEs and members of ensembles of two with γ = 10.

    Columns: `change`, the change of images along the latent; `active`, whether it is large enough;
    `picture`, the bytes of one traversal, for the first seed.
    """
    rows = scored(table)
    chosen = rows[(rows["method"] == "vae") | _pairs(rows)]
    return _traversed_models(chosen, folder, SHAPES_FILE, _shapes)


def extend_12_13(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return the same for models with 16 latents and two images, with reconstruction sharpness."""
    rows = scored(table)
    sixteen = rows["latents"] == 16 if "latents" in rows else True
    chosen = rows[(rows["method"].isin(["vae", "beta_vae"]) | _pairs(rows)) & sixteen]
    return _traversed_models(chosen, folder, IMAGES_FILE, _two_images)


def _pairs(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether each model is an ensemble of two with γ = 10, as published."""
    largest = (rows["members"] == 2) & (rows["gamma"] == LARGEST_GAMMA)
    return largest & (rows["kind"] == ORIGINAL)


def _traversed_models(
    rows: pd.DataFrame, folder: Path, file: str, inputs: "Callable[[Dataset], dict[str, Any]]"
) -> pd.DataFrame:
    trained = Trained(folder)
    first = set(rows[rows["seed"] == rows["seed"].min()]["run"])

    def of_members(model: "Model") -> pd.DataFrame:
        images = inputs(trained.data(model))
        parts = [
            traversed(member, images).assign(member=place)
            for place, member in enumerate(model.members)
        ]
        found = pd.concat(parts, ignore_index=True)
        return found if model.config.hash in first else found.assign(picture=None)

    found = trained.measured(file, rows["run"], of_members, "traversing latents")
    both = found.merge(rows[["run", "data", "method", "members", "seed"]], on="run")
    most = both.groupby(["run", "member"])["change"].transform("max")
    return both.assign(active=both["change"] >= ACTIVE * most)


def _shapes(data: "Dataset") -> dict[str, Any]:
    """Return several sprites of each shape that differ only in shape."""
    grid = data.grid
    if grid is None or "shape" not in grid.names:
        raise RecipeError(f"{data.name} has no factor 'shape'; use dSprites", subject="shape")
    place = grid.column("shape")
    factors = np.random.default_rng(0).integers(0, grid.sizes, (DRAWN, len(grid.sizes)))
    found = {}
    for name, shape in SHAPES.items():
        factors[:, place] = shape
        found[name] = data.inputs(grid.index(factors))
    return found


def _two_images(data: "Dataset") -> dict[str, Any]:
    """Return two random images, the same for all models."""
    from unweave.models.images import sample_rows

    rows = sample_rows(data, 2, seed=0)
    return {f"image {row}": data.inputs(rows[place : place + 1]) for place, row in enumerate(rows)}


def traversed(model: "Model", inputs: dict[str, Any]) -> pd.DataFrame:
    """Measure how images change along each latent of a model, starting from several inputs.

        change_l = mean over images and pixels of the variance of D(z with z_l = -3, …, 3)

    Returns:
        A table with a row per input and latent: `input`, `latent`, `change`, `picture` (the
        traversal from the first image, bytes `[stops, H, W, C]`), and `sharpness` of the
        reconstructions relative to the images.
    """
    from unweave.data.dataset import as_floats

    rows = []
    for name, images in inputs.items():
        codes, _ = model.encode(images)
        sharp = sharpness(model.decode(codes)) / sharpness(on_host(as_floats(images)))
        for latent in range(codes.shape[1]):
            stops = np.repeat(codes[:, None], len(STOPS), 1)
            stops[:, :, latent] = STOPS
            decoded = model.decode(stops.reshape(-1, codes.shape[1]))
            decoded = decoded.reshape(*stops.shape[:2], *decoded.shape[1:])
            rows.append(
                {
                    "input": name,
                    "latent": latent,
                    "change": float(decoded.var(1, dtype=np.float64).mean()),
                    "sharpness": sharp,
                    "picture": (255 * decoded[0]).round().astype(np.uint8).tobytes(),
                    "shape": list(decoded.shape[2:]),
                }
            )
    return pd.DataFrame(rows)


def sharpness(images: np.ndarray) -> float:
    """Return the mean squared difference between neighbouring pixels of images `[n, H, W, C]`."""
    return float(sum((np.diff(images, axis=axis) ** 2).mean() for axis in (1, 2)))


def active_by_input(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per latent: `depends`, whether it is active for some inputs only.

    Shapes add two columns for latents that are passive for an ellipse: `some_passive`, whether the
    latent is active for another shape, and `then_active`, whether it is active for all others.
    """
    keys = ["data", "method", "run", "member", "latent"]
    wide = table.pivot(index=keys, columns="input", values="active").astype(bool)
    found = pd.DataFrame({"depends": wide.any(axis=1) & ~wide.all(axis=1)})
    if "ellipse" in wide:
        others = wide.drop(columns="ellipse")
        found["some_passive"] = ~wide["ellipse"] & others.any(axis=1)
        found["then_active"] = ~wide["ellipse"] & others.all(axis=1)
    if "sharpness" in table:
        found["sharpness"] = table.groupby(keys)["sharpness"].mean()
    return found.reset_index()


def plot_traversals(table: pd.DataFrame, path: Path) -> None:
    """Draw traversals of the first seed: a row per model, a column per input.

    Active latents are marked with an asterisk.
    """
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels

    shown = table[table["picture"].notna()]
    inputs = list(shown["input"].unique())
    models = list(shown.groupby(["method", "member"], sort=False))
    across = shown["latent"].nunique() / len(STOPS)
    size = PAGE, 0.3 + len(models) * (0.3 + across * PAGE / len(inputs))
    figure, axes = panels(len(models), len(inputs), size)
    for row, ((method, member), latents) in zip(axes, models, strict=True):
        name = f"{method}, member {member}" if method == ENSEMBLE else str(method)
        for panel, chosen in zip(row, inputs, strict=True):
            part = latents[latents["input"] == chosen].sort_values("latent")
            panel.imshow(_stitched(part), cmap="gray", vmin=0, vmax=255, interpolation="none")
            height = part["shape"].iloc[0][0]
            names = [
                f"z{k}{' *' * on}" for k, on in zip(part["latent"], part["active"], strict=True)
            ]
            panel.set_yticks([(k + 0.5) * height for k in range(len(part))], names, fontsize=SMALL)
            panel.set_xticks([])
            panel.set_title(f"{name}: {chosen}", fontsize=TEXT)
    figure.supxlabel("latent from -3 to 3; * marks active latents", fontsize=TEXT)
    figure.save(path)


def _stitched(part: pd.DataFrame) -> np.ndarray:
    """Stack traversals vertically into one image, grey `[H, W]` or colour `[H, W, 3]`."""
    rows = []
    for latent in part.itertuples():
        stops = np.frombuffer(latent.picture, np.uint8).reshape(len(STOPS), *latent.shape)
        rows.append(np.concatenate(list(stops), axis=1))
    whole = np.concatenate(rows)
    return whole[..., 0] if whole.shape[-1] == 1 else whole


def _difference_of_members(rows: pd.DataFrame, column: str) -> float:
    """Mean difference of sorted values between members of the same ensemble."""
    pairs = [
        pair
        for _, run in _profiles(rows, column).groupby(level=0)
        for pair in combinations(run.tolist(), 2)
    ]
    return float(np.mean([np.abs(one - other).mean() for one, other in pairs]))


def _difference_of_seeds(rows: pd.DataFrame, column: str) -> float:
    """Mean difference of sorted values between first members of ensembles with different seeds."""
    firsts = _profiles(rows, column).groupby(level=0).first().tolist()
    pairs = list(combinations(firsts, 2))
    apart = [np.abs(one - other).mean() for one, other in pairs]
    return float(np.mean(apart)) if apart else float("nan")


def _profiles(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return the sorted values of each member of each run."""
    groups = rows.groupby(["run", "member"])[column]
    return pd.Series({member: np.sort(values) for member, values in groups})


def _per_member(rows: pd.DataFrame, column: str) -> "pd.Series[float]":
    """Count the latents of each member for which a column is true."""
    return rows.groupby(["run", "member"])[column].sum()


def _widest_gap(rows: pd.DataFrame, column: str) -> float:
    """Largest gap between sorted values of a member, averaged over members."""
    return float(_profiles(rows, column).map(lambda values: np.diff(values).max()).mean())


STATISTICS = {
    "difference_of_members": _difference_of_members,
    "difference_of_seeds": _difference_of_seeds,
    "latents_per_member": lambda rows, column: float(_per_member(rows, column).mean()),
    "most_latents_of_a_member": lambda rows, column: float(_per_member(rows, column).max()),
    "widest_gap": _widest_gap,
}
