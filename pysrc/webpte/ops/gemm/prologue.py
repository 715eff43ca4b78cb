"""What happens to x on its way into a product of few rows: see wgsl/lib/gemm/prologue.wgsl."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.ops.core.args import TensorArg
from webpte.ops.core.records import pack
from webpte.ops.gemm.gemm import Overrides, Types

# Of a workgroup that normalizes: sums and squares of 4 rows fit into the 16 KB that all GPUs have.
NORMED_THREADS = 128


@dataclass(frozen=True)
class Prologue:
    """What happens to x on its way into a product of few rows.

    With a `gain`, root mean square normalization; with a smallest scale, `least`, it is rounded to
    int8 then, as its rows' extremes ask for.
    """

    x: TensorArg
    gain: TensorArg | None = None
    eps: float = 0.0
    least: float | None = None


def gain_of(norm: Prologue | None) -> int | None:
    return None if norm is None or norm.gain is None else norm.gain.id


def rounds(norm: Prologue | None) -> bool:
    return norm is not None and norm.least is not None


def eps_of(norm: Prologue | None) -> bytes:
    """And the smallest scale, which the kernels of one row have no use for."""
    return pack("2f", norm.eps if norm else 0, (norm.least if norm else None) or 0)


def prologue_types(norm: Prologue | None) -> Types:
    """Return the text constants of wgsl/lib/gemm/prologue.wgsl.

    The space keeps the constant out of the pipeline's label.
    """
    squared = gain_of(norm) is not None and not rounds(norm)
    return (("SQUARED", " true" if squared else " false"),)


def prologue_overrides(norm: Prologue | None) -> Overrides:
    """Return the override constants of wgsl/lib/gemm/prologue.wgsl."""
    return (("NORMED", gain_of(norm) is not None), ("ROUNDED", rounds(norm)))
