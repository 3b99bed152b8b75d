"""The command `unweave name`: names of latents from labelled images, or by hand."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from unweave.cli.app import app
from unweave.cli.options import PublishedFile, SavedModel, given
from unweave.errors import UnweaveError
from unweave.progress import print_output

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Name"]


@app.add("name")
@dataclass(frozen=True, kw_only=True)
class Name:
    """Name the latents of a trained model, from labelled images or by hand.

    A latent is named after a factor if they are strongly associated. Names are recorded next to
    the model and used in codes, reports, the explorer and exported files.

    Example: unweave name images-fit --data ./labelled --factors labels.csv
    """

    model: SavedModel
    data: Annotated[
        str | None,
        arg(metavar="SOURCE", help="Labelled images; a few dozen are enough."),
    ] = None
    factors: Path | None = None
    """For custom images: CSV of their known factors."""
    names: Annotated[
        tuple[str, ...],
        arg(
            metavar="LATENT=NAME…",
            help="Names given by hand, such as 0=size; 0= removes a name.",
        ),
    ] = ()
    images: Annotated[PublishedFile, arg(name="")] = field(default_factory=PublishedFile)

    def run(self) -> None:
        from unweave.models.encoding import images_for
        from unweave.models.finding import one_run
        from unweave.models.names import LATENT, write_names
        from unweave.select.naming import name_latents, named_after

        run = one_run(self.model)
        if run.folder is None or run.in_zoo:
            raise UnweaveError(
                f"the latents of {self.model} cannot be named, because it is part of the package; "
                "copy its folder first",
                subject="model",
            )
        if self.data is None and not self.names:
            raise UnweaveError(
                "no names given; pass labelled images with --data and --factors, or "
                "names with --names 0=size",
                subject="data",
            )
        names, table = dict(run.names), None
        if self.data is not None:
            options: dict[str, object] = {**given(self.images)}
            if self.factors is not None:
                options["factors"] = self.factors
            table = name_latents(run.model, images_for(run.model, self.data, **options))
            names |= named_after(table)
        for text in self.names:
            latent, separator, name = text.partition("=")
            if not (separator and LATENT.fullmatch(latent)):
                raise UnweaveError.must("--names", "be LATENT=NAME, such as 0=size", text)
            names[int(latent)] = name.strip()
        write_names(run.folder, run.config, {k: name for k, name in names.items() if name})
        print_output(_listed(run.names, table, run.config.code_size))


def _listed(names: dict[int, str], table: "pd.DataFrame | None", latents: int) -> str:
    """Return a line per latent: its name, and its best factor if labels were given."""
    lines = []
    for latent in range(latents):
        line = f"z{latent:<4}{names.get(latent, '–'):<24}"
        if table is not None:
            row = table.iloc[latent]
            line += f"{row['association']:.2f} with {row['factor']}"
            line += "" if row["clear"] else " (inactive)"
        lines.append(line.rstrip())
    return "\n".join(lines)
