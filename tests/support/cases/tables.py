"""Every row of every family's table of cases, as a program and its calls."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from support.cases.cases import Array, Case
from support.cases.row_cases import RowCase
from support.write.graph_writer import GraphWriter
from webpte.inspection.report.difference import EXACT, Tolerance, difference

FOLDER = Path(__file__).parent
OF_PORTABLE_KERNELS = "portable"  # those tables have no programs

# For tables without a tolerance: sums in another order than NumPy's.
RTOL, ATOL_OF_LARGEST = 1e-4, 4e-6


@dataclass(frozen=True)
class Row:
    """A case of whatever class. `family` is the table's: attention, binary, ..."""

    family: str
    case: Any

    def __str__(self) -> str:
        return f"{self.family}-{self.case}"

    def program(self) -> bytes:
        written: bytes = self.case.program()
        return written

    def half_program(self) -> bytes:
        """Build the program as `force_fp16` exports it: f16 inside, float32 at its boundary."""
        GraphWriter.halves = True
        try:
            return self.program()
        finally:
            GraphWriter.halves = False

    @property
    def steps(self) -> list[list[Array]]:
        """The inputs of each call."""
        if isinstance(self.case, Case):
            return [list(self.case.inputs)]
        if isinstance(self.case, RowCase):
            return [list(step) for step in self.case.steps]
        return [list(self.case.inputs(index)) for index in range(len(self.case.steps))]


def table_files() -> list[Path]:
    """The files of all tables, in the order of their names, whichever folder they are in."""
    return sorted(FOLDER.glob("*/*_cases.py"), key=lambda path: path.name)


def families() -> list[str]:
    """List the families whose tables have programs."""
    files = (path for path in table_files() if path.parent.name != OF_PORTABLE_KERNELS)
    return [path.stem.removesuffix("_cases") for path in files]


def import_table(path: Path) -> ModuleType:
    return importlib.import_module(f"support.cases.{path.parent.name}.{path.stem}")


def every_row() -> Iterator[Row]:
    seen: set[int] = set()
    for path in table_files():
        if path.parent.name == OF_PORTABLE_KERNELS:
            continue
        for table in vars(import_table(path)).values():
            for case in table if isinstance(table, list | tuple) else ():
                if hasattr(case, "program") and id(case) not in seen:
                    seen.add(id(case))
                    yield Row(path.stem.removesuffix("_cases"), case)


def one_row_per_op() -> list[Row]:
    found: dict[tuple[str, str | None], Row] = {}
    for row in every_row():
        found.setdefault((row.family, getattr(row.case, "op", None)), row)
    return list(found.values())


# Families whose operators have several kernels each: every sixth of their rows has them all, as
# the test of naga makes sure. Of the others a row of each operator has all kernels; further rows
# have them with other numbers.
SEVERAL_KERNELS = {
    *("cache_update", "cat", "choose_qparams", "conv", "linear_q4", "matmul", "q8ta_linear"),
    *("sample", "sort", "strided", "topk"),
}


def rows_of_every_kernel() -> list[Row]:
    """List rows that have all kernels, but not with all numbers."""
    several = [row for row in every_row() if row.family in SEVERAL_KERNELS]
    return several[2::6] + one_row_per_op()


def usual_rows() -> list[Row]:
    """List the rows of a usual run: rows with all kernels, and every twentieth of the others."""
    needed = {str(row) for row in rows_of_every_kernel()}
    others = (row for row in every_row() if row.family not in SEVERAL_KERNELS)
    chosen = needed | {str(row) for i, row in enumerate(others) if i % 20 == 0}
    return [row for row in every_row() if str(row) in chosen]


def rounded_to_half(array: Array) -> Array:
    """Round float32 to f16 and back."""
    # ARM's conversion reports signaling NaNs, and random bits may be such.
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float16).astype(np.float32) if array.dtype == np.float32 else array


def agree(case: Any, one: Array, other: Array) -> bool:
    """Tell whether a result agrees with the reference's, by the tolerance of the case."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        tolerance = EXACT
    elif hasattr(case, "rtol"):
        tolerance = Tolerance(case.rtol, getattr(case, "atol", case.rtol))
    else:
        finite = np.abs(other[np.isfinite(other)])
        tolerance = Tolerance(RTOL, ATOL_OF_LARGEST * float(finite.max(initial=0.0)))
    return difference(one, other, tolerance).agrees
