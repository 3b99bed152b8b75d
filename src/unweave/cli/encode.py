"""The commands `unweave encode` and `unweave export`: what they read, write and print."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.cli.commands.models import Encode, Export
from unweave.cli.options import given
from unweave.evaluation.files import write_table
from unweave.io.arguments import check_seed
from unweave.io.paths import check_out
from unweave.io.writing import whole_file
from unweave.models.encoding import MEAN, check_member, encode, images_for
from unweave.models.finding import one_model
from unweave.progress import say, tell
from unweave.text import counted

__all__ = ["encode_images", "export_model"]

TABLES = (".csv", ".parquet", ".npy")
AGREEMENT = ".agreement.csv"
"""How the file ends that says where members agree, beside the codes."""
NAMED = 3
"""So many broken files the loader names itself."""


def encode_images(asked: Encode) -> None:
    """Write the codes of images to a file, and name images that were left out."""
    check_seed(asked.seed)
    check_out(asked.out, TABLES, asked.overwrite)
    beside = asked.out.with_suffix(AGREEMENT)
    if asked.member == MEAN:
        check_out(beside, TABLES, asked.overwrite)
    model = one_model(asked.model)
    check_member(model, asked.member)
    data = images_for(model, asked.source, **given(asked.images))
    for line in data.skipped[NAMED:]:
        say(f"also left out: {line}")
    table = encode(
        model,
        data,
        member=asked.member,
        logvar=asked.logvar,
        spread=asked.spread,
        seed=asked.seed,
        device=asked.device,
    )
    _write(table, asked.out)
    lost = f", {len(data.skipped):,} left out" if data.skipped else ""
    images = counted(len(table), "image")
    tell(f"{images} encoded{lost}, {model.config.code_size} latents each: {asked.out}")
    count = model.config.method.num_members
    if table.attrs:
        write_table(_agreement(table), beside)
        tell(f"{_in_words(table.attrs, count)}: {beside}")
    elif count > 1 and asked.member != MEAN:
        tell(f"By member {asked.member} of {count}; --member mean takes all of them.")


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


def export_model(asked: Export) -> None:
    """Write ONNX files, and print how close they are to the model."""
    from unweave.models.onnx import FILES, export_onnx

    difference = export_onnx(asked.model, asked.out, overwrite=asked.overwrite)
    tell(f"{', '.join(FILES)} in {asked.out}: at most {difference:.1e} from torch")
