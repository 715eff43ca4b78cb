"""The check of an export, with and without a running event loop."""

from __future__ import annotations

import asyncio
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from webpte_export.check_export import check_on_numpy
from webpte_export.sensitivity import distance, tolerances
from webpte_export.suite_writer import Call, Tolerance


def first_case(root: Path, folder: Path) -> dict[str, object]:
    with zipfile.ZipFile(root / "tests" / "suites" / "beyond.zip") as archive:
        archive.extractall(folder)
    first: dict[str, object] = json.loads((folder / "manifest.json").read_text("utf-8"))[0]
    return first


def test_a_notebook_can_export(root: Path, tmp_path: Path) -> None:
    """A notebook has a running event loop, as this test has."""

    async def cell() -> bool:
        return check_on_numpy(tmp_path, first_case(root, tmp_path)).passed

    assert asyncio.run(cell())


@dataclass(frozen=True)
class Fixed:
    """A method without a module."""

    tolerance: Tolerance | None = None
    module: None = None
    calls: tuple[tuple[int], ...] = ((1,),)


def test_tolerances_are_measured_for_dynamic_quantization_alone() -> None:
    def refuse(*_: object) -> list[Call]:
        raise AssertionError("nothing is to be measured")

    usual, own = Tolerance(1e-3, 1e-3), Tolerance(1.0, 0.5)
    methods = {"a": Fixed(), "b": Fixed(own)}
    for quantize in (None, "4w", "8w"):
        found = tolerances(methods, {"a": [], "b": []}, usual, quantize, refuse)
        assert found == {"a": usual, "b": own}
    assert tolerances({"b": Fixed(own)}, {"b": []}, usual, "8da4w", refuse) == {"b": own}


def test_distances_leave_out_what_is_not_compared_or_no_number() -> None:
    numbers, whole = np.array([1.0, np.inf, np.nan], np.float32), np.array([3])
    expected = [Call((), (numbers, None, whole)), Call((), (numbers[:0],))]
    other = [Call((), (numbers + np.float32(0.25), None, whole + 9)), Call((), (numbers[:0],))]
    assert distance(expected, expected) == 0
    assert distance(expected, other) == 0.25
