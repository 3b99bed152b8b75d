"""Names and explanations of methods, models, data sets and columns in a report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from unweave.evaluation.score_cache import origin_text
from unweave.methods import Method, known_method
from unweave.metrics import known_metric

FEW = 3
LONGEST_NAME = 200


class Meaning(NamedTuple):
    """Explanation of a column."""

    name: str  # name on the page
    says: str  # what it measures
    fails: str  # when it is misleading
    better: str = ""  # `"higher"`, `"lower"` or `""`
    reference: str = ""  # publication


MEANINGS = {
    "reconstruction": Meaning(
        "reconstruction",
        "Reconstruction error in nats, in the last steps of training.",
        "A model with good reconstructions may be entangled. Values for different data sets or"
        " likelihoods cannot be compared.",
        "lower",
    ),
    "kl": Meaning(
        "KL",
        "Amount of information that a code has about its image, in nats, in the last steps.",
        "Neither high nor low is better by itself: it trades off against the reconstruction.",
    ),
    "loss": Meaning(
        "loss",
        "Training loss in the last steps.",
        "Methods and strengths have different losses; compare only models that share both.",
        "lower",
    ),
    "udr": Meaning(
        "UDR",
        "Unsupervised disentanglement ranking: do single latents of other models predict single "
        "latents of this model? Disentangled models agree with each other, entangled ones do not."
        " It uses no labels. Identical models score 0.9.",
        "Models that all fail in the same way also agree, and a model with few clear latents can"
        " score high.",
        "higher",
        "Duan et al., Unsupervised Model Selection for Variational Disentangled Representation "
        "Learning, arXiv:1905.12614",
    ),
    "clear": Meaning(
        "clear latents",
        "Number of latents that change something visible: more than 0.3 nats on average, or for "
        "codes without a prior, a spread above a tenth of the largest.",
        "More clear latents than factors can mean that a factor is spread over several latents.",
    ),
    "found": Meaning(
        "factors found",
        "Number of shared factors that this model has found. A factor is shared if at least half "
        "of the models have a latent for it; such latents have a correlation of at least 0.7.",
        "A factor that most models miss is not counted.",
        "higher",
    ),
    "front": Meaning(
        "Pareto front",
        "1 if no other model is better in both reconstruction and KL; 2 if only models of front 1"
        " are, and so on.",
        "It only detects models that waste capacity. Entangled models can be on front 1, too.",
        "lower",
    ),
    "total_correlation": Meaning(
        "total correlation (training)",
        "The method's own estimate of the dependence between latents, in the last steps.",
        "It is estimated on single batches or by a discriminator, so its level means little.",
    ),
    "transition": Meaning(
        "transition",
        "Divergence of the codes of an image pair from SlowVAE's prior of slow change, in nats, in"
        " the last steps of training.",
        "Codes without any information do not change either.",
        "lower",
    ),
    "accuracy": Meaning(
        "accuracy",
        "Share of image pairs that PCL classifies correctly as true or false, in the last steps of"
        " training. Chance is 0.5.",
        "If successive images differ little, pairs are easy to classify without finding factors.",
        "higher",
    ),
}
"""Explanations of columns that are not metrics."""


def method_name(name: str) -> str:
    """Return a method's name as in its paper; for unknown methods, the name without the module.

    Example:
        >>> method_name("beta_vae"), method_name("shop.methods:MyOwn")
        ('β-VAE', 'MyOwn')
    """
    kind = known_method(name)
    return name.rpartition(":")[2] if kind is None else kind.label


def symbol(name: str, methods: Iterable[str]) -> str:
    """Return the symbol of a setting of one of these methods, such as `β`, or its name."""
    for method in methods:
        kind = known_method(method)
        if kind is not None and name in {f.name for f in fields(kind)}:
            return kind.symbol(name)
    return Method.symbol(name)


def setting(name: str, value: Any, method: str = "") -> str:
    """Format a setting and its value: `β=4`, `steps=900`.

    Args:
        name: Name as in `flat`.
        value: Value.
        method: Method that the setting belongs to, if any.
    """
    if name.startswith("first."):
        return f"first {setting(name.removeprefix('first.'), value, method)}"
    short = name.removeprefix("method.").removeprefix("optimiser.")
    text = symbol(short, [method] if method and name.startswith("method.") else [])
    return f"{text}={value_text(value)}"


def value_text(value: Any) -> str:
    """Format a value for reading: `4`, not `4.0`."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the settings of a run, without its data: `method.beta`, `optimiser.lr`.

    Example:
        >>> flat({"method": {"name": "vae", "beta": 4.0}, "data": [], "seed": 0})
        {'method.name': 'vae', 'method.beta': 4.0, 'seed': 0}
        >>> flat({"first": {"method": {"name": "vae"}, "seed": 0}, "seed": 0})
        {'first.method.name': 'vae', 'first.seed': 0, 'seed': 0}
    """
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            inside = flat(value) if name == "first" else value
            settings |= {f"{name}.{inner}": one for inner, one in inside.items()}
        elif name != "data":
            settings[name] = value
    return settings


def model_names(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return a name for each run that distinguishes it from others on the same data.

    Example:
        >>> vae = {"method": {"name": "beta_vae", "beta": 4.0}, "seed": 3}
        >>> model_names({"a": vae, "b": {**vae, "seed": 7}})["b"]
        'β-VAE β=4, seed 7'
    """
    plain = {run: flat(config) for run, config in configs.items()}
    by_method: dict[str, list[dict[str, Any]]] = {}
    for settings in plain.values():
        by_method.setdefault(settings["method.name"], []).append(settings)
    varied = {method: _varied(members) for method, members in by_method.items()}
    return {
        run: _name(settings, varied[settings["method.name"]]) for run, settings in plain.items()
    }


