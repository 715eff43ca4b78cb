"""The prologue of a skinny GEMM or GEMV: RMS norm and int8 rounding of x while it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.engine.ops.core.args import TensorArg
from webpte.engine.ops.core.records import pack
from webpte.engine.ops.gemm.lib.gemm import Overrides, Types
from webpte.engine.ops.norm.fused_norm import NormedSum

# Threads per workgroup that normalizes: sums and squares of 4 rows fit into 16 KB, which all GPUs
# have.
NORMED_THREADS = 128


@dataclass(frozen=True)
class Prologue:
    """An optional norm (with a `gain`), then an optional dynamic int8 quantization of x.

    The norm is an RMS norm, or, if `centered`, a layer norm, which only GEMV kernels support.

    Scale and zero point come from each row's minimum and maximum, with `inverse_first` as
    choose_qparams_qd8 computes them; `least` is the smallest scale, None if x is not rounded. The
    counterpart of wgsl/lib/gemm/prologue.wgsl. Only GEMV kernels
    support a `row`: the sum and norm that compute x.
    """

    x: TensorArg
    gain: TensorArg | None = None
    eps: float = 0.0
    least: float | None = None
    inverse_first: bool = False
    centered: bool = False
    row: NormedSum | None = None


def gain_of(norm: Prologue | None) -> int | None:
    """Return the value id of the norm's gain, or None."""
    return None if norm is None or norm.gain is None else norm.gain.id


def quantizes_x(norm: Prologue | None) -> bool:
    """Return whether x is rounded to int8."""
    return norm is not None and norm.least is not None


def is_centered(norm: Prologue | None) -> bool:
    """Return whether the norm is a layer norm."""
    return norm is not None and norm.centered


def pack_prologue(norm: Prologue | None) -> bytes:
    """Pack the norm's epsilon, the smallest scale and the epsilon of a computed row."""
    numbers = (norm.eps if norm else 0, (norm.least if norm else None) or 0)
    return pack("2f", *numbers) + (pack("f", norm.row.eps) if norm and norm.row else b"")


def prologue_types(norm: Prologue | None) -> Types:
    """Return the text constants of wgsl/lib/gemm/prologue.wgsl.

    The space keeps the constant out of the pipeline's label.
    """
    squared = gain_of(norm) is not None and not quantizes_x(norm)
    return (("SQUARED", " true" if squared else " false"),)


def prologue_overrides(norm: Prologue | None) -> Overrides:
    """Return the override constants of wgsl/lib/gemm/prologue.wgsl."""
    return (*_row_overrides(norm), ("DYNAMIC_INT8", quantizes_x(norm)))


def gemv_overrides(norm: Prologue | None) -> Overrides:
    """Return the override constants of the row of a GEMV, of floats or rounded to int8."""
    centered = () if quantizes_x(norm) else (("CENTERED", is_centered(norm)),)
    return (*_row_overrides(norm), *centered)


def _row_overrides(norm: Prologue | None) -> Overrides:
    inverse_first = (("INVERSE_FIRST", True),) if norm is not None and norm.inverse_first else ()
    return (("NORMED", gain_of(norm) is not None), *inverse_first)
