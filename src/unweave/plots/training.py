"""What the losses did while models were trained."""

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unweave.analysis.activity import KL
from unweave.errors import UnweaveError
from unweave.plots.colours import GREY, MARKERS, palette

if TYPE_CHECKING:
    from unweave.models.config import Config
    from unweave.models.finding import Models
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["kl_over_training", "training"]

WORDS = {
    "reconstruction": "reconstruction [nats]",
    "kl": "KL divergence [nats]",
    "loss": "loss [nats]",
}
FIRST = ("reconstruction", "kl")
OF_LATENT = re.compile(r"kl_(\d+)")


def training(models: "Models", terms: Sequence[str] | None = None) -> "Plot":
    """Draw reconstruction and KL divergence over training, a line per model.

    Models of one setting have one colour; their seeds differ. The KL divergence is that of all
    latents together; `kl_over_training` draws that of each.

    Args:
        models: A model, a fleet, folders of saved runs, or several of these.
        terms: Columns of the models' `curve`; by default reconstruction and KL divergence, as far
            as there are.

    Returns:
        A matplotlib figure, to be saved with `.save("training.svg")`.
    """
    from unweave.models.files import BESIDE
    from unweave.models.finding import models_of
    from unweave.plots.plot import COLUMN, TEXT, legend_above, panels, plain

    trained = models_of(models)
    known = [name for name in trained[0].curve.columns if not BESIDE.fullmatch(name)]
    chosen = [name for name in FIRST if name in known] or known if terms is None else list(terms)
    if not chosen:
        raise UnweaveError(f"at least one term is drawn; there are {', '.join(known)}")
    for name in chosen:
        without = [model for model in trained if name not in model.curve.columns]
        if without:
            raise UnweaveError(
                f"the curve of {without[0].config.hash} has no {name!r}; it has {', '.join(known)}"
            )
    settings = _settings([model.config for model in trained])
    kinds = list(dict.fromkeys(settings))
    colours = dict(zip(kinds, palette(len(kinds)), strict=True))
    markers = dict(zip(kinds, MARKERS * len(kinds), strict=False))
    figure, axes = panels(len(chosen), 1, (COLUMN, 0.55 + 1.35 * len(chosen)), sharex=True)
    for panel, name in zip(axes[:, 0], chosen, strict=True):
        shown: set[str] = set()
        for model, kind in zip(trained, settings, strict=True):
            known_at = model.curve[["step", name]].dropna()  # some are only looked at now and then
            x, y = known_at["step"], known_at[name]
            # The end has a mark, so that lines differ by more than colour.
            end: dict[str, Any] = {"marker": markers[kind], "markersize": 4, "markevery": [-1]}
            label = None if kind in shown else kind
            panel.plot(x, y, color=colours[kind], linewidth=1.1, label=label, **end)
            shown.add(kind)
        plain(panel).set_ylabel(WORDS.get(name, name.replace("_", " ")), fontsize=TEXT)
    axes[-1, 0].set_xlabel("step", fontsize=TEXT)
    axes[-1, 0].xaxis.set_major_formatter("{x:,.0f}")
    if len(kinds) > 1:
        legend_above(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def kl_over_training(model: "Model") -> "Plot":
    """Draw when a model began to use each latent: its KL divergence over training.

    Latents are named where their lines end; those that are not in use at the end are grey. The KL
    divergences are of some images of the data that are always the same.

    Args:
        model: A trained model.

    Returns:
        A matplotlib figure, to be saved with `.save("kl.svg")`.
    """
    from unweave.models.model import Model
    from unweave.plots.plot import COLUMN, LINE, SMALL, TEXT, apart, panels, plain

    if not isinstance(model, Model):
        raise UnweaveError(f"one model is drawn at a time, but got {model!s:.80}; take fleet[0]")
    found = [OF_LATENT.fullmatch(name) for name in model.curve.columns]
    latents = {int(match[1]): match[0] for match in found if match}
    curve = model.curve.dropna(subset=list(latents.values()))
    if not latents or curve.empty:
        raise UnweaveError(
            f"the curve of {model.config.hash} has no KL divergence of each latent; "
            "methods without one, models that diverged and models of no steps have none"
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
    ends = [last[latent] for latent in used]
    for latent, height in zip(used, apart(ends, LINE * max(ends, default=0)), strict=True):
        panel.annotate(
            f"{latent}",
            (curve["step"].iloc[-1], height),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colours[latent],
        )
    panel.set_ylabel("KL of each latent [nats]", fontsize=TEXT)
    panel.set_xlabel("step", fontsize=TEXT)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.set_ylim(bottom=0)
    return figure


def _settings(configs: "Sequence[Config]") -> list[str]:
    """What tells models apart besides their seeds, in words."""
    plain = [dataclasses.asdict(config.method) for config in configs]
    names = dict.fromkeys(name for setting in plain for name in setting)
    varying = [name for name in names if len({str(setting.get(name)) for setting in plain}) > 1]
    return [
        ", ".join([config.method.name, *(_words(setting, n) for n in varying if n in setting)])
        for config, setting in zip(configs, plain, strict=True)
    ]


def _words(setting: dict[str, Any], name: str) -> str:
    value = setting[name]
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
