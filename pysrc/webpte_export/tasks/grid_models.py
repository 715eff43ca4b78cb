"""The halves of Qwen2-VL and Qwen2.5-VL, which see pictures as grids of patches, of any size.

    vision_encoder(patches, places) -> embeddings (1, rows, width)
    rotary_tables(positions) -> cos, sin (context, head_dim)
    text_decoder(embeddings, input_pos, cos, sin) -> logits of the last one

`patches` (rows, together, values) belong to a picture, `places` (rows, together, 2) are their rows
and columns in the grid. The patches that lie `together` in a square become a row of embeddings.

The text has a position on each of three axes, `positions` (3, context) for every place of the KV
cache: a token has the same position on all three, a row of a picture the picture's position, and
its row and column in the picture. Tokens after a picture are nearer to it than their places in the
cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from webpte.llm.picture_session import patch_places, rotary_positions
from webpte_export.errors import ExportError
from webpte_export.llm.decoder import Decoder
from webpte_export.llm.decoder_state import STEP
from webpte_export.llm.rotary import RotaryTables

KINDS = ("qwen2_vl", "qwen2_5_vl")
_MOST_ROWS = 512  # per picture, such as 634 by 634 pixels in squares of 28 by 28
_APART = -1e4  # added to scores of patches in other windows: their shares are 0 in float16, too
_SMALLEST, _LARGEST = 56 * 56, 28 * 28 * 1280  # pixels of a picture, if the file has no numbers


@dataclass(frozen=True)
class Grid:
    """The number of rows and columns of embeddings of a picture: patches merged in squares."""

    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.rows * self.columns


def settle_pixels(settings: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], int]:
    """Return settings of preprocessing with a program's most pixels, and the rows of the largest
    picture.

    To use another number, write size.longest_edge into the file before the export.
    """
    size = settings.get("size")
    size = dict(size) if isinstance(size, dict) else {}
    smallest = settings.get("min_pixels") or size.get("shortest_edge") or _SMALLEST
    largest = settings.get("max_pixels") or size.get("longest_edge") or _LARGEST
    side, merged = settings.get("patch_size", 14), settings.get("merge_size", 2)
    if not all(type(one) is int and one > 0 for one in (smallest, largest, side, merged)):
        raise ExportError(
            f"{folder}/preprocessor_config.json does not say how large pictures are: its size is "
            f"{settings.get('size')!r}, its patch_size {side!r}, its merge_size {merged!r}."
        )
    area = (side * merged) ** 2
    # Files allow up to 16,384 rows, which no context here has room for.
    rows = max(min(largest // area, _MOST_ROWS), 1)
    changed = {key: one for key, one in settings.items() if key not in ("min_pixels", "max_pixels")}
    largest = min(largest, rows * area)
    changed["size"] = {"shortest_edge": min(smallest, largest), "longest_edge": largest}
    return changed, rows


class GridAttention(nn.Module):
    """Attention among all patches of a picture (n, width), or among some by a mask."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.heads: int = attention.num_heads
        self.scaling: float = attention.scaling
        self.proj = attention.proj
        weights, biases = (one.detach().chunk(3) for one in attention.qkv.parameters())
        self.parts = nn.ModuleList()  # queries, keys and values
        for weight, bias in zip(weights, biases, strict=True):
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight, linear.bias = (
                nn.Parameter(one.clone(), requires_grad=False) for one in (weight, bias)
            )
            self.parts.append(linear)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        width = x.shape[1] // self.heads
        q, k, v = (part(x).reshape(1, -1, self.heads, width) for part in self.parts)
        q, k = torch.ops.et_vk.apply_rotary_emb_hf(q, k, cos, sin, 0)
        q, k, v = (part.squeeze(0).transpose(0, 1) for part in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)) * self.scaling
        if mask is not None:
            scores = scores + mask
        attended = torch.bmm(torch.softmax(scores, -1), v)
        found: Tensor = self.proj(attended.transpose(0, 1).flatten(1))
        return found


