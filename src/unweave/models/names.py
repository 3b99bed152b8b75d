"""Names of latents, recorded in `names.json` in the folder of a fit, a study or a saved model.

    {"latents": {"0f3a…": {"0": "size", "4": "colour"}}}

Names belong to one model, which is identified by the hash of its settings. The file is untrusted.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.io.plain_data import parse_json, read_text
from unweave.io.writing import whole_file
from unweave.models.config import RUN_NAME, Config
from unweave.models.files import BEST, RUNS
from unweave.text import shown

__all__ = [
    "MAX_LENGTH",
    "NAMES",
    "check_names",
    "checked_names",
    "column_name",
    "names_folder",
    "read_names",
    "write_names",
]

NAMES = "names.json"
MAX_LENGTH = 40
"""Maximum number of characters of a name."""
MAX_BYTES = 4 << 20
MAX_MODELS = 10_000
LATENT = re.compile(r"0|[1-9][0-9]{0,4}")


def names_folder(run: Path) -> Path:
    """Return the folder whose `names.json` holds the names of a saved model.

    Example:
        >>> folders = [names_folder(Path(path)) for path in ("fit/best", "fit/runs/0f", "model")]
        >>> [folder.as_posix() for folder in folders]
        ['fit', 'fit', 'model']
    """
    run = run.resolve() if run.name in ("", "..") else run
    if run.name == BEST:
        return run.parent
    return run.parent.parent if run.parent.name == RUNS else run


def read_names(run: Path, config: Config) -> dict[int, str]:
    """Return the names of latents of a saved model, by latent.

    Args:
        run: Folder of the model.
        config: Its config.
    """
    file = names_folder(run) / NAMES
    return checked_names(_read(file).get(config.hash, {}), config.code_size, file)


def write_names(run: Path, config: Config, names: Mapping[int, str]) -> None:
    """Record the names of latents of a saved model, in place of earlier ones; see `read_names`."""
    file = names_folder(run) / NAMES
    plain = {str(latent): name for latent, name in sorted(names.items())}
    checked_names(plain, config.code_size, file)
    models = _read(file)
    models.pop(config.hash, None)
    if plain:
        models[config.hash] = plain
    if len(models) > MAX_MODELS:
        raise UnweaveError(
            f"{file} must have the names of at most {MAX_MODELS:,} models, got {len(models):,}",
            subject=file,
            value=len(models),
        )
    if models or os.path.lexists(file):
        with whole_file(file) as temporary:
            text = json.dumps({"latents": models}, indent=1, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")


def check_names(folder: Path) -> None:
    """Raise an error if the `names.json` in a folder is damaged."""
    _read(folder / NAMES)


def checked_names(plain: Any, latents: int, subject: object = "names") -> dict[int, str]:
    """Check names of latents given as `{"0": "size", …}`, which are untrusted.

    Args:
        plain: Names by latent; numbers of latents are text, as in JSON.
        latents: Number of latents.
        subject: Origin of the names, for error messages.

    Example:
        >>> checked_names({"1": "size"}, 4)
        {1: 'size'}
        >>> checked_names({"4": "size"}, 4)
        Traceback (most recent call last):
        unweave.errors.UnweaveError: names: latents must be numbers from 0 to 3, got '4'
    """
    if not isinstance(plain, Mapping):
        raise UnweaveError(
            f'{subject}: the names of latents must be given as {{"0": "size", …}}, got '
            f"{shown(plain)}",
            subject=subject,
        )
    names = {}
    for latent, name in plain.items():
        if not (isinstance(latent, str) and LATENT.fullmatch(latent) and int(latent) < latents):
            raise UnweaveError(
                f"{subject}: latents must be numbers from 0 to {latents - 1}, got {shown(latent)}",
                subject=subject,
                value=latent,
            )
        if not _is_name(name):
            raise UnweaveError(
                f"{subject}: the name of a latent must have 1 to {MAX_LENGTH} printable "
                f"characters, without spaces around it, got {shown(name)}",
                subject=subject,
                value=name,
            )
        names[int(latent)] = str(name)
    return dict(sorted(names.items()))


def column_name(prefix: str, latent: int, names: Mapping[int, str]) -> str:
    """Return the heading of a column of codes: `z0`, or `z0_size` if the latent has a name.

    Characters other than letters, digits and `_` are replaced by `_`.

    Example:
        >>> column_name("z", 0, {}), column_name("z", 3, {3: "left – right"})
        ('z0', 'z3_left_right')
    """
    words = re.sub(r"\W+", "_", names.get(latent, "")).strip("_")
    return f"{prefix}{latent}_{words}" if words else f"{prefix}{latent}"


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= MAX_LENGTH
        and name.isprintable()
        and name == name.strip()
    )


def _read(file: Path) -> dict[str, Any]:
    """Return the names of all models in a file, by hash; none if it does not exist."""
    try:
        if not os.path.lexists(file):
            return {}
        return _checked(parse_json(read_text(file, MAX_BYTES))["latents"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnweaveError(
            f"{file} is damaged ({reason}); delete it and name the latents again", subject=file
        ) from error


def _checked(models: object) -> dict[str, Any]:
    if not isinstance(models, dict) or len(models) > MAX_MODELS:
        raise ValueError(f"latents cannot be {shown(models)}")
    for name in models:
        if not RUN_NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is not the hash of a model")
    return models
