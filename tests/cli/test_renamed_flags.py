"""Old flags, which still work for one release."""

import pytest

from unweave.cli import main
from unweave.cli.renamed_flags import RENAMED, with_new_flags


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(command, old, new) for command, flags in RENAMED.items() for old, new in flags.items()],
)
@pytest.mark.parametrize("value", ["", "=1"])
def test_an_old_flag_is_replaced_with_a_message(command, old, new, value, capsys):
    assert with_new_flags(["a", old + value], RENAMED[command]) == ["a", new + value]
    message = capsys.readouterr().err
    assert old in message
    assert new in message


def test_new_flags_and_values_are_unchanged(capsys):
    args = ["runs", "--recompute", "over", "again", "--overwrite"]
    assert with_new_flags(args, RENAMED["evaluate"]) == args
    assert capsys.readouterr().err == ""


def test_commands_accept_old_flags(tmp_path, capsys):
    main(["theory", "d-separation", "--ending", "svg", "-o", str(tmp_path)])
    assert (tmp_path / "example.svg").exists()
    assert "--format" in capsys.readouterr().err


def test_methods_accept_the_old_names_of_renamed_settings(tmp_path, capsys):
    args = ["dsprites", "from-factors", "--told", "posX", "--latents", "1", "--steps", "1"]
    small = ["--architecture", "small_dcgan", "--batch", "2", "--no-pictures"]
    main(["train", *args, *small, "--out", str(tmp_path)])
    assert "--known-factors" in capsys.readouterr().err
    assert list(tmp_path.glob("*/config.json"))
