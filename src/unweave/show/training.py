"""What the losses did while models were trained."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unweave.errors import UnweaveError
from unweave.show.colours import MARKERS, palette

if TYPE_CHECKING:
    from unweave.evaluation.runs import Models
    from unweave.fleet.config import Config
    from unweave.show.plot import Plot

__all__ = ["training"]

WORDS = {
    "reconstruction": "reconstruction [nats]",
    "kl": "KL divergence [nats]",
    "loss": "loss [nats]",
}
FIRST = ("reconstruction", "kl")


def training(models: "Models", terms: Sequence[str] | None = None) -> "Plot":
    """Draw reconstruction and KL divergence over training, a line per model.

    Models of one setting have one colour; their seeds differ. The KL divergence is that of all
    latents together, as training records it.

    Args:
        models: A model, a fleet, folders of saved runs, or several of these.
        terms: Columns of the models' `curve`; by default reconstruction and KL divergence, as far
            as there are.

    Returns:
        A matplotlib figure, to be saved with `.save("training.svg")`.
    """
    from unweave.evaluation.runs import runs_of
    from unweave.show.plot import COLUMN, SMALL, TEXT, panels, plain

    trained = [run.model for run in runs_of(models)]
    known = [name for name in trained[0].curve.columns if name not in ("run", "step")]
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
            x, y = model.curve["step"], model.curve[name]
            # The end has a mark, so that lines differ by more than colour.
            end: dict[str, Any] = {"marker": markers[kind], "markersize": 4, "markevery": [-1]}
            label = None if kind in shown else kind
            panel.plot(x, y, color=colours[kind], linewidth=1.1, label=label, **end)
            shown.add(kind)
        plain(panel).set_ylabel(WORDS.get(name, name.replace("_", " ")), fontsize=TEXT)
    axes[-1, 0].set_xlabel("step", fontsize=TEXT)
    axes[-1, 0].xaxis.set_major_formatter("{x:,.0f}")
    if len(kinds) > 1:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=3, fontsize=SMALL, frameon=False
        )
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
