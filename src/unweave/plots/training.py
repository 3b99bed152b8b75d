"""Training curves of models."""

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unweave.analysis.activity import KL
from unweave.errors import UnweaveError
from unweave.plots.colours import GREY, MARKERS, palette
from unweave.plots.drawn_codes import check_model
from unweave.plots.plot import (
    COLUMN,
    LINE,
    TEXT,
    label_step_axis,
    legend_above,
    name_line_ends,
    panels,
    plain,
)

if TYPE_CHECKING:
    from unweave.models.config import Config
    from unweave.models.finding import Models
    from unweave.models.model import Model
    from unweave.plots.figure import Plot

__all__ = ["kl_over_training", "training"]

AXIS_LABELS = {
    "reconstruction": "reconstruction [nats]",
    "kl": "KL divergence [nats]",
    "loss": "loss [nats]",
}
FIRST = ("reconstruction", "kl")
OF_LATENT = re.compile(r"kl_(\d+)")


def training(models: "Models", terms: Sequence[str] | None = None) -> "Plot":
    """Plot reconstruction error and KL divergence over training, with a line per model.

    Models that differ only in their random seed share a colour. The KL divergence is summed over
    latents; see `kl_over_training` for single latents.

    Args:
        models: A model, a fleet, folders of saved runs, or several of these.
        terms: Columns of the models' `curve` (default: `reconstruction` and `kl`, if present).

    Returns:
        A matplotlib figure; save it with `.save("training.svg")`.
    """
    from unweave.models.files import NON_LOSS_COLUMNS
    from unweave.models.finding import models_of

    trained = models_of(models)
    known = [name for name in trained[0].curve.columns if not NON_LOSS_COLUMNS.fullmatch(name)]
    chosen = [name for name in FIRST if name in known] or known if terms is None else list(terms)
    if not chosen:
        raise UnweaveError(
            f"terms must name at least one of {', '.join(known)}, got none", subject="terms"
        )
    for name in chosen:
        without = [model for model in trained if name not in model.curve.columns]
        if without:
            raise UnweaveError(
                f"the curve of {without[0].config.hash} has no {name!r}; it has "
                f"{', '.join(known)}",
                subject="terms",
                value=name,
            )
    settings = _settings([model.config for model in trained])
    kinds = list(dict.fromkeys(settings))
    colours = dict(zip(kinds, palette(len(kinds)), strict=True))
    markers = dict(zip(kinds, MARKERS * len(kinds), strict=False))
    figure, axes = panels(len(chosen), 1, (COLUMN, 0.55 + 1.35 * len(chosen)), sharex=True)
    for panel, name in zip(axes[:, 0], chosen, strict=True):
        shown: set[str] = set()
        for model, kind in zip(trained, settings, strict=True):
            recorded = model.curve[["step", name]].dropna()  # some terms skip most steps
            x, y = recorded["step"], recorded[name]
            # A marker at the end makes lines differ by more than colour.
            end: dict[str, Any] = {"marker": markers[kind], "markersize": 4, "markevery": [-1]}
            label = None if kind in shown else kind
            panel.plot(x, y, color=colours[kind], linewidth=1.1, label=label, **end)
            shown.add(kind)
        plain(panel).set_ylabel(AXIS_LABELS.get(name, name.replace("_", " ")), fontsize=TEXT)
    label_step_axis(axes[-1, 0])
    if len(kinds) > 1:
        legend_above(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def kl_over_training(model: "Model") -> "Plot":
    """Plot the KL divergence of each latent over training, which shows when it became active.

    Each line is labelled with its latent; latents that are inactive at the end are grey. The KL
    divergence is measured on a fixed sample of images.

    Args:
        model: A trained model.

    Returns:
        A matplotlib figure; save it with `.save("kl.svg")`.
    """
    check_model(model)
    found = [OF_LATENT.fullmatch(name) for name in model.curve.columns]
    latents = {int(match[1]): match[0] for match in found if match}
    curve = model.curve.dropna(subset=list(latents.values()))
    if not latents or curve.empty:
        raise UnweaveError(
            f"the curve of {model.config.hash} has no KL divergence per latent; it is not "
            "recorded for deterministic methods and untrained models",
            subject="curve",
            value=model.config.hash,
        )
    figure, axes = panels(1, 1, (COLUMN, 2.3))
    panel = plain(axes[0, 0])
    last = {latent: float(curve[name].iloc[-1]) for latent, name in latents.items()}
    used = [latent for latent in sorted(last, key=last.__getitem__) if KL.holds(last[latent])]
    colours = dict(zip(used[::-1], palette(len(used)), strict=True))
    for latent in sorted(last, key=last.__getitem__):
        colour = colours.get(latent, GREY)
        panel.plot(
            curve["step"], curve[latents[latent]], color=colour, linewidth=1.1, label=str(latent)
        )
    ends = [(last[latent], str(latent), colours[latent]) for latent in used]
    name_line_ends(panel, curve["step"].iloc[-1], ends, LINE * max(last.values()))
    panel.set_ylabel("KL of each latent [nats]", fontsize=TEXT)
    label_step_axis(panel)
    panel.set_ylim(bottom=0)
    return figure


def _settings(configs: "Sequence[Config]") -> list[str]:
    """Describe the method and the settings in which the models differ, other than seeds."""
    plain = [dataclasses.asdict(config.method) for config in configs]
    names = dict.fromkeys(name for setting in plain for name in setting)
    varying = [name for name in names if len({str(setting.get(name)) for setting in plain}) > 1]
    return [
        ", ".join([config.method.name, *(_setting(setting, n) for n in varying if n in setting)])
        for config, setting in zip(configs, plain, strict=True)
    ]


def _setting(setting: dict[str, Any], name: str) -> str:
    value = setting[name]
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
