"""Progress: on a terminal one line rewritten in place, elsewhere one line that grows."""

from __future__ import annotations

import re

import pytest

from support.harness.streams import Log, Terminal
from webpte_host.base import progress
from webpte_host.base.progress import Display


def without_seconds(stream: Log) -> str:
    """Replace times, which depend on the machine."""
    return re.sub(r"\(\d+\.\d s\)", "(N s)", stream.getvalue())


def test_terminal_shows_bytes_and_percent() -> None:
    stream = Terminal()
    with Display(stream).stage("wheel", total=4_000_000, measure=lambda: 1_000_000):
        stream.wait_for(r"wheel \.\.\. 25%  1\.0 MB of 4\.0 MB  \d+ s")
    shown = without_seconds(stream)
    assert shown.endswith("wheel: done (N s)\n")
    assert shown.count("\n") == 1


def test_plain_stream_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.05)
    stream = Log()
    with Display(stream).stage("wheel", total=100) as stage:
        stream.wait_for("  wheel: \\.")
        stage.done = 50
        stream.wait_for(" 50%")
    shown = stream.getvalue()
    assert shown.startswith("  wheel: .")
    assert shown.count("\n") == 1
    assert "\r" not in shown
    assert "\x1b" not in shown


def test_failure_is_shown_as_such() -> None:
    stream = Log()
    with pytest.raises(ValueError, match="no"), Display(stream).stage("wheel"):
        raise ValueError("no")
    assert without_seconds(stream) == "  wheel: failed (N s)\n"


def test_own_outcome() -> None:
    stream = Log()
    with Display(stream).stage("mirror") as stage:
        stage.outcome = "not reachable"
    assert without_seconds(stream) == "  mirror: not reachable (N s)\n"
