"""Results of `benchmarks/torture.py` as a table."""

from tools.markdown import table
from tools.measured.reading import read

COLUMNS = (
    "cases",
    "refused",
    "unharmed",
    "lost",
    "silent",
    "tracebacks",
    "hangs",
    "breaches",
)


def attacks(file: str) -> str:
    """Return a table with a row per attack and their sum."""
    rows = [[row["attack"], *(row[name] for name in COLUMNS)] for row in read(file)]
    total = ["**all**", *(sum(row[place] for row in rows) for place in range(1, len(rows[0])))]
    return table(["attack", *COLUMNS], [[f"{cell}" for cell in row] for row in [*rows, total]])
