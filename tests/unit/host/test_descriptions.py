"""Descriptions of commands."""

from __future__ import annotations

import pytest

from webpte_host import cli
from webpte_host.base.descriptions import described


def test_the_first_words_are_left_out() -> None:
    assert described("`serve.py fly`: flies. Here: far.") == "Flies. Here: far."
    assert described("Flies.") == "Flies."
    assert described(None) == ""


@pytest.mark.parametrize("command", ["verify", "bench", "models", "pictures", "setup", "build"])
def test_help_says_in_a_sentence_what_a_command_does(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    _, description, *_ = capsys.readouterr().out.split("\n\n")
    assert description[0].isupper()
    assert "serve.py" not in description.partition(".")[0]
