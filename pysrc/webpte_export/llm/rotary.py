"""The rotary embedding of a decoder: a table of all positions and one operator.

It takes the place of the model's own if that is of the usual kind, which is found by trying it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.llm.decoder_state import STEP

ROTATION = "apply_rotary_pos_emb"  # what the library's models call their function


class RotaryTables(nn.Module):
    """The rotary embedding of all positions, in the place of the model's own module."""

    def __init__(self, original: Any, context: int) -> None:
        super().__init__()
        self.original = original
        self.context = context
        self.tables: dict[Any, tuple[Tensor, Tensor]] = {}

    def forward(self, x: Tensor, position_ids: Tensor, *kinds: Any) -> tuple[Tensor, Tensor]:
        if kinds not in self.tables:
            every = torch.arange(self.context).unsqueeze(0)
            with torch.no_grad():
                cos, sin = self.original(torch.zeros(1), every, *kinds)
            self.tables[kinds] = (cos[0].contiguous(), sin[0].contiguous())
        return self.tables[kinds]


def with_rotary_tables(model: Any, code: Any, context: int) -> Callable[..., Any] | None:
    """Replace a rotary embedding of the usual kind by tables; return the function that reads them.

    `code` is the module of the model's class. Other kinds stay as they are: None.
    """
    original = getattr(code, ROTATION, None)
    owners = [m for m in model.modules() if isinstance(getattr(m, "rotary_emb", None), nn.Module)]
    if original is None or not owners or not _is_usual(original):
        return None
    for owner in owners:
        owner.rotary_emb = RotaryTables(owner.rotary_emb, context)
    return _rotate


def _rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys (1, heads, n, head_dim) by tables of all positions."""
    rotated = torch.ops.et_vk.apply_rotary_emb_hf(
        q.transpose(1, 2), k.transpose(1, 2), cos, sin, STEP.start
    )
    return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)


def _is_usual(rotation: Any) -> bool:
    """Tell whether a function rotates pairs half a head apart, in queries and keys by head."""
    q, k, angles = torch.randn(1, 2, 3, 8), torch.randn(1, 1, 3, 8), torch.randn(3, 4)
    cos, sin = (fn(torch.cat([angles, angles], -1)).unsqueeze(0) for fn in (torch.cos, torch.sin))

    def expected(x: Tensor) -> Tensor:
        half = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * cos.unsqueeze(1) + half * sin.unsqueeze(1)

    try:
        got = rotation(q, k, cos, sin)
    except Exception:
        return False
    return all(torch.allclose(g, expected(x), atol=1e-5) for g, x in zip(got, (q, k), strict=True))
