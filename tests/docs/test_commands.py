"""Every `unweave …` line in README and docs is one that the command line understands."""

import re
import shlex
from pathlib import Path

import pytest
import tyro

from unweave.cli import app
from unweave.cli.train import options_of
from unweave.methods import EVERY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text):
    """Lines of code that begin with `unweave`, without comments, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", text)
    fenced = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    indented = "\n".join(re.findall(r"^    (unweave .*)$", text, re.MULTILINE))
    for line in f"{fenced}\n{indented}".splitlines():
        if line.startswith("unweave "):
            yield shlex.split(line, comments=True)[1:]


def understood(words):
    """Read a command without doing anything."""
    if words[0] == "train":
        kind = EVERY[words[2].replace("-", "_")]
        return tyro.cli(options_of(kind), args=words[3:])
    entry = app._subcommands[words[0]].target
    words = words[1:]
    while hasattr(entry, "_subcommands"):
        entry, words = entry._subcommands[words[0]].target, words[1:]

    return tyro.cli(entry, args=words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_understood(page):
    for words in commands(page.read_text()):
        try:
            understood(words)
        except (SystemExit, KeyError) as error:
            if error.args != (0,):  # --help ends well
                pytest.fail(f"unweave {shlex.join(words)}: {error}")


def test_there_are_commands_to_understand():
    assert sum(len(list(commands(page.read_text()))) for page in PAGES) > 100


@pytest.mark.parametrize(
    "line",
    [
        "unweave train dsprites beta-vae --bta 1",
        "unweave evaluate runs --metric",
        "unweave scor a",
    ],
)
def test_a_misspelt_command_is_noticed(line, capsys):
    (words,) = commands(f"```bash\n{line}\n```")
    with pytest.raises((SystemExit, KeyError)):
        understood(words)
