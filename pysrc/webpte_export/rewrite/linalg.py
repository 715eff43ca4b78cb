"""Linear algebra of small matrices, with loops over rows and columns unrolled.

Matrices are (..., n, n), and all matrices of a batch take the same steps. Eliminations choose the
largest pivot of a column, as LAPACK does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from webpte_export.errors import ExportError

aten = torch.ops.aten
MOST_ROWS = 32

LINEAR_ALGEBRA = frozenset(
    (
        *("linalg_cholesky", "linalg_cholesky_ex", "cholesky", "linalg_inv", "linalg_inv_ex"),
        *("inverse", "linalg_pinv", "pinverse", "slogdet", "linalg_slogdet", "_linalg_slogdet"),
        *("logdet", "det", "linalg_det", "_linalg_det", "linalg_solve", "linalg_solve_ex"),
        *("linalg_solve_triangular", "triangular_solve", "cholesky_solve", "cholesky_inverse"),
        *("linalg_qr", "linalg_svd", "_linalg_svd", "linalg_eigh", "_linalg_eigh"),
        *("linalg_matrix_exp", "matrix_exp", "linalg_lu", "linalg_lu_factor"),
        *("linalg_matrix_power", "linalg_lstsq", "linalg_matrix_rank"),
    )
)


def _size(a: Tensor) -> int:
    n = a.shape[-1]
    if isinstance(n, int) and n <= MOST_ROWS:
        return n
    raise ExportError(
        f"inverses, determinants and factors are of matrices of at most {MOST_ROWS} rows, but "
        f"here are {n}. Compute them before the model, or split the matrix into blocks."
    )


def _info(a: Tensor) -> Tensor:
    return torch.zeros(a.shape[:-2], dtype=torch.int32)


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    n = _size(a)
    a = a.mT if upper else a
    columns: list[Tensor] = []
    for j in range(n):
        rest = a[..., j:, j]
        for column in columns:
            rest = rest - column[..., j:] * column[..., j : j + 1]
        own = rest / torch.sqrt(rest[..., :1])
        columns.append(torch.nn.functional.pad(own, (j, 0)))
    found = torch.stack(columns, -1)
    return found.mT if upper else found


def eliminated(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the solution of a x = b, the product of the pivots' signs, and log|det a|."""
    n = _size(a)
    rows = torch.cat([a, b], -1)
    sign, log = torch.ones_like(a[..., 0, 0]), torch.zeros_like(a[..., 0, 0])
    numbers = torch.arange(n, dtype=torch.float32)
    for j in range(n):
        # The pivot's place: the first of the largest.
        size = torch.where(numbers >= j, torch.abs(rows[..., j]), -1.0)
        largest = size == torch.amax(size, -1, keepdim=True)
        place = torch.amin(torch.where(largest, numbers, float(n)), -1, keepdim=True)
        chosen, is_own = (numbers == place).unsqueeze(-1), (numbers == j).unsqueeze(-1)
        pivot_row = torch.where(chosen, rows, 0.0).sum(-2, keepdim=True)
        rows = torch.where(chosen, rows[..., j : j + 1, :], rows)  # row j is overwritten below
        pivot = pivot_row[..., j : j + 1]
        sign = (
            sign * (torch.sign(pivot) * torch.where(place.unsqueeze(-1) == j, 1.0, -1.0))[..., 0, 0]
        )
        log = log + torch.log(torch.abs(pivot))[..., 0, 0]
        unit = pivot_row / pivot
        rows = torch.where(is_own, unit, rows - rows[..., j : j + 1] * unit)
    return rows[..., n:], sign, log


def _eye(a: Tensor) -> Tensor:
    return torch.eye(_size(a), dtype=a.dtype).expand(a.shape)


def inverse(a: Tensor) -> Tensor:
    n = _size(a)
    if n == 1:
        return 1 / a
    if n == 2:
        p, q, r, s = a[..., 0, 0], a[..., 0, 1], a[..., 1, 0], a[..., 1, 1]
        turned = torch.stack([torch.stack([s, -q], -1), torch.stack([-r, p], -1)], -2)
        return turned / (p * s - q * r)[..., None, None]
    return eliminated(a, _eye(a))[0]


def determinant(a: Tensor) -> Tensor:
    n = _size(a)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    _, sign, log = eliminated(a, _eye(a)[..., :1])
    return sign * torch.exp(log)


def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not left:
        turned = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    n = _size(a)
    found: dict[int, Tensor] = {}
    for i in range(n - 1, -1, -1) if upper else range(n):
        rest = b[..., i, :]
        for j, row in found.items():
            rest = rest - a[..., i, j : j + 1] * row
        found[i] = rest if unitriangular else rest / a[..., i, i : i + 1]
    return torch.stack([found[i] for i in range(n)], -2)


def _cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    return cholesky(a, upper), _info(a)


def _inv_ex(a: Tensor, *, check_errors: bool = False) -> Any:
    return inverse(a), _info(a)


def _slogdet(a: Tensor) -> Any:
    _, sign, log = eliminated(a, _eye(a)[..., :1])
    return sign, log, a, _info(a).unsqueeze(-1).expand(a.shape[:-1])


def _det(a: Tensor) -> Any:
    return determinant(a), a, _info(a).unsqueeze(-1).expand(a.shape[:-1])


def _solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    is_vector = b.dim() == a.dim() - 1
    if not left:
        a, b = a.mT, b.mT
    found = eliminated(a, b.unsqueeze(-1) if is_vector else b)[0]
    found = found.squeeze(-1) if is_vector else found
    pivots = _info(a).unsqueeze(-1).expand(a.shape[:-1])
    return found if left else found.mT, a, pivots, _info(a)


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    first = solve_triangular(factor.mT if upper else factor, b, upper=False)
    return solve_triangular(factor if upper else factor.mT, first, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(_eye(factor), factor, upper)


def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    matrix = a.mT if transpose else a
    turned = upper != transpose
    return solve_triangular(matrix, b, upper=turned, unitriangular=unitriangular), a


def table() -> dict[Any, Callable[..., Any]]:
    return {
        # The composite operators check values after these, which a program cannot.
        aten.linalg_cholesky.default: lambda a, *, upper=False: cholesky(a, upper),
        aten.linalg_inv.default: inverse,
        aten.inverse.default: inverse,
        aten.linalg_solve.default: lambda a, b, *, left=True: _solve_ex(a, b, left=left)[0],
        aten.linalg_cholesky_ex.default: _cholesky_ex,
        aten.cholesky.default: cholesky,
        aten.linalg_inv_ex.default: _inv_ex,
        aten._linalg_slogdet.default: _slogdet,
        aten._linalg_det.default: _det,
        aten._linalg_solve_ex.default: _solve_ex,
        aten.linalg_solve_triangular.default: solve_triangular,
        aten.triangular_solve.default: triangular_solve,
        aten.cholesky_solve.default: cholesky_solve,
        aten.cholesky_inverse.default: cholesky_inverse,
    }
