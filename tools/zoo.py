"""Add a trained model to the zoo: compact weights, scores and a model card.

    python -m tools.zoo RUN NAME --data rooms3d --command "unweave train …" \
        --selection "highest DCI of 2 seeds" --hardware "one CPU core, 28 minutes"

RUN is the folder of a saved model whose data set has known factors. The scores are those of the
compact model, whose weights are rounded to bfloat16.
"""

import argparse
import shutil
from pathlib import Path

import yaml

import unweave as uw
from unweave.models.zoo import CARD, ZOO

METRICS = ("mig", "dci", "factor_vae", "sap", "modularity")
USE = "Demonstrations, tests and teaching. It encodes only images like those of its data set."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of a saved model")
    parser.add_argument("name", help="name in the zoo")
    parser.add_argument("--data", required=True, help="description of the training data")
    parser.add_argument("--command", required=True, help="command that trained the model")
    parser.add_argument("--selection", required=True, help="how the model was selected")
    parser.add_argument("--hardware", required=True, help="where it was trained, and how long")
    args = parser.parse_args()
    folder = ZOO / args.name
    if folder.exists():
        shutil.rmtree(folder)
    uw.load(args.run).save(folder, compact=True)
    try:
        card = _card(folder, args.data, args.command, args.selection, args.hardware)
    except BaseException:
        shutil.rmtree(folder)
        raise
    text = yaml.safe_dump(card, sort_keys=False, allow_unicode=True, width=99)
    (folder / CARD).write_text(text, encoding="utf-8")
    print(text)


def _card(
    folder: Path, data: str, command: str, selection: str, hardware: str
) -> dict[str, object]:
    model = uw.load(folder)
    config = model.config
    table = uw.evaluate(model, metrics=METRICS, progress=False)
    strengths = ", ".join(
        f"{name} = {getattr(config.method, name):g}" for name in config.method.strengths()
    )
    return {
        "data": data,
        "method": config.method.label,
        "settings": strengths,
        "seed": config.seed,
        "steps": config.steps,
        "batch": config.batch,
        "latents": config.latents,
        "scores": {metric: round(float(table[metric].iloc[0]), 3) for metric in METRICS},
        "selection": selection,
        "command": command,
        "hardware": hardware,
        "use": USE,
        "licence": "Apache-2.0",
    }


if __name__ == "__main__":
    main()
