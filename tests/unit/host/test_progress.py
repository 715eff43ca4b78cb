"""Signs of life: on a terminal one line rewritten in place, elsewhere one line that grows."""

from __future__ import annotations

import io
import time

import pytest

from webpte_host import progress
from webpte_host.progress import Display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_bytes_and_percent() -> None:
    stream = Terminal()
    with Display(stream).stage("wheel", total=4_000_000, measure=lambda: 1_000_000):
        time.sleep(0.5)
    shown = stream.getvalue()
    assert "wheel ... 25%  1.0 MB of 4.0 MB  0 s" in shown
    assert shown.endswith("wheel: done (0.5 s)\n")
    assert shown.count("\n") == 1


def test_plain_stream_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.05)
    stream = io.StringIO()
    with Display(stream).stage("wheel", total=100) as stage:
        time.sleep(0.12)
        stage.done = 50
        time.sleep(0.12)
    shown = stream.getvalue()
    assert shown.startswith("  wheel: .")
    assert " 50%" in shown
    assert shown.count("\n") == 1
    assert "\r" not in shown
    assert "\x1b" not in shown


def test_failure_is_shown_as_such() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="no"), Display(stream).stage("wheel"):
        raise ValueError("no")
    assert stream.getvalue() == "  wheel: failed (0.0 s)\n"


def test_own_outcome() -> None:
    stream = io.StringIO()
    with Display(stream).stage("mirror") as stage:
        stage.outcome = "not reachable"
    assert stream.getvalue() == "  mirror: not reachable (0.0 s)\n"
