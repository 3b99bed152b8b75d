"""What a shell needs: completion."""

import io
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app

# Tyro's function offers flags where an argument is due, and a match without letters where it knows
# none, which keeps bash from completing the names of files.
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
    """Print a script that makes the Tab key complete commands and flags.

    Example: unweave completion bash > ~/.local/share/bash-completion/completions/unweave
    """

    shell: Annotated[Positional[Literal["bash", "zsh", "fish"]], arg(help="Your shell.")]

    def run(self) -> None:
        script = io.StringIO()
        with redirect_stdout(script), suppress(SystemExit):
            app.cli(prog="unweave", args=["--tyro-print-completion", self.shell])
        print(script.getvalue() + (FILES_IN_BASH if self.shell == "bash" else ""), end="")
