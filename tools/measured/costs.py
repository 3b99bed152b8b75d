"""Training cost per step of each method, from benchmarks/results."""

from collections.abc import Callable

from tools.markdown import table
from tools.measured.reading import MISSING, link, read

SIZES = (1, 8, 64, 256, 512)


def cost_of_method(name: str) -> str:
    """Return the measured time per model and step on a GPU, with its source."""
    return KNOWN.get(name, _of_fleets)(name)


def _of_vaes(_: str) -> str:
    return f"A VAE is a β-VAE with β = 1 and takes the same time.\n\n{_of_fleets('beta_vae')}"


def _of_fleets(name: str) -> str:
    found = {
        row["models"]: row["us_per_model_step"]
        for row in read("fleet_h200.json")["fleet"]
        if row["method"] == name and row["data"] == "dsprites"
    }
    if not found:
        return MISSING
    return (
        _row("Fleet size", "µs per model-step", {size: found[size] for size in SIZES})
        + f"\n\ndSprites, batches of 64, bf16, one H200 ({link('fleet_h200.json')}, "
        f"`python benchmarks/fleet.py --methods {name}`)."
    )


def _of_ensembles(_: str) -> str:
    rows = read("ensemble_h200.json")["fully_coupled"]
    found = {row["members"]: row["us_per_member_step"] for row in rows}
    return (
        _row("Members", "µs per member-step", found)
        + "\n\ndSprites, batches of 64, bf16, one H200, fleets of 128 members "
        f"({link('ensemble_h200.json')}, `python benchmarks/ensemble.py`)."
    )


def _of_isa(name: str) -> str:
    rows = [row for row in read("isa_h200.json")["rows"] if row["case"].split(",")[0] == name]
    cells = [
        [
            row["case"].replace(name + ", ", "").replace(name, "default"),
            str(row["latents"]),
            f"{row['us_per_model_step']:.1f}",
            f"{row['ratio']:.2f} × `{row['against']}`",
        ]
        for row in rows
    ]
    return table(["Case", "Latents", "µs per model-step", "Relative time"], cells) + (
        "\n\ndSprites, batches of 64, bf16, one H200, fleets of 128 "
        f"({link('isa_h200.json')}, `python benchmarks/isa.py`)."
    )


def _of_second_stages(_: str) -> str:
    found = read("stages_h200.json")
    steps = {row["models"]: row["us_per_model_step"] for row in found["rows"]}
    return (
        _row("Fleet size", "µs per model-step", steps)
        + f"\n\nTextured dSprites, batches of {found['batch']}, `{found['architecture']}`, "
        f"{found['bound']['parameters'] / 1e6:.0f} million weights, bf16, one H200 "
        f"({link('stages_h200.json')}, `python benchmarks/stages.py`)."
    )


def _on_rooms(name: str) -> str:
    speeds = read("inductive_biases_hour/speeds.csv")
    speeds = speeds[speeds["models"] == speeds["models"].min()]

    def between(method: str) -> str:
        found = speeds.loc[speeds["method"] == method, "us_per_model_step"]
        return f"{found.min():.0f} to {found.max():.0f}"

    return (
        f"{between(name)} µs per model-step in fleets of {speeds['models'].iloc[0]}, including "
        "startup, saving and encoding for scores; such small fleets leave most of a GPU idle. "
        f"β-TCVAE took {between('beta_tc_vae')} µs in the same runs. Rooms in colour, bf16, one "
        f"H200 ({link('inductive_biases_hour/speeds.csv')}, from the ledger of an earlier "
        "`unweave reproduce inductive-biases/table-2 --scale hour` with one strength)."
    )


def _row(heading: str, label: str, found: dict[int, float]) -> str:
    cells = [label, *(f"{us:.0f}" for us in found.values())]
    return table([heading, *map(str, found)], [cells])


KNOWN: dict[str, Callable[[str], str]] = {
    "vae": _of_vaes,
    "vae_ensemble": _of_ensembles,
    **dict.fromkeys(("isa_vae", "isa_tc_vae"), _of_isa),
    **dict.fromkeys(("ae", "pcl", "slow_vae"), _on_rooms),
    "ms_vae": _of_second_stages,
}
"""Sources of costs by method; the default is `_of_fleets`."""
