"""The one rule for whether two arrays agree: report, page and verify use it."""

from __future__ import annotations

import numpy as np
import pytest

from page.sections.outputs.view import comparison_view
from support.page.markup import check
from webpte.inspection.report.difference import EXACT, Difference, Tolerance, difference
from webpte_export.suites.suite import compare as verify
from webpte_export.suites.suite import suite_tolerance

RULE = Tolerance()


def compare(actual: np.ndarray, wanted: np.ndarray, tolerance: Tolerance = RULE) -> Difference:
    return difference(actual, wanted, tolerance)


def test_agrees_within_the_tolerance() -> None:
    expected = np.array([1, 100, 0], np.float32)
    result = compare(expected + np.array([5e-4, 0.05, 5e-4], np.float32), expected)
    assert result.agrees
    assert result.max_abs == pytest.approx(0.05, rel=1e-3)
    assert result.worst == (1,)


def test_names_what_is_wrong() -> None:
    expected = np.zeros((3, 4), np.float32)
    actual = expected.copy()
    actual[2, 1] = 0.5
    result = compare(actual, expected)
    assert not result.agrees
    assert (result.wrong, result.count, result.worst) == (1, 12, (2, 1))


def test_nan_equals_nan_only() -> None:
    nan = np.array([np.nan, 1.0])
    assert compare(nan, nan).agrees
    assert not compare(nan, np.array([0.0, 1.0])).agrees
    assert compare(nan, np.array([0.0, 1.0])).max_abs == np.inf


def test_infinities() -> None:
    inf = np.array([np.inf, -np.inf])
    assert compare(inf, inf).agrees
    assert compare(inf, inf).max_abs == 0
    assert not compare(inf, -inf).agrees


def test_other_types_and_shapes() -> None:
    assert compare(np.array([True]), np.array([1])).agrees
    assert not compare(np.array([2**40], np.int64), np.array([2**40 + 2**38], np.int64)).agrees
    assert compare(np.zeros(3), np.zeros((3, 1))).problem == "[3] here, [3, 1] there"
    assert compare(np.zeros((0, 3)), np.zeros((0, 3))).agrees


def test_the_worst_element_exceeds_its_tolerance_most() -> None:
    """Page, report and verify name element 0, although element 1 is off by more."""
    actual, wanted = np.array([0.1, 1000.9]), np.array([0.0, 1000.0])
    found = compare(actual, wanted)
    assert (found.wrong, found.worst) == (1, (0,))
    assert "worst at [0]" in check(comparison_view(found, "x.npy")).text
    assert "worst at [0]" in str(verify(actual, wanted, suite_tolerance(1e-3, 1e-3)).problem)


@pytest.mark.parametrize(
    ("tolerance", "agrees"), [(RULE, True), (suite_tolerance(1e-3, 1e-3), False)]
)
def test_page_report_and_verify_give_one_verdict(tolerance: Tolerance, agrees: bool) -> None:
    actual, wanted = np.array([1.0015]), np.array([1.0])
    found = compare(actual, wanted, tolerance)
    assert found.agrees is agrees
    assert ("Matches" in check(comparison_view(found, "x.npy")).text) is agrees
    assert (verify(actual, wanted, tolerance).problem is None) is agrees


def test_relative_to_the_largest_element() -> None:
    rule = Tolerance(rtol=1e-3, atol=0.0, relative_to="largest")
    wanted = np.array([0.0, 1000.0, np.inf])
    assert compare(wanted + np.array([0.9, 0.0, 0.0]), wanted, rule).agrees
    found = compare(wanted + np.array([0.0, 1.1, 0.0]), wanted, rule)
    assert (found.wrong, found.worst) == (1, (1,))
    assert found.used == pytest.approx(1.1)
    assert not compare(np.array([0.0, 1000.0, 5.0]), wanted, rule).agrees


def test_nan_agrees_with_nan_only_where_the_rule_says_so() -> None:
    nan = np.array([np.nan])
    assert compare(nan, nan).agrees
    assert not compare(nan, nan, Tolerance(equal_nan=False)).agrees


def test_integers_that_float64_cannot_tell_apart() -> None:
    big = np.array([2**60], np.int64)
    assert compare(big, big, EXACT).agrees
    assert not compare(big, big + 1, EXACT).agrees


def test_either_passes_as_suites_have_always_passed() -> None:
    """Within atol, or within rtol of max(|wanted|, 1e-6)."""
    random = np.random.default_rng(3)
    wanted = (random.standard_normal(4000) * 10.0 ** random.integers(-9, 4, 4000)).astype("f4")
    actual = (wanted * (1 + random.uniform(-3e-3, 3e-3, 4000))).astype("f4")
    error = np.abs(actual.astype("f8") - wanted.astype("f8"))
    relative = error / np.maximum(np.abs(wanted.astype("f8")), 1e-6)
    for atol, rtol in ((1e-3, 1e-3), (1e-6, 2e-3), (0.0, 1e-3), (1e-4, 0.0)):
        passed = (error <= atol) | (relative <= rtol)
        found = compare(actual, wanted, suite_tolerance(atol, rtol))
        assert found.wrong == np.count_nonzero(~passed)
        assert 0 < found.wrong < found.count


def test_signalling_nans_agree_without_a_warning() -> None:
    signalling = np.array([0x7F800001], np.uint32).view(np.float32)
    assert compare(signalling, signalling, Tolerance()).agrees
