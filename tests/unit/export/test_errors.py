"""Errors of exporters are passed on whole, with their suggested fixes."""

from __future__ import annotations

import pytest

from webpte_export.errors import error_text

TORCH = """Constraints violated (batch)! For more information, run with TORCH_LOGS="+dynamic".
  - Not all values of batch = L['x'].size()[0] satisfy the guard batch != 1.

  - Not all values of batch in the specified range batch <= 8 are valid.
Suggested fixes:
  batch = Dim('batch', min=2, max=8)
"""


def test_suggested_fixes_are_kept_and_lines_stay_lines() -> None:
    told = error_text(ValueError(TORCH))
    assert told.startswith("ValueError: Constraints violated (batch)!")
    assert told.endswith("Suggested fixes:\n  batch = Dim('batch', min=2, max=8)")
    assert " / " not in told


def test_the_original_error_is_told_and_a_long_one_is_cut_with_a_count() -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = KeyError("\n".join(f"line {at}" for at in range(40)))
    told = error_text(ValueError("x")), error_text(outer, 1)
    assert told[0] == "ValueError: x"
    assert told[1].startswith("KeyError: ")
    long = error_text(ValueError("\n".join(f"line {at}" for at in range(40))))
    assert long.endswith("line 23\n... 16 more lines")


def test_an_error_without_a_message_is_told_by_its_line() -> None:
    with pytest.raises(AssertionError) as caught:
        raise AssertionError
    assert error_text(caught.value).startswith("AssertionError: raise AssertionError (test_errors")
