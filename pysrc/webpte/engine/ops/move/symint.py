"""SymInts: their sources and their arithmetic, all of it on the host.

A SymInt holds a 32-bit integer that changes from call to call: a sequence length, a position.
Kernels read it from a live uniform, so most changes need no relowering.
"""

from __future__ import annotations

from collections.abc import Callable

from webpte.engine.ops.core.args import Args
from webpte.engine.ops.core.registry import register_scalar
from webpte.engine.shapes import normalize_dim
from webpte.errors import GraphError

# The value is an element of a host input, which only run/delegate.py has.
SELECT_AS_SYMINT = "et_vk.select_as_symint.default"


def floordiv(args: Args, a: int, b: int) -> int:
    if b == 0:
        raise GraphError(f"{args.call}: {a} divided by zero")
    return a // b


ARITHMETIC: dict[str, Callable[[Args, int, int], int]] = {
    "add": lambda args, a, b: a + b,
    "sub": lambda args, a, b: a - b,
    "mul": lambda args, a, b: a * b,
    "floordiv": floordiv,
}


def sym_size(args: Args) -> int:
    """Return the live size of a dim, also of an intermediate tensor."""
    dims = args.tensor("self").dims
    if not dims:
        raise GraphError(f"{args.call}: a tensor of rank 0 has no dims")
    return dims[normalize_dim(args.integer("dim"), len(dims))]


for _name, _function in ARITHMETIC.items():
    register_scalar(
        _name,
        "a: int, b: int -> symint",
        lambda args, function=_function: function(args, args.integer("a"), args.integer("b")),  # type: ignore[misc]
    )

register_scalar("sym_size.int", "self: tensor, dim: int -> symint", sym_size)

register_scalar(
    SELECT_AS_SYMINT,
    "self: tensor, dim: int, index: int -> symint",
    lambda args: args.symint_out(),
)
