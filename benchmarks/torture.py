"""Stress test: killed commands, damaged files, malicious files and invalid input.

    python benchmarks/torture.py [--only kill damage …] [--kills 20] [--flips 12] [--out FILE]

Each attack counts its cases by outcome: refused with an error message, unharmed, or a failure
(lost work, silently wrong results, tracebacks, hangs, breaches). Commands run as users run them,
in separate processes. The exit code is 1 if there was any failure. With --only, the other rows of
FILE are unchanged.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork

from attacks.calling import Tally, import_everything
from attacks.damage import damage
from attacks.explorer import attack_explorer
from attacks.folders import attack_folders
from attacks.hostile import hostile
from attacks.inputs import bad_inputs
from attacks.kills import kill
from attacks.ray import kill_on_ray
from attacks.victims import Victims, make

NEVER = ("lost", "silent", "tracebacks", "hangs", "breaches")
COLUMNS = ("cases", "refused", "unharmed", *NEVER)

ATTACKS: dict[str, Callable[[Victims, Path, Any], list[Tally]]] = {
    "kill": lambda victims, folder, args: kill(victims, folder, args.kills),
    "damage": lambda victims, folder, args: damage(victims, folder, args.flips),
    "hostile": lambda victims, folder, _: hostile(victims, folder),
    "folders": lambda victims, folder, _: [attack_folders(victims, folder)],
    "input": lambda _, folder, __: bad_inputs(folder),
    "explorer": lambda victims, folder, _: attack_explorer(victims, folder),
    "ray": lambda victims, folder, args: kill_on_ray(victims, folder, args.ray_kills),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every, default = list(ATTACKS), "(default: %(default)s)."
    parser.add_argument(
        "--only", nargs="+", choices=ATTACKS, default=every, help="Attacks to run (default: all)."
    )
    parser.add_argument("--kills", type=int, default=20, help=f"Kills per command {default}")
    parser.add_argument("--ray-kills", type=int, default=9, help=f"Kills on Ray {default}")
    parser.add_argument("--flips", type=int, default=12, help=f"Bits flipped per file {default}")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    start = time.monotonic()
    import_everything()
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["UNWEAVE_CACHE"] = str(folder / "cache")
        victims = make(folder)
        for attack in args.only:
            found = ATTACKS[attack](victims, folder, args)
            tallies += found
            print("\n".join(map(row, found)), flush=True)
            if args.out is not None:
                write(found, args.out)
    total = Tally("all")
    for column in COLUMNS:
        setattr(total, column, sum(getattr(tally, column) for tally in tallies))
    print(f"\n{table([*tallies, total])}\n{(time.monotonic() - start) / 60:.0f} min")
    sys.exit(any(getattr(total, column) for column in NEVER))


def write(tallies: list[Tally], file: Path) -> None:
    """Write the counts of attacks, keeping the rows of other attacks in the file."""
    before = json.loads(file.read_text()) if file.exists() else []
    rows = {row["attack"]: row for row in before}
    for tally in tallies:
        rows[tally.attack] = asdict(tally)
    file.write_text(json.dumps(list(rows.values()), indent=1) + "\n")


def table(tallies: list[Tally]) -> str:
    """Format the counts as a Markdown table."""
    head = f"| attack | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}"
    return "\n".join([head, *map(row, tallies)])


def row(tally: Tally) -> str:
    """Format one line of the table."""
    return f"| {tally.attack} | {' | '.join(str(getattr(tally, c)) for c in COLUMNS)} |"


if __name__ == "__main__":
    main()
