"""Scores of the model that `make demo` chooses, over several sets of seeds.

    python benchmarks/demo_scores.py --repeats 4 --out benchmarks/results/demo_cpu.json

Each repeat trains the four models of `examples/demo.py` with other seeds and chooses one without
labels. MIG and DCI use the known factors (shape, size, x, y), which training never sees.
"""

import argparse
import json
import runpy
import tempfile
from pathlib import Path

import unweave as uw

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"
METRICS = ("mig", "dci")
MODELS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images, factors = Path(folder) / "images", Path(folder) / "factors.csv"
        runpy.run_path(str(DEMO))["write_images"](images, factors)
        data = uw.data.load(images, size=32, factors=factors)
        repeats = [_repeat(data, args.steps, repeat) for repeat in range(args.repeats)]
    result = {"steps": args.steps, "models": MODELS, "repeats": repeats}
    args.out.write_text(json.dumps(result, indent=1) + "\n")


def _repeat(data: uw.data.Dataset, steps: int, repeat: int) -> dict[str, object]:
    """Fit as the demo does, with the seeds of one repeat."""
    seeds = range(repeat * MODELS, (repeat + 1) * MODELS)
    found = uw.fit(
        data,
        uw.methods.BetaTCVAE(beta=6),
        seeds=seeds,
        steps=steps,
        batch=32,
        learning_rate=0.002,
        progress=False,
    )
    table = uw.evaluate(found.fleet, data, metrics=METRICS, progress=False)
    scores = {metric: table[metric].round(3).tolist() for metric in METRICS}
    chosen = int(found.ranking["model"].iloc[0])
    print(f"repeat {repeat}: model {chosen} of {scores}", flush=True)
    return {"seeds": list(seeds), "chosen": chosen, **scores}


if __name__ == "__main__":
    main()