def _varied(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings in which models of one method differ; at least its first setting."""
    method = known_method(members[0]["method.name"])
    known = [f"method.{name}" for name in method.strengths()] if method else []
    own = [name for name in members[0] if name.startswith("method.") and name != "method.name"]
    own.sort(key=lambda name: known.index(name) if name in known else len(known))
    names = [name for name in members[0] if name not in ("seed", "method.name")]
    differ = [n for n in names if len({json.dumps(m.get(n)) for m in members}) > 1]
    return differ if any(name in own for name in differ) else own[:1] + differ


def _name(settings: Mapping[str, Any], varied: Sequence[str]) -> str:
    values = [
        setting(name, settings[name], settings["first." * name.count("first.") + "method.name"])
        for name in varied
        if name in settings
    ]
    return " ".join([method_name(settings["method.name"]), *values]) + f", seed {settings['seed']}"


def data_names(origins: Sequence[Sequence[Any]]) -> dict[str, str]:
    """Return a unique name for every data set, by its origin as text.

    Example:
        >>> sliced = [["load", "dsprites", {}], ["slice", {"scale": 5, "posX": [0, 8]}]]
        >>> list(data_names([sliced, [["load", "dsprites", {}]]]).values())
        ['dsprites (scale 5, posX 0 8)', 'dsprites']
    """
    names: dict[str, str] = {}
    for origin in origins:
        text = origin_text(origin)
        if text not in names:
            name = _data_name(origin)
            same = sum(other.split(" no. ")[0] == name for other in names.values())
            names[text] = f"{name} no. {same + 1}" if same else name
    return names


def _data_name(origin: Sequence[Any]) -> str:
    if not origin:
        return "unknown data"
    steps = []
    for step, *arguments in origin[1:]:
        choice = arguments.pop() if arguments and isinstance(arguments[-1], Mapping) else {}
        text = [f"{n} {_values(v)}" for n, v in choice.items()] or [" ".join(map(str, arguments))]
        steps.append(("" if step == "slice" else f"{step.replace('_', ' ')} ") + ", ".join(text))
    name = str(origin[0][1] if len(origin[0]) > 1 else "") or "custom images"
    name = f"{name} ({'; '.join(steps)})" if steps else name
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _values(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    return " ".join(map(str, value)) if len(value) <= FEW else f"{len(value)} values"


def label(column: str) -> str:
    """Return the heading of a column.

    Example:
        >>> label("dci.completeness"), label("sampled.mig")
        ('DCI: completeness', 'MIG (sampled)')
    """
    if column.startswith("sampled."):
        return f"{label(column.removeprefix('sampled.'))} (sampled)"
    name, _, part = column.partition(".")
    metric = known_metric(name)
    known = MEANINGS.get(name)
    plain = known.name if known else name.replace("_", " ")
    heading = metric.label if metric else plain
    return f"{heading}: {part.removeprefix(f'{name}_').replace('_', ' ')}" if part else heading


def meaning(column: str) -> Meaning | None:
    """Return the explanation of a column, or None if there is none."""
    if column in MEANINGS:
        return MEANINGS[column]
    name = column.removeprefix("sampled.")
    metric = known_metric(name)
    if metric is None:
        return None
    better = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
    return Meaning(metric.label, metric.explanation, metric.failure, better, metric.reference)


def latent_label(latent: int, names: Mapping[int, str]) -> str:
    """Return the text for a latent: `z3`, or `size (z3)` if it has a name.

    Example:
        >>> latent_label(3, {}), latent_label(3, {3: "size"})
        ('z3', 'size (z3)')
    """
    return f"{names[latent]} (z{latent})" if latent in names else f"z{latent}"


def listed(words: Sequence[str]) -> str:
    """Join words as `a`, `a and b`, or `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
