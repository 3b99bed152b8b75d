"""The command `unweave zoo`: trained models that come with the package."""

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from unweave.cli.app import app
from unweave.progress import print_output

__all__ = ["Zoo"]


@app.add("zoo")
@dataclass(frozen=True, kw_only=True)
class Zoo:
    """List the trained models that come with the package, or print the card of one.

    Example: unweave zoo rooms3d
    """

    name: Annotated[
        Positional[str | None],
        arg(
            metavar="[NAME]",
            help="Model whose card to print (default: list all).",
            help_behavior_hint="",
        ),
    ] = None

    def run(self) -> None:
        from unweave.models.zoo import CARD, PREFIX, zoo_folder, zoo_names

        if self.name is None:
            _list()
            print_output(f"Open one with: unweave explore {PREFIX}{zoo_names()[0]}")
            return
        folder = zoo_folder(PREFIX + self.name.removeprefix(PREFIX))
        assert folder is not None, "the name has the prefix"
        print((folder / CARD).read_text(encoding="utf-8"), end="")


def _list() -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from unweave.models.zoo import PREFIX, card, zoo_names

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "data", "method", "steps", "MIG", "DCI"):
        numbers = heading in ("steps", "MIG", "DCI")
        table.add_column(heading, justify="right" if numbers else "left")
    for name in zoo_names():
        about = card(name)
        scores = [f"{about['scores'][metric]:.2f}" for metric in ("mig", "dci")]
        table.add_row(
            PREFIX + name, about["data"], about["method"], f"{about['steps']:,}", *scores
        )
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table)
