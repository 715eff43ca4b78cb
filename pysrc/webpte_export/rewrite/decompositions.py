"""Decomposes operators that no program has into operators that a GPU has.

PyTorch's own decompositions come later (`run_decompositions`). A decomposition takes the operator's
arguments, with the sizes of the trace, so that loops over sizes are unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from webpte_export.errors import ExportError
from webpte_export.rewrite import linalg, special

aten = torch.ops.aten
_MOST_COMPARED = 256  # elements of a sorted row that are compared with each value


def _fixed(size: Any, what: str) -> int:
    if isinstance(size, int):
        return size
    raise ExportError(f"{what} is along a dim of changing size; give it a fixed size.")


# Sorted rows


def searchsorted(
    rows: Tensor,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Count the elements of sorted rows that are less than values (with `right`, not greater)."""
    right = right or side == "right"
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    if not isinstance(values, Tensor):
        values = torch.full((), values, dtype=rows.dtype)
    count = rows.shape[-1]
    if isinstance(count, int) and count > _MOST_COMPARED:
        found = _binary_search(rows, values, right, count)
    else:
        left, other = rows.unsqueeze(-2), values.unsqueeze(-1)
        before = left <= other if right else left < other
        found = before.to(torch.float32).sum(-1)
    return found.to(torch.int32 if out_int32 else torch.int64)


def _binary_search(rows: Tensor, values: Tensor, right: bool, count: int) -> Tensor:
    """Halve the range of each value; a step is a gather and a comparison."""
    lead = values.shape[:-1] if rows.dim() > 1 else ()
    flat = values if rows.dim() > 1 else values.reshape(-1)
    found = torch.zeros_like(flat, dtype=torch.int32)
    step = 1 << (count.bit_length() - 1)
    while step:
        place = found + step
        element = rows.gather(-1, (place - 1).clamp(max=count - 1).to(torch.int64))
        before = (element <= flat if right else element < flat) & (place <= count)
        found = torch.where(before, place, found)
        step //= 2
    return found.reshape(values.shape) if not lead else found


