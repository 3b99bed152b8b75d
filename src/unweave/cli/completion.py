"""The command `unweave completion`: shell completion scripts."""

import io
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app

# Tyro's function suggests flags in place of arguments, and an empty match if it has no suggestion,
# which keeps bash from completing file names.
FILES_IN_BASH = r"""
_unweave() {
  _tyro_unweave
  local word="${COMP_WORDS[COMP_CWORD]}" match matches=()
  for match in "${COMPREPLY[@]}"; do
    if [[ -n "$match" && ( "$word" == -* || "$match" != -* ) ]]; then matches+=("$match"); fi
  done
  COMPREPLY=("${matches[@]}")
}
complete -o default -F _unweave unweave
"""


@app.add("completion")
@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a script that completes commands and flags with the Tab key.

    Example: unweave completion bash > ~/.local/share/bash-completion/completions/unweave
    """

    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(help="Your shell.")]

    def run(self) -> None:
        script = io.StringIO()
        with redirect_stdout(script), suppress(SystemExit):
            app.cli(prog="unweave", args=["--tyro-print-completion", self.shell])
        print(script.getvalue() + (FILES_IN_BASH if self.shell == "bash" else ""), end="")
