"""The words of a report: names of methods, models, data sets and columns."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from unweave.evaluation.score_cache import origin_text
from unweave.methods import EVERY

__all__ = [
    "data_names",
    "flat",
    "label",
    "listed",
    "method_name",
    "model_names",
    "setting",
    "value_text",
]

FEW = 3
LONGEST_NAME = 200
METHOD_NAMES = {
    "vae": "VAE",
    "beta_vae": "β-VAE",
    "annealed_vae": "AnnealedVAE",
    "factor_vae": "FactorVAE",
    "beta_tc_vae": "β-TCVAE",
    "dip_vae_i": "DIP-VAE-I",
    "dip_vae_ii": "DIP-VAE-II",
    "ae": "AE",
    "ada_gvae": "Ada-GVAE",
    "ada_ml_vae": "Ada-ML-VAE",
    "vae_ensemble": "VAE ensemble",
    "isa_vae": "ISA-VAE",
    "isa_tc_vae": "ISA-TCVAE",
    "ms_vae": "MS-VAE",
    "jacobian": "Jacobian supervision",
    "ms_gan": "MS-GAN",
    "cgan": "CGAN",
    "infogan": "InfoGAN",
    "from_factors": "from factors",
    "slow_vae": "SlowVAE",
    "pcl": "PCL",
}
SYMBOLS = {
    "beta": "β",
    "gamma": "γ",
    "alpha": "α",
    "lambda_od": "λ_od",
    "lambda_d": "λ_d",
    "c_max": "C",
    "lambda_y": "λ_y",
    "lambda_diff": "λ_diff",
    "lambda_cov": "λ_cov",
    "lambda_info": "λ",
    "rate": "λ",
}
LABELS = {
    "udr": "UDR",
    "kl": "KL",
    "active": "active latents",
    "found": "factors found",
    "front": "Pareto front",
    "beta_vae": "BetaVAE",
    "factor_vae": "FactorVAE",
    "mig": "MIG",
    "dci": "DCI",
    "sap": "SAP",
    "irs": "IRS",
    "elbo": "ELBO",
    "fid": "FID",
    "mig_density": "MIG (densities)",
    "mig_sup": "MIG-sup",
    "jemmig": "JEMMIG",
    "rmig": "RMIG",
    "mcc": "MCC",
    "infomec": "InfoMEC",
    "z_diff": "Z-diff",
    "z_min_var": "Z-min variance",
    "z_max_var": "Z-max variance",
    "dci_es": "DCI-ES",
    "gaussian_total_correlation": "total correlation",
    "gaussian_wasserstein_correlation": "Wasserstein correlation",
    "mutual_info_score": "mutual information",
    "total_correlation": "total correlation (training)",
}


def method_name(name: str) -> str:
    """A method as papers write it.

    Example:
        >>> method_name("beta_vae"), method_name("my_own")
        ('β-VAE', 'my_own')
    """
    return METHOD_NAMES.get(name, name)


def setting(name: str, value: Any) -> str:
    """A setting and its value: `β=4`, `steps=900`."""
    if name.startswith("first."):
        return f"first {setting(name.removeprefix('first.'), value)}"
    short = name.removeprefix("method.").removeprefix("optimiser.")
    return f"{SYMBOLS.get(short, short.replace('_', ' '))}={value_text(value)}"


def value_text(value: Any) -> str:
    """A value as people write it: `4`, not `4.0`."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, all but its data, in one dictionary: `method.beta`, `optimiser.lr`.

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
    """A name for each run that tells it from the others on the same data.

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
    """The settings in which models of one method differ; at least its first one."""
    method = EVERY.get(members[0]["method.name"])
    known = [f"method.{name}" for name in method.strengths()] if method else []
    own = [name for name in members[0] if name.startswith("method.") and name != "method.name"]
    own.sort(key=lambda name: known.index(name) if name in known else len(known))
    names = [name for name in members[0] if name not in ("seed", "method.name")]
    differ = [n for n in names if len({json.dumps(m.get(n)) for m in members}) > 1]
    return differ if any(name in own for name in differ) else own[:1] + differ


def _name(settings: Mapping[str, Any], varied: Sequence[str]) -> str:
    words = [setting(name, settings[name]) for name in varied if name in settings]
    return " ".join([method_name(settings["method.name"]), *words]) + f", seed {settings['seed']}"


def data_names(origins: Sequence[Sequence[Any]]) -> dict[str, str]:
    """A name for every data set, by its origin as text; no two have the same.

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
    words = []
    for step, *arguments in origin[1:]:
        choice = arguments.pop() if arguments and isinstance(arguments[-1], Mapping) else {}
        said = [f"{n} {_values(v)}" for n, v in choice.items()] or [" ".join(map(str, arguments))]
        words.append(("" if step == "slice" else f"{step.replace('_', ' ')} ") + ", ".join(said))
    name = str(origin[0][1] if len(origin[0]) > 1 else "") or "your own images"
    return _short(f"{name} ({'; '.join(words)})" if words else name)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _values(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    return " ".join(map(str, value)) if len(value) <= FEW else f"{len(value)} values"


def label(column: str) -> str:
    """The heading of a column.

    Example:
        >>> label("dci.completeness"), label("sampled.mig")
        ('DCI: completeness', 'MIG (sampled)')
    """
    if column.startswith("sampled."):
        return f"{label(column.removeprefix('sampled.'))} (sampled)"
    name, _, part = column.partition(".")
    heading = LABELS.get(name, name.replace("_", " "))
    return f"{heading}: {part.removeprefix(f'{name}_').replace('_', ' ')}" if part else heading


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
