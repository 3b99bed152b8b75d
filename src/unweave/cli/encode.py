"""The commands `unweave encode` and `unweave export`: codes of images and ONNX files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

from unweave.cli.app import app
from unweave.cli.options import Device, PublishedFile, SavedModel, Source, given
from unweave.io.paths import check_out
from unweave.progress import print_output, say
from unweave.text import counted

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet", ".npy")
AGREEMENT = ".agreement.csv"
"""Suffix of the file with the agreement of ensemble members, next to the codes."""
NAMED_BY_LOADER = 3
"""Number of unreadable images that the loader already reports."""


@app.add("encode")
@dataclass(frozen=True, kw_only=True)
class Encode:
    """Encode images with a trained model: one row per image, with its file name and code.

    Custom images are resized and converted to grey or colour to match the model.

    Example: unweave encode fit/best ./images -o codes.csv
    """

    model: SavedModel
    source: Source
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="Output file: .csv, .parquet or .npy.")
    ] = Path("codes.csv")
    member: Annotated[
        int | Literal["mean"],
        arg(
            metavar="N|mean",
            help="For an ensemble: the member that encodes, or mean for the mean over all members "
            "aligned with the first. Their agreement is then printed and saved next to the codes.",
        ),
    ] = 0
    representation: Annotated[
        Literal["value", "index", "continuous"],
        arg(
            help="For quantised latents: the values that the decoder takes, their indices, or the "
            "codes before quantisation."
        ),
    ] = "value"
    logvar: bool = False
    """Add the log-variances of the codes."""
    spread: bool = False
    """Add the standard deviation of the codes over members (requires --member mean)."""
    seed: int = 0
    """Random seed for data sets with random images."""
    device: Device = None
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[PublishedFile, arg(name="")] = field(default_factory=PublishedFile)

    def run(self) -> None:
        from unweave.evaluation.files import write_table
        from unweave.io.arguments import check_seed
        from unweave.models.encoding import MEAN, check_member, encode, images_for
        from unweave.models.finding import one_run

        check_seed(self.seed)
        check_out(self.out, TABLES, self.overwrite)
        agreement_file = self.out.with_suffix(AGREEMENT)
        if self.member == MEAN:
            check_out(agreement_file, TABLES, self.overwrite)
        chosen = one_run(self.model)
        model = chosen.model
        check_member(model, self.member)
        data = images_for(model, self.source, **given(self.images))
        for line in data.skipped[NAMED_BY_LOADER:]:
            say(f"also skipped: {line}")
        table = encode(
            model,
            data,
            member=self.member,
            representation=self.representation,
            logvar=self.logvar,
            spread=self.spread,
            seed=self.seed,
            device=self.device,
            names=chosen.names,
        )
        _write(table, self.out)
        loaded = f", skipped {len(data.skipped):,}" if data.skipped else ""
        loaded += f", read as {data.bits}-bit images" if data.bits else ""
        images, latents = counted(len(table), "image"), counted(model.config.code_size, "latent")
        print_output(f"Encoded {images} with {latents} each{loaded}: {self.out}")
        count = model.config.method.num_members
        if table.attrs:
            write_table(_agreement(table), agreement_file)
            print_output(f"{_agreement_text(table.attrs, count)}: {agreement_file}")
        elif count > 1 and self.member != MEAN:
            print_output(
                f"Encoded with member {self.member} of {count}; use --member mean for all."
            )


def _agreement(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return one row per latent: how well the members agree on it, and the verdict."""
    import pandas as pd

    columns = {name: list(values.values()) for name, values in table.attrs.items()}
    return pd.DataFrame({"latent": list(table.attrs["agreement"]), **columns})


def _agreement_text(attributes: Mapping[str, Mapping[str, Any]], count: int) -> str:
    """Return a sentence on which latents the members agree, with numbers."""
    agreement, verdicts = attributes["agreement"], attributes["members"]
    listed = {
        verdict: [f"{name} {agreement[name]:.2f}" for name, v in verdicts.items() if v == verdict]
        for verdict in ("agree", "disagree")
    }
    unused = [name for name, verdict in verdicts.items() if verdict == "unused"]
    parts = [f"{verdict} on {', '.join(names)}" for verdict, names in listed.items() if names]
    parts += [f"do not use {', '.join(unused)}"] if unused else []
    return f"{count} members {'; '.join(parts)}"


def _write(table: "pd.DataFrame", out: Path) -> None:
    import numpy as np

    from unweave.evaluation.files import write_table
    from unweave.io.writing import whole_file

    if out.suffix.lower() != ".npy":
        write_table(table, out)
        return
    numbers = table.drop(columns="file", errors="ignore").to_numpy(np.float32)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        np.save(file, numbers, allow_pickle=False)


@app.add("export")
@dataclass(frozen=True, kw_only=True)
class Export:
    """Export encoder and decoder to ONNX files, verified against the model.

    Example: unweave export fit/best -o onnx
    """

    model: SavedModel
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Output folder, created if missing.")
    ] = Path("onnx")
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.models.onnx import FILES, export_onnx

        difference = export_onnx(self.model, self.out, overwrite=self.overwrite)
        print_output(
            f"Wrote {', '.join(FILES)} to {self.out} (largest difference {difference:.1e})"
        )