class GridBlock(nn.Module):
    """A layer of the vision encoder, with the attention of grids."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.norm1, self.norm2, self.mlp = block.norm1, block.norm2, block.mlp
        self.attention = GridAttention(block.attn)

    def forward(self, states: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        states = states + self.attention(self.norm1(states), cos, sin, mask)
        found: Tensor = states + self.mlp(self.norm2(states))
        return found


class GridVision(nn.Module):
    """The vision encoder: attention among the patches of a picture, then squares become rows."""

    def __init__(self, model: Any, rows: int) -> None:
        super().__init__()
        vision = model.model.visual
        config = vision.config
        self.merged: int = config.spatial_merge_size
        weight = vision.patch_embed.proj.weight.detach()  # (width, channels, frames, side, side)
        self.frames: int = weight.shape[2]
        # Both frames of a still picture are the same: their weights are added up.
        self.embed = nn.Linear(weight[0, :, 0].numel(), weight.shape[0], bias=False)
        self.embed.weight = nn.Parameter(weight.sum(2).flatten(1), requires_grad=False)
        self.blocks = nn.ModuleList(map(GridBlock, vision.blocks))
        self.merger = vision.merger
        every = torch.arange(rows * self.merged)  # the places in a picture with a single row
        angles = vision.rotary_pos_emb(torch.zeros(1), torch.stack([every, every], 1))
        for name, table in zip(("cos", "sin"), angles, strict=True):
            self.register_buffer(name, table[:, : table.shape[1] // 4].contiguous())
        self.whole = frozenset(getattr(config, "fullatt_block_indexes", range(config.depth)))
        if len(self.whole) < len(self.blocks):
            across = config.window_size // self.merged // config.patch_size * self.merged
            self.register_buffer("windows", (every // across).float().unsqueeze(1))

    @property
    def values(self) -> int:
        """The number of values of a patch."""
        return self.embed.in_features

    def forward(self, patches: Tensor, places: Tensor) -> Tensor:
        states = self.embed(patches.flatten(0, 1))
        rows, columns = (places[..., axis].flatten() for axis in (0, 1))
        cos, sin = (
            torch.cat([nn.functional.embedding(at, table) for at in (rows, columns)] * 2, 1)
            for table in (self.cos, self.sin)
        )
        apart = self._apart(rows, columns) if hasattr(self, "windows") else None
        for number, block in enumerate(self.blocks):
            states = block(states, cos, sin, None if number in self.whole else apart)
        found: Tensor = self.merger(states)
        return found.unsqueeze(0)

    def _apart(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the mask to add to scores, (n, n): patches attend to their window's patches."""
        distance: Any = 0.0
        for at in (rows, columns):
            window = nn.functional.embedding(at, self.windows)
            distance = distance + (window - window.transpose(0, 1)).abs()
        return torch.clamp(distance, max=1.0) * _APART


class PositionTables(nn.Module):
    """The rotary embedding of all places of the cache, by their positions on three axes.

    Tables by position are the model's, so that positions are looked up, not computed with.
    """

    def __init__(self, rotary: Any, context: int) -> None:
        super().__init__()
        every = torch.arange(context).reshape(1, 1, -1).expand(3, 1, -1)
        angles = [found[0] for found in rotary(torch.zeros(1), every)]
        self.axes: list[int] = []
        first = 0
        for axis, run in groupby(_axis_of_each(rotary)):
            last = first + len(list(run))
            for name, table in zip(("cos", "sin"), angles, strict=True):
                self.register_buffer(f"{name}_{len(self.axes)}", table[:, first:last].contiguous())
            self.axes.append(axis)
            first = last

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = (
            torch.cat(
                [
                    nn.functional.embedding(positions[axis], self.get_buffer(f"{name}_{number}"))
                    for number, axis in enumerate(self.axes)
                ],
                1,
            )
            for name in ("cos", "sin")
        )
        return cos, sin