def bucketize(
    values: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return searchsorted(boundaries, values, out_int32=out_int32, right=right)


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    """Compare with all classes; PyTorch's own checks the values, too."""
    return (x.unsqueeze(-1) == torch.arange(num_classes)).to(torch.int64)


# Padding and turning, without indices


def _padded(x: Tensor, padding: Sequence[Any], edges: Callable[..., Any]) -> Tensor:
    for number in range(len(padding) // 2):
        before, after = padding[2 * number : 2 * number + 2]
        dim = x.dim() - 1 - number
        x = torch.cat(
            [
                *([edges(x, dim, before, True)] if before > 0 else []),
                x.narrow(dim, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0)),
                *([edges(x, dim, after, False)] if after > 0 else []),
            ],
            dim,
        )
    return x


def reflection_pad(x: Tensor, padding: Sequence[Any]) -> Tensor:
    def edges(x: Tensor, dim: int, count: Any, first: bool) -> Tensor:
        return x.narrow(dim, 1 if first else x.shape[dim] - 1 - count, count).flip(dim)

    return _padded(x, padding, edges)


def replication_pad(x: Tensor, padding: Sequence[Any]) -> Tensor:
    def edges(x: Tensor, dim: int, count: Any, first: bool) -> Tensor:
        shape = [count if each == dim else -1 for each in range(x.dim())]
        return x.narrow(dim, 0 if first else x.shape[dim] - 1, 1).expand(shape)

    return _padded(x, padding, edges)


def circular_pad(x: Tensor, padding: Sequence[Any]) -> Tensor:
    def edges(x: Tensor, dim: int, count: Any, first: bool) -> Tensor:
        return x.narrow(dim, x.shape[dim] - count if first else 0, count)

    return _padded(x, padding, edges)


def roll(x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Any:
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if not (isinstance(size, int) and isinstance(shift, int)):
            return NotImplemented
        if size and (cut := shift % size):
            x = torch.cat([x.narrow(dim, size - cut, cut), x.narrow(dim, 0, size - cut)], dim)
    return x


# Chance: all numbers come from uniform or normal ones


def rand_like(x: Tensor, **_: Any) -> Tensor:
    return torch.rand(x.shape, dtype=x.dtype)


def randn_like(x: Tensor, **_: Any) -> Tensor:
    return torch.randn(x.shape, dtype=x.dtype)


def bernoulli(x: Tensor, p: Any = None, generator: Any = None) -> Tensor:
    return (torch.rand(x.shape) < (x if p is None else p)).to(x.dtype)


def exponential(x: Tensor, lambd: float = 1.0, generator: Any = None) -> Tensor:
    return (-torch.log1p(-torch.rand(x.shape)) / lambd).to(x.dtype)


def uniform(x: Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Tensor:
    return (torch.rand(x.shape) * (high - low) + low).to(x.dtype)


def normal_like(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    return (torch.randn(x.shape) * std + mean).to(x.dtype)


def normal(mean: Any, std: Any = 1.0, generator: Any = None) -> Tensor:
    like = mean if isinstance(mean, Tensor) else std
    shape = torch.broadcast_shapes(*(v.shape for v in (mean, std) if isinstance(v, Tensor)))
    return torch.randn(shape, dtype=like.dtype) * std + mean


def randint_like(x: Tensor, high: int, low: int | None = None, **_: Any) -> Tensor:
    first, last = (0, high) if low is None else (high, low)  # .low_dtype has (low, high)
    return (torch.floor(torch.rand(x.shape) * (last - first)) + first).to(x.dtype)


def randint(high: int, size: Sequence[Any], *, dtype: Any = None, **_: Any) -> Tensor:
    return torch.floor(torch.rand(size) * high).to(dtype or torch.int64)


def randint_low(low: int, high: int, size: Sequence[Any], *, dtype: Any = None, **_: Any) -> Tensor:
    return (torch.floor(torch.rand(size) * (high - low)) + low).to(dtype or torch.int64)


def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Draw by the largest of log p plus Gumbel noise."""
    if num_samples > 1 and replacement:
        x = x.unsqueeze(-2).expand(*x.shape[:-1], num_samples, x.shape[-1])
    noise = -torch.log(exponential(x).clamp(min=1e-20))
    score = torch.log(x) + noise
    if num_samples > 1 and not replacement:
        return score.topk(num_samples, -1)[1]
    found = score.argmax(-1)
    return found if num_samples > 1 else found.unsqueeze(-1)


def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: Any = 1 / 8,
    upper: Any = 1 / 3,
    training: bool = False,
    *_: Any,
) -> Any:
    """Return a leaky relu of the mean slope, as after training."""
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


RANDOM = frozenset(
    (
        *("rand", "randn", "rand_like", "randn_like", "bernoulli", "exponential", "uniform"),
        *("normal", "normal_functional", "randint", "randint_like", "multinomial", "randperm"),
        *("native_dropout", "geometric", "cauchy", "log_normal"),
    )
)


# Volumes


def grid_sampler_3d(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Sample (n, c, d, h, w) at grid (n, D, H, W, 3), whose last dim has places of w, h and d."""
    sizes = [_fixed(size, "grid_sample of a volume") for size in x.shape[2:]][::-1]
    n, c = x.shape[:2]
    shape = grid.shape[1:4]
    flat = x.reshape(n, c, -1)
    places = [_place(grid[..., i], sizes[i], padding_mode, align_corners) for i in range(3)]
    if interpolation_mode == 1:
        corners = [([torch.round(place) for place in places], None)]
    else:
        lows = [torch.floor(place) for place in places]
        corners = []
        for bits in range(8):
            ends = [low + (bits >> i & 1) for i, low in enumerate(lows)]
            weight = None
            for i, place in enumerate(places):
                share = place - lows[i] if bits >> i & 1 else 1 - (place - lows[i])
                weight = share if weight is None else weight * share
            corners.append((ends, weight))
    total: Any = 0
    for ends, weight in corners:
        index: Any = 0
        inside: Any = None
        for i in (2, 1, 0):
            index = index * sizes[i] + ends[i].clamp(0, sizes[i] - 1)
            within = ((ends[i] >= 0) & (ends[i] <= sizes[i] - 1)).to(x.dtype)
            inside = within if inside is None else inside * within
        index = index.reshape(n, 1, -1).expand(-1, c, -1).to(torch.int64)
        value = flat.gather(2, index).reshape(n, c, *shape)
        total = total + value * (inside if weight is None else inside * weight).unsqueeze(1)
    return total


def _place(x: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    place = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding_mode == 1:
        return place.clamp(0, size - 1)
    if padding_mode == 2:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place)
        turned = torch.abs(place - low)
        turns = torch.floor(turned / span)
        rest = turned - turns * span
        odd = turns - 2 * torch.floor(turns / 2)
        return (torch.where(odd > 0.5, span - rest, rest) + low).clamp(0, size - 1)
    return place


def new_empty(x: Tensor, size: Sequence[Any], *, dtype: Any = None, **_: Any) -> Tensor:
    """Return zeros: the exporter fixes the size of a tensor without content."""
    return torch.zeros(size, dtype=dtype or x.dtype)


def empty(size: Sequence[Any], *, dtype: Any = None, **_: Any) -> Tensor:
    return torch.zeros(size, dtype=dtype)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    return x.reshape(-1).index_select(0, mask.reshape(-1).nonzero().squeeze(1))


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Tensor:
    """Add rows, of which several may go to one place, as `scatter_add` does."""
    if not x.dtype.is_floating_point or x.dim() == 0:
        return NotImplemented
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape)
    return x.scatter_add(dim, places, source if alpha == 1 else source * alpha)


def table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operator."""
    return {
        aten.searchsorted.Tensor: searchsorted,
        aten.searchsorted.Scalar: searchsorted,
        aten.bucketize.Tensor: bucketize,
        aten.one_hot.default: one_hot,
        aten.reflection_pad1d.default: reflection_pad,
        aten.reflection_pad2d.default: reflection_pad,
        aten.reflection_pad3d.default: reflection_pad,
        aten.replication_pad1d.default: replication_pad,
        aten.replication_pad2d.default: replication_pad,
        aten.replication_pad3d.default: replication_pad,
        aten._pad_circular.default: circular_pad,
        aten.roll.default: roll,
        aten.rand_like.default: rand_like,
        aten.randn_like.default: randn_like,
        aten.bernoulli.default: bernoulli,
        aten.bernoulli.p: bernoulli,
        aten.bernoulli.Tensor: bernoulli,
        aten.exponential.default: exponential,
        aten.uniform.default: uniform,
        aten.normal_functional.default: normal_like,
        aten.normal.Tensor_float: normal,
        aten.normal.float_Tensor: normal,
        aten.normal.Tensor_Tensor: normal,
        aten.randint_like.default: randint_like,
        aten.randint_like.low_dtype: randint_like,
        aten.randint.default: randint,
        aten.randint.low: randint_low,
        aten.multinomial.default: multinomial,
        aten.grid_sampler_3d.default: grid_sampler_3d,
        aten.masked_select.default: masked_select,
        aten.new_empty.default: new_empty,
        aten.empty.memory_format: empty,
        aten.index_add.default: index_add,
        aten.rrelu_with_noise.default: rrelu,
        aten.rrelu_with_noise_functional.default: lambda x, noise, *args: (
            rrelu(x, noise, *args),
            noise,
        ),
        **special.table(),
        **linalg.table(),
    }


# Composite operators that contain operators of the table.
COMPOSITE = (
    *("linalg_inv", "inverse", "det", "linalg_det", "logdet", "slogdet", "linalg_slogdet"),
    *("linalg_solve", "linalg_solve_ex", "linalg_cholesky", "linalg_matrix_power", "matrix_power"),
    *("grid_sampler", "linalg_pinv", "pinverse", "rrelu", "linalg_inv_ex", "linalg_tensorinv"),
    *("linalg_tensorsolve", "cov", "corrcoef", "linalg_multi_dot", "pad", "_pad_enum"),
    *("gumbel_softmax", "rand_like"),
)


def decomposed(exported: Any) -> Any:
    """Return a program without the table's operators."""
    own = table()
    names = {op._schema.name for op in own} | {f"aten::{name}" for name in COMPOSITE}
    present = any(
        isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.name.removesuffix("_") in names  # also in place
        for module in _modules(exported)
        for node in module.graph.nodes
    )
    if not present:
        return exported
    known = torch.export.default_decompositions().materialize()
    composite = {
        op: how
        for op, how in known.items()
        if isinstance(op, torch._ops.OpOverload)
        and op._schema.name.removeprefix("aten::") in COMPOSITE
    }
    return exported.run_decompositions({**composite, **own})


def draws(exported: Any) -> bool:
    """Return whether a program draws random numbers."""
    return any(
        isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.name.removeprefix("aten::").removesuffix("_") in RANDOM
        for module in _modules(exported)
        for node in module.graph.nodes
    )


def _modules(exported: Any) -> list[Any]:
    found = exported.graph_module.modules()
    return [each for each in found if isinstance(each, torch.fx.GraphModule)]


def drop_assertions(exported: Any) -> None:
    """Remove assertions of values, which a program does not check, and what only they need."""
    for module in _modules(exported):
        for node in list(module.graph.nodes):
            name = str(getattr(node.target, "_schema", None) and node.target._schema.name)
            if name in _ASSERTIONS and not node.users:
                module.graph.erase_node(node)
        module.graph.eliminate_dead_code()
        module.recompile()


_ASSERTIONS = frozenset(
    {"aten::_assert_async", "aten::_functional_assert_async", "aten::_assert_tensor_metadata"}
)
