"""Helpers that run commands in this process or in another one."""

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from unweave.cli import main

__all__ = ["NOTHING", "run", "start"]

NOTHING = re.compile(r"\{None|default: None")
"""Defaults of None, which must not appear in help texts."""


class Done(NamedTuple):
    """Result of a command."""

    returncode: int
    stdout: str
    stderr: str


def run(*args, cwd=None, **environment):
    """Run a command in this process, where everything is already imported."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as here, redirect_stdout(out), redirect_stderr(err):
        for name, value in {"COLUMNS": "160", **environment}.items():
            here.setenv(name, value)
        if cwd is not None:
            here.chdir(cwd)
        try:
            main([str(word) for word in args])
        except SystemExit as left:
            return Done(left.code or 0, out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())


def start(*args, cwd=None, **environment):
    """Run a command in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "unweave", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "160", **environment},
    )