def _axis_of_each(rotary: Any) -> list[int]:
    """Return the axis whose position turns each element of a head, found by a trial."""
    found: list[Tensor] = []
    for axis in range(3):
        positions = torch.zeros(3, 1, 1, dtype=torch.long)
        positions[axis] = 1
        found.append(rotary(torch.zeros(1), positions)[1][0, 0] != 0)
    turned = torch.stack(found)
    if not bool((turned.sum(0) == 1).all()):
        raise ExportError("elements of heads are not turned by one axis of positions each.")
    return [int(axis) for axis in turned.int().argmax(0)]


class PlacedDecoder(Decoder):
    """A decoder whose calls bring the rotary embedding of each place of its cache."""

    def forward(
        self,
        tokens: Tensor,
        input_pos: Tensor,
        cos: Tensor | None = None,
        sin: Tensor | None = None,
    ) -> Tensor:
        STEP.tables = None if cos is None or sin is None else (cos, sin)
        try:
            return super().forward(tokens, input_pos)
        finally:
            STEP.tables = None


def text_half(model: Any, context: int) -> tuple[PlacedDecoder, PositionTables]:
    """Return a model's decoder, and the rotary tables that its calls bring."""
    from transformers.utils import logging

    model.model.visual = None
    text, level = model.model.language_model, logging.get_verbosity()
    logging.set_verbosity_error()  # not that the other half is missing
    try:
        decoder = PlacedDecoder(model, context).eval()
    finally:
        logging.set_verbosity(level)
    if not isinstance(text.rotary_emb, RotaryTables):
        raise ExportError("the model's rotary embedding is none that tables can be given for.")
    return decoder, PositionTables(text.rotary_emb.original, context).eval()


class GridVisionHalf:
    """The vision half of a model that sees grids, for the export of image-text-to-text.

    module     the vision encoder
    calls      its arguments for three pictures
    rows       the number of rows of the first picture
    shapes     the dynamic sizes of its inputs
    most_rows  the rows of the largest picture
    """

    def __init__(self, model: Any, most_rows: int) -> None:
        self.module = GridVision(model, most_rows).eval()
        self.most_rows = most_rows
        # Small pictures, because the check runs all of them on NumPy.
        sizes = ((3, 4), (1, 2), (2, 32))
        grids = [
            Grid(min(rows, most_rows), min(columns, max(most_rows // rows, 1)))
            for rows, columns in sizes
        ]
        self._first, self.rows = grids[0], grids[0].count
        self.calls = [self._call(grid, seed) for seed, grid in enumerate(grids)]
        size = {0: torch.export.Dim("rows", min=1, max=most_rows)}
        self.shapes = (size, size)

    def _call(self, grid: Grid, seed: int) -> tuple[Tensor, Tensor]:
        shape = (grid.count, self.module.merged**2, self.module.values)
        patches = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        places = patch_places(grid.rows, grid.columns, self.module.merged)
        return patches, torch.from_numpy(places)

    def reference(self, model: Any, prompt: Tensor) -> Tensor:
        """Return the model's logits after each token of a prompt with the first picture."""
        vision, grid = self.module, self._first
        area = vision.values // 3
        patches = self.calls[0][0].flatten(0, 1).unflatten(1, (3, 1, area))
        pixels = patches.expand(-1, -1, vision.frames, -1).flatten(1)
        sides = [1, grid.rows * vision.merged, grid.columns * vision.merged]
        logits: Tensor = model(
            input_ids=prompt,
            pixel_values=pixels,
            image_grid_thw=torch.tensor([sides]),
            mm_token_type_ids=(prompt == model.config.image_token_id).int(),
            use_cache=False,
        ).logits
        return logits

    def positions(self, start: int, context: int) -> Tensor:
        """Return the positions (3, context) of a text with the first picture at a place."""
        grid = self._first
        return torch.from_numpy(rotary_positions([(start, grid.rows, grid.columns)], context))
