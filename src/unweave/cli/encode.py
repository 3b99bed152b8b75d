"""The commands `unweave encode` and `unweave export`: what they read, write and print."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.evaluation.files import write_table
from unweave.io.arguments import check_seed
from unweave.io.paths import check_out
from unweave.io.writing import whole_file
from unweave.models.encoding import MEAN, Member, check_member, encode, images_for
from unweave.models.finding import one_model
from unweave.progress import say

__all__ = ["encode_images", "export_model"]

TABLES = (".csv", ".parquet", ".npy")
AGREEMENT = ".agreement.csv"
"""How the file ends that says where members agree, beside the codes."""
NAMED = 3
"""So many broken files the loader names itself."""


def encode_images(
    folder: Path,
    source: str,
    out: Path,
    overwrite: bool,
    *,
    member: Member,
    logvar: bool,
    spread: bool,
    seed: int,
    device: str | None,
    path: Path | None,
) -> None:
    """Write the codes of images into a file, and say what was left out."""
    check_seed(seed)
    check_out(out, TABLES, overwrite)
    beside = out.with_suffix(AGREEMENT)
    if member == MEAN:
        check_out(beside, TABLES, overwrite)
    model = one_model(folder)
    check_member(model, member)
    options: dict[str, Any] = {} if path is None else {"path": path}
    data = images_for(model, source, **options)
    for line in data.skipped[NAMED:]:
        say(f"also left out: {line}")
    table = encode(
        model, data, member=member, logvar=logvar, spread=spread, seed=seed, device=device
    )
    _write(table, out)
    lost = f", {len(data.skipped):,} left out" if data.skipped else ""
    images = "1 image" if len(table) == 1 else f"{len(table):,} images"
    print(f"{images} encoded{lost}, {model.config.code_size} latents each: {out}")
    count = model.config.method.copies
    if table.attrs:
        write_table(_agreement(table), beside)
        print(f"{_in_words(table.attrs, count)}: {beside}")
    elif count > 1 and member != MEAN:
        print(f"By member {member} of {count}; --member mean takes all of them.")


def _agreement(table: pd.DataFrame) -> pd.DataFrame:
    """A row per latent: how far members agree on it, and that in a word."""
    return pd.DataFrame(
        {
            "latent": list(table.attrs["agreement"]),
            **{name: list(values.values()) for name, values in table.attrs.items()},
        }
    )


def _in_words(said: Mapping[str, Mapping[str, Any]], count: int) -> str:
    """Where members agree, with numbers, and where they do not."""
    agreement, verdicts = said["agreement"], said["members"]
    listed = {
        verdict: [f"{name} {agreement[name]:.2f}" for name, v in verdicts.items() if v == verdict]
        for verdict in ("agree", "disagree")
    }
    unused = [name for name, verdict in verdicts.items() if verdict == "unused"]
    parts = [f"{verdict} on {', '.join(names)}" for verdict, names in listed.items() if names]
    parts += [f"do not use {', '.join(unused)}"] if unused else []
    return f"{count} members {'; '.join(parts)}"


def _write(table: pd.DataFrame, out: Path) -> None:
    if out.suffix.lower() != ".npy":
        write_table(table, out)
        return
    numbers = table.drop(columns="file", errors="ignore").to_numpy(np.float32)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        np.save(file, numbers, allow_pickle=False)


def export_model(folder: Path, out: Path, overwrite: bool) -> None:
    """Write ONNX files, and say how near they are to the model."""
    from unweave.models.onnx import FILES, export_onnx

    difference = export_onnx(folder, out, overwrite=overwrite)
    print(f"{', '.join(FILES)} in {out}: at most {difference:.1e} from torch")
