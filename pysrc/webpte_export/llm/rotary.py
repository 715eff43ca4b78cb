"""The rotary embedding of a decoder: a table of all positions and a single operator.

It replaces the model's embedding if that is of a usual kind, as found by a trial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.llm.decoder_state import STEP

ROTATION = "apply_rotary_pos_emb"  # the library's name of the models' function


class RotaryTables(nn.Module):
    """The rotary embedding of all positions, in place of the model's module.

    A call may bring other tables in its step.
    """

    def __init__(self, original: Any, context: int) -> None:
        super().__init__()
        self.original = original
        self.context = context
        self.tables: dict[Any, tuple[Tensor, Tensor]] = {}

    def forward(self, x: Tensor, position_ids: Tensor, *kinds: Any) -> tuple[Tensor, Tensor]:
        if STEP.tables is not None:
            return STEP.tables
        if kinds not in self.tables:
            every = torch.arange(self.context).unsqueeze(0)
            with torch.no_grad():
                cos, sin = self.original(torch.zeros(1), every, *kinds)
            self.tables[kinds] = (cos[0].contiguous(), sin[0].contiguous())
        return self.tables[kinds]


def with_rotary_tables(model: Any, code: Any, context: int) -> Callable[..., Any] | None:
    """Replace a rotary embedding of a usual kind by tables; return the function that reads them.

    `code` is the module of the model's class. Returns None for other kinds, which stay unchanged.
    """
    original = getattr(code, ROTATION, None)
    owners = [m for m in model.modules() if isinstance(getattr(m, "rotary_emb", None), nn.Module)]
    if original is None or not owners:
        return None
    if _is_usual(original):
        found: Callable[..., Any] = _rotate
    elif _rotates_neighbours(original):
        found = _rotate_neighbours
    else:
        return None
    for owner in owners:
        owner.rotary_emb = RotaryTables(owner.rotary_emb, context)
    return found


def remove_rotary_tables(model: Any) -> None:
    """Give a model its own rotary embeddings back."""
    for owner in model.modules():
        tables = getattr(owner, "rotary_emb", None)
        if isinstance(tables, RotaryTables):
            owner.rotary_emb = tables.original


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys (1, heads, n, head_dim) by tables of all positions."""
    rotated = torch.ops.et_vk.apply_rotary_emb_hf(
        q.transpose(1, 2), k.transpose(1, 2), cos, sin, STEP.start
    )
    return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)


def _rotate_neighbours(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    """Rotate pairs of neighbours likewise, with this step's rows of the tables."""
    if id(cos) not in STEP.rows:
        halves = cos[:, ::2].contiguous(), sin[:, ::2].contiguous()
        STEP.rows[id(cos)] = halves[0][STEP.positions], halves[1][STEP.positions]
    rotated = torch.ops.et_vk.apply_rotary_emb(
        q.transpose(1, 2), k.transpose(1, 2), *STEP.rows[id(cos)]
    )
    return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)


def _is_usual(rotation: Any) -> bool:
    """Return whether a function rotates pairs half a head apart, in queries and keys by head."""
    return _does(rotation, lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1), (1, 2))


def _rotates_neighbours(rotation: Any) -> bool:
    """Return whether a function rotates pairs of neighbours, in queries and keys by head."""
    return _does(
        rotation, lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2), (2, 1)
    )


def _does(rotation: Any, turn: Callable[[Tensor], Tensor], order: tuple[int, int]) -> bool:
    """Return whether a function computes x * cos + turn(x) * sin, with an angle for each pair.

    The angles of a head are repeated as a whole or each in turn: (1, 2) or (2, 1).
    """
    q, k, angles = torch.randn(1, 2, 3, 8), torch.randn(1, 1, 3, 8), torch.randn(3, 4)
    each, whole = order
    angles = angles.repeat_interleave(each, -1).repeat(1, whole)
    cos, sin = (fn(angles).unsqueeze(0) for fn in (torch.cos, torch.sin))
    try:
        got = rotation(q, k, cos, sin)
    except Exception:
        return False
    wanted = [x * cos.unsqueeze(1) + turn(x) * sin.unsqueeze(1) for x in (q, k)]
    return all(torch.allclose(g, w, atol=1e-5) for g, w in zip(got, wanted, strict=True))
