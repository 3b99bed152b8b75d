"""What a step of each method takes, from benchmarks/results."""

from collections.abc import Callable

from tools.markdown import table
from tools.measured.reading import MISSING, link, read

SIZES = (1, 8, 64, 256, 512)


def cost_of_method(name: str) -> str:
    """Microseconds per model and step on a GPU, where they were measured."""
    return KNOWN.get(name, _of_fleets)(name)


def _of_vaes(_: str) -> str:
    return f"A VAE is a β-VAE with β = 1, and takes as long.\n\n{_of_fleets('beta_vae')}"


def _of_fleets(name: str) -> str:
    found = {
        row["models"]: row["us_per_model_step"]
        for row in read("fleet_h200.json")["fleet"]
        if row["method"] == name and row["data"] == "dsprites"
    }
    if not found:
        return MISSING
    return (
        _row("models at once", "µs per model-step", {size: found[size] for size in SIZES})
        + f"\n\ndSprites, 64 images a step, bf16, one H200 ({link('fleet_h200.json')}, "
        f"`python benchmarks/fleet.py --methods {name}`)."
    )


def _of_ensembles(_: str) -> str:
    rows = read("ensemble_h200.json")["fully_coupled"]
    found = {row["members"]: row["us_per_member_step"] for row in rows}
    return (
        _row("members", "µs per member-step", found)
        + "\n\ndSprites, 64 images a step, bf16, one H200, 128 members at once "
        f"({link('ensemble_h200.json')}, `python benchmarks/ensemble.py`)."
    )


def _of_isa(name: str) -> str:
    rows = [row for row in read("isa_h200.json")["rows"] if row["case"].split(",")[0] == name]
    cells = [
        [
            row["case"].replace(name + ", ", "").replace(name, "as it comes"),
            str(row["latents"]),
            f"{row['us_per_model_step']:.1f}",
            f"{row['ratio']:.2f} × `{row['against']}`",
        ]
        for row in rows
    ]
    return table(["case", "latents", "µs per model-step", "against"], cells) + (
        "\n\ndSprites, 64 images a step, bf16, one H200, 128 models at once "
        f"({link('isa_h200.json')}, `python benchmarks/isa.py`)."
    )


def _of_second_stages(_: str) -> str:
    found = read("stages_h200.json")
    steps = {row["models"]: row["us_per_model_step"] for row in found["rows"]}
    return (
        _row("models at once", "µs per model-step", steps)
        + f"\n\nTextured dSprites, {found['batch']} images a step, `{found['architecture']}`, "
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
        f"{between(name)} µs per model-step in fleets of {speeds['models'].iloc[0]}, which leave "
        "most of a GPU idle, starting, saving and encoding for scores included; β-TCVAE "
        f"{between('beta_tc_vae')} beside it. Rooms of three channels, bf16, one H200 "
        f"({link('inductive_biases_hour/speeds.csv')}, from the ledger of "
        "`unweave reproduce inductive-biases/table-2 --scale hour` when it had one strength)."
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
"""Where the costs of some methods come from; those of the others from fleets on dSprites."""
