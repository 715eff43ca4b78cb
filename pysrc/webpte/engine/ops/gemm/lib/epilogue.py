"""The epilogue of a GEMM or a convolution: an element-wise formula of the sums and a residual."""

from __future__ import annotations

from dataclasses import dataclass

from webpte.engine.ops.core.args import TensorArg


@dataclass(frozen=True)
class Epilogue:
    """A formula of the sums `x`, a residual `y` and the scalars `a`, `b` and `c`.

    The residual has an element for each output, or, with `per_row`, an element for each row of the
    GEMM (each channel of a convolution). Past the end of a residual shorter than the output, y is
    0.
    """

    residual: TensorArg | None = None
    formula: str = "x"
    scalars: tuple[float, ...] = ()
    per_row: bool = False

    @property
    def residual_id(self) -> int | None:
        return None if self.residual is None else self.residual.id

    @property
    def residual_numel(self) -> int:
        return 0 if self.residual is None else self.residual.numel

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        return (("FORMULA", self.formula),)

    @property
    def override(self) -> tuple[str, float]:
        """RESIDUAL in WGSL: 0 without a residual, else its layout, per element or per row."""
        return "RESIDUAL", 0 if self.residual is None else 1 + self.per_row

    def first_scalars(self, count: int) -> tuple[float, ...]:
        """Return `count` scalars, filled up with zeros."""
        return (*self.scalars, *[0.0] * count)[:count]


def adding(residual: TensorArg | None) -> Epilogue:
    """Return the epilogue that adds a residual; without a residual, the empty epilogue."""
    return Epilogue() if residual is None else Epilogue(residual, "x + y")
