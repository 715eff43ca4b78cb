"""Random graphs that match rules of fusion, or nearly do.

Each step of a walk applies an op to a known value, which gives a new one. Mostly the ops match a
rule; often with a difference that the rule has to notice: an extra reader, a broadcast sum, views
that turn a row into a column, a value that is written twice. All values without readers are
outputs, and some of the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.graphs.encoder_graphs import Encoder
from support.write.pte_writer import GraphWriter

Array = np.ndarray
Dims = tuple[int, ...]

KINDS = ("q4", "q4", "int8", "float", "float", "rounded")
BENDS = ("relu", "sigmoid", "tanh", "silu", "hardswish", "abs", "neg", "hardsigmoid")
WIDTHS = (1, 4, 7, 8, 12, 32, 64, 96)


@dataclass(frozen=True)
class RandomGraph:
    """A graph; `steps` are inputs of successive calls, `tolerance` is relative to the largest."""

    name: str
    graph: GraphWriter
    steps: list[list[Array]]
    tolerance: float


class Walk(Encoder):
    """The common part of all walks: random numbers, inputs, and the values without readers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random = random.Random(seed)
        self.kind = self.random.choice(KINDS)
        self.given: list[int] = []
        self.pool: list[int] = []
        self.live: tuple[int, tuple[int, ...]] | None = None  # a live size, and its possible axes
        self._read: set[int] = set()
        write = self.g.op

        def op(name: str, *args: int) -> int:
            self._read.update(args[:-1])
            return write(name, *args)

        self.g.op = op  # type: ignore[method-assign]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def dims(self, value_id: int) -> Dims:
        return self.g.shapes[value_id][0]

    def input(self, *dims: int) -> int:
        self.given.append(self.g.tensor(dims))
        if self.live_axis(dims) is not None:
            self.g.host(self.given[-1], dynamic=True)
        return self.given[-1]

    def live_axis(self, dims: Dims) -> int | None:
        """Return the axis of these dims that may be smaller from call to call."""
        if self.live is None:
            return None
        size, axes = self.live
        found = [a for a in axes if -len(dims) <= a < len(dims) and dims[a] == size]
        return found[0] if found else None

    def reshape(self, x: int, *sizes: int) -> int:
        """Write a view, one of whose sizes may be live: -1."""
        count = int(np.prod(self.dims(x)))
        rest = int(np.prod([n for n in sizes if n > 0]))
        out = self.g.tensor(tuple(count // rest if n < 0 else n for n in sizes))
        return self.g.op("aten.view_copy.default", x, self.g.int_list(sizes), out)

    def kept(self, value_id: int) -> int:
        self.pool.append(value_id)
        return value_id

    def recent(self) -> int:
        """Pick a recent value, so that chains arise."""
        return self.pool[-1] if self.chance(0.75) else self.random.choice(self.pool)

    def op(self, name: str, *args: int, like: int) -> int:
        return self.g.op(name, *args, self.like(like))

    def bend(self, x: int) -> int:
        """Write an element-wise op, sometimes with scalars."""
        g, name = self.g, self.random.choice((*BENDS, "gelu", "clamp", "elu", "leaky_relu"))
        scalars: dict[str, Callable[[], tuple[int, ...]]] = {
            "gelu": lambda: (g.string(self.random.choice(("none", "tanh"))),),
            "clamp": lambda: (g.double(-0.5), self.random.choice((g.double(1.25), g.null()))),
            "elu": lambda: tuple(map(g.double, (1.5, 0.5, 2.0))),
            "leaky_relu": lambda: (g.double(0.3),),
        }
        args = scalars[name]() if name in scalars else ()
        return self.op(f"aten.{name}.default", x, *args, like=x)

    def binary(self, name: str, a: int, b: int) -> int:
        """Write a binary op in either order, with broadcast dims."""
        dims = np.broadcast_shapes(self.dims(a), self.dims(b))
        pair = (a, b) if self.chance(0.5) else (b, a)
        alpha = self.random.choice((1, 1, 1, 2))
        extra = (self.g.int(alpha),) if name == "add" else ()
        return self.g.op(f"aten.{name}.Tensor", *pair, *extra, self.g.tensor(dims))

    def beside(self, x: int) -> int:
        """Return a value that can be added to x, mostly of its dims."""
        dims = self.dims(x)
        alike = [i for i in self.pool if self.dims(i) == dims]
        if alike and self.chance(0.3):
            return self.random.choice(alike)
        if self.chance(0.7):
            return self.input(*dims)
        return self.input(*self.random.choice([dims[-1:], (1,), (1, *dims), (2, *dims)]))

    def combine(self, x: int) -> int:
        return self.binary(self.random.choice(("add", "add", "mul")), x, self.beside(x))

    def overwrite(self, x: int) -> int:
        """Write a buffer that is read, written and read again."""
        state = self.constant(self.floats(*self.dims(x)))
        self.kept(self.bend(state))
        self.g.op("aten.mul.Tensor", x, self.bend(x), state)
        return self.bend(state)

    def ends(self) -> list[int]:
        return [i for i in self.pool if i not in self._read or self.chance(0.1)]

    def finished(self, name: str, change: Callable[[Array], None] = lambda _: None) -> RandomGraph:
        """Return the graph; `change` may modify the inputs before they are cut to live sizes."""
        self.g.inputs(*self.given)
        self.g.outputs(*dict.fromkeys(self.ends()))
        sizes, steps = [0], list[list[Array]]()
        if self.live is not None:
            size, _ = self.live
            sizes = [size, 1, self.random.randint(0, size), size]
        for size in sizes:
            arrays = [self.floats(*self.dims(i)) for i in self.given]
            for array in arrays:
                change(array)
            steps.append([self._cut(array, size) for array in arrays])
        loose = 3e-2 if self.kind == "rounded" else 2e-4
        return RandomGraph(name, self.g, steps, loose)

    def _cut(self, array: Array, size: int) -> Array:
        axis = self.live_axis(array.shape)
        return array if axis is None else np.take(array, range(size), axis)


class Rows(Walk):
    """A walk over GEMMs and their neighbours, of [rows, width] or [1, rows, width]."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rows = self.random.choice((1, 1, 2, 3, 7, 16, 17, 20))
        if self.rows > 1 and self.chance(0.4):
            self.live = (self.rows, (-2, -3))
        self.kept(self.input(self.rows, self.random.choice(WIDTHS[2:])))

    def lined(self, x: int) -> int:
        """View x with two dims: rows and columns."""
        dims = self.dims(x)
        if len(dims) == 2 and dims[0] == self.rows:
            return x
        return self.reshape(x, -1, dims[-1]) if dims[-2:-1] == (self.rows,) else self.given[0]

    def some_view(self, x: int) -> int:
        width = self.dims(x)[-1]
        sizes = self.random.choice([(1, -1, width), (-1, 1, width), (-1, width)])
        return self.reshape(x, *sizes)

    def layer(self, x: int, width: int = 0) -> int:
        kind = self.kind if self.chance(0.85) else self.random.choice(("q4", "int8", "float"))
        kind = "q4" if self.dims(x)[-1] == 1 else kind  # k = 1 suits no other kind
        width = width or self.random.choice(WIDTHS)
        if kind == "float" and len(self.dims(x)) == 2 and self.chance(0.3):
            return self.matrix(x, width)
        return self.linear(x, width, kind, bias=kind != "int8" and self.chance(0.3))

    def matrix(self, x: int, width: int) -> int:
        """Write a GEMM with a matrix input, maybe scaled and added to a scaled value."""
        g, (rows, inner) = self.g, self.dims(x)
        weight = self.constant(self.floats(inner, width) / np.float32(inner**0.5))
        if self.chance(0.4):
            return g.op("aten.mm.default", x, weight, g.tensor((rows, width)))
        dims = self.random.choice([(width,), (1, width), (1,)])
        scales = [g.double(self.random.choice((1.0, 1.0, 0.5, 0.0))) for _ in range(2)]
        given = (self.constant(self.floats(*dims)), x, weight, *scales)
        return g.op("aten.addmm.default", *given, g.tensor((rows, width)))

    def product(self, x: int) -> int:
        x = self.lined(x)
        if self.chance(0.4):
            x = self.kept(self.norm(x))
        if self.chance(0.1) and self.live is None:
            return self.g.op(
                "aten.linear.default", x, x, self.g.null(), self.g.tensor((self.rows,) * 2)
            )
        x = self.some_view(x) if self.chance(0.2) else x
        found = self.kept(self.layer(x))
        if self.chance(0.3):
            found = self.kept(self.some_view(found))
        return self.combine(found) if self.chance(0.5) else self.bend(found)

    def gated(self, x: int) -> int:
        x, width = self.lined(x), self.random.choice(WIDTHS[1:])
        x = self.norm(x) if self.chance(0.6) else x
        gate, up = self.layer(x, width), self.layer(x, width)
        if self.chance(0.2):
            gate = self.some_view(gate)
        bent = gate if self.chance(0.8) else up
        if self.chance(0.3):
            silu = self.op("aten.silu.default", bent, like=bent)
        else:
            silu = self.binary("mul", gate, self.op("aten.sigmoid.default", bent, like=bent))
        if self.chance(0.1):
            self.kept(gate)
        if self.rows == 1 and self.chance(0.3):
            up = self.reshape(up, width, 1)
        return self.binary("mul", silu, up)

    def joined(self, x: int) -> int:
        """Write three layers of one x, or of each other's results, in random order."""
        x, found = self.lined(x), list[int]()
        for _ in range(3):
            found.append(self.kept(self.layer(x)))
            if self.chance(0.3):
                self.kept(self.bend(found[-1]))
        if self.chance(0.5):
            x = self.lined(found[0])
            found += [self.kept(self.layer(x)) for _ in range(3)]
        return found[-1]

    def normalized(self, x: int) -> int:
        """Write a batch norm over rows of channels, after an activation."""
        x = self.bend(self.lined(x))
        channels = self.dims(x)[1]
        affine = [self.constant(self.floats(channels)) for _ in range(3)]
        variance = self.constant(np.abs(self.floats(channels)) + np.float32(0.1))
        outs = [self.like(x), self.g.tensor((0,)), self.g.tensor((0,))]
        rest = (self.g.double(0.1), self.g.double(1e-5), self.g.value_list(outs))
        self.g.op("aten._native_batch_norm_legit_no_training.default", x, *affine, variance, *rest)
        if self.chance(0.1):
            self.kept(x)
        return outs[0]

    def grow(self) -> None:
        step = self.random.choice(
            [self.product] * 4
            + [self.gated] * 2
            + [self.bend] * 2
            + [self.combine, self.joined, self.normalized, self.some_view]
            + [self.overwrite] * (self.live is None)
        )
        found = step(self.recent())
        # Broadcast values would grow without limit.
        if int(np.prod(self.dims(found))) < 5000 and len(self.dims(found)) < 5:
            self.kept(found)


def rows(seed: int) -> RandomGraph:
    walk = Rows(seed)
    for _ in range(walk.random.randint(1, 4)):
        walk.grow()
    return walk.finished("rows")
