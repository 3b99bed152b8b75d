"""The commands `unweave encode` and `unweave export`: what they read, write and print."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.data.cache import whole_file
from unweave.encoding import encode, images_for, open_model
from unweave.evaluation.files import check_out, write_table
from unweave.progress import say

__all__ = ["encode_images", "export_model"]

TABLES = (".csv", ".parquet", ".npy")
NAMED = 3
"""So many broken files the loader names itself."""


def encode_images(
    folder: Path,
    source: str,
    out: Path,
    overwrite: bool,
    *,
    logvar: bool,
    seed: int,
    device: str | None,
    path: Path | None,
) -> None:
    """Write the codes of images into a file, and say what was left out."""
    check_out(out, TABLES, overwrite)
    model = open_model(folder)
    options: dict[str, Any] = {} if path is None else {"path": path}
    data = images_for(model, source, **options)
    for line in data.skipped[NAMED:]:
        say(f"also left out: {line}")
    table = encode(model, data, logvar=logvar, seed=seed, device=device)
    _write(table, out)
    lost = f", {len(data.skipped):,} left out" if data.skipped else ""
    images = "1 image" if len(table) == 1 else f"{len(table):,} images"
    print(f"{images} encoded{lost}, {model.config.latents} latents each: {out}")


def _write(table: pd.DataFrame, out: Path) -> None:
    if out.suffix.lower() != ".npy":
        write_table(table, out)
        return
    numbers = table.drop(columns="file", errors="ignore").to_numpy(np.float32)
    with whole_file(out) as temporary, temporary.open("wb") as file:
        np.save(file, numbers, allow_pickle=False)


def export_model(folder: Path, out: Path, overwrite: bool) -> None:
    """Write ONNX files, and say how near they are to the model."""
    from unweave.onnx_export import FILES, export_onnx

    difference = export_onnx(folder, out, overwrite=overwrite)
    print(f"{', '.join(FILES)} in {out}: at most {difference:.1e} from torch")
