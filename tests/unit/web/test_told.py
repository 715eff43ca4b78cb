"""Texts of the page: differences, figures, errors, progress and questions."""

from __future__ import annotations

import numpy as np

from page.sections.inputs.view import ask_view
from page.sections.open.file_view import unloaded_view
from page.sections.open.view import opening_card, progress_view
from page.sections.outputs.view import age_view, comparison_view, unknown_state_view
from page.sections.run.view import stats_strip
from page.shared.html.errors import error_view, way_out
from support.page.markup import NASTY, check, method
from webpte import Stats
from webpte.errors import (
    ExecutionError,
    FormatError,
    GraphError,
    InputError,
    UnsupportedOpError,
)
from webpte.inspection.report.difference import Tolerance, difference


def test_comparison() -> None:
    def shown(actual: np.ndarray, wanted: np.ndarray, against: str) -> str:
        return check(comparison_view(difference(actual, wanted, Tolerance()), against)).text

    one = np.zeros((2, 3), np.float32)
    assert "Matches x.npy" in shown(one, one, "x.npy")
    told = shown(one, one + 1, NASTY)
    assert f"Differs from {NASTY} in 6 of 6 values" in told
    assert "Not comparable" in shown(one, one[0], "x.npy")


def test_stats() -> None:
    told = check(stats_strip(Stats(buffers=3, buffer_bytes=2048, dispatches=5), "WebGPU")).text
    for part in ("WebGPU", "2.00 KiB", "dispatches5"):
        assert part in told


def test_errors_show_type_message_hint_and_traceback() -> None:
    try:
        raise FormatError(f"bad {NASTY}", 12)
    except FormatError as error:
        checked = check(error_view(error, f"opening {NASTY}"))
    for part in ("FormatError", f"bad {NASTY} (at byte 12)", "complete .pte", "Traceback"):
        assert part in checked.text
    assert checked.acts() == {"dismiss"}
    assert "recover" in check(error_view(ValueError(), "x", {"recover": "Rebuild"})).acts()


def test_a_file_that_the_heading_names_is_not_named_again() -> None:
    for told in ("a.pte: it is cut off", "b.ptd: it is cut off"):
        shown = error_view(ValueError(told), "opening a.pte").partition("<details")[0]
        assert shown.count("a.pte") == 1
        assert ("b.ptd" in shown) == told.startswith("b.ptd")


def test_way_out_follows_the_class() -> None:
    assert "without these operators" in way_out(UnsupportedOpError("m", {"x": 1}))
    assert "signature" in way_out(InputError("x"), "running forward")
    assert way_out(InputError("the question is too long"), "answering") == ""
    assert way_out(ValueError("x")) == ""


def test_way_out_looks_at_the_cause() -> None:
    error = ExecutionError("method 'forward'")
    error.__cause__ = MemoryError("full")
    assert "no memory left" in way_out(error)
    error.__cause__ = GraphError("shapes do not broadcast together")
    assert way_out(error) == ""
    assert "contradicts itself" in way_out(error.__cause__)


def test_progress() -> None:
    def states(amounts: dict[str, tuple[int, int]]) -> list[str]:
        checked = check(progress_view(amounts))
        steps = [known.get("class") or "" for tag, known in checked.elements if tag == "li"]
        return [step.rsplit("-", 1)[-1] for step in steps]

    assert states({"fetch": (10, 100)}) == ["now", "next", "next", "next"]
    assert states({"fetch": (100, 100), "read": (0, 0)}) == ["done", "now", "next", "next"]
    # Kernels and constants are under way together.
    both = {"read": (1, 1), "compile": (2, 8), "constants": (4096, 8192)}
    assert states(both) == ["done", "done", "now", "now"]
    told = check(progress_view(both)).text
    assert "2 of 8" in told
    assert "4.00 KiB of 8.00 KiB" in told
    opening = check(opening_card(NASTY))
    assert f"Opening {NASTY}" in opening.text
    assert opening.acts() == {"cancel-opening"}


def test_a_file_that_could_not_be_loaded_shows_what_it_holds() -> None:
    nasty = method(name=NASTY, ops={NASTY: 1}, unsupported={NASTY: 1})
    checked = check(unloaded_view(NASTY, {NASTY: nasty}, {}))
    assert "1 operator not supported" in checked.text
    assert checked.acts() == set()


def test_questions() -> None:
    assert ask_view({}) == ""
    checked = check(ask_view({4: (NASTY, {0: "x", 2: NASTY}), 5: ("b.npy", {1: "y"})}))
    assert checked.acts() == {"place", "leave"}
    asked = [known for _, known in checked.elements if known.get("data-act") == "place"]
    assert [(known["data-file"], known["data-input"]) for known in asked] == [
        ("4", "0"),
        ("4", "2"),
        ("5", "1"),
    ]


def test_age() -> None:
    assert age_view([]) == ""
    assert "Inputs changed; x. Run" in check(age_view(["inputs changed", "x"])).text
    told = check(unknown_state_view("it had more than 5 calls"))
    assert "more than 5 calls" in told.text
    assert told.acts() == {"recover"}
