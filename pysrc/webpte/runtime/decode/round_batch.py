"""Rounds of speculative decoding as one plan: a draft proposes tokens, and the target checks them.

    next_round    where the round begins: after the guesses of the last one that were right
    draft         as many steps as the round has tokens; each but the last gives the next token
    target        one run of these tokens, and the tokens that follow each of them

The last step of the draft only writes its token to the draft's cache: should all guesses be right,
the next round begins after it. How far a round comes is known on the GPU alone, so what a run
uploads for its position is taken from a table of all positions that it may begin at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webpte.dtypes import DTYPES
from webpte.format.vulkan import SymIntValue
from webpte.gpu.device import Device, GpuCopy, PlanCommands, Readback, SubPlan, Upload
from webpte.graph.graph import Call, Graph, Tensor, Value
from webpte.runtime.base.gpu_tensor import DeviceTensor
from webpte.runtime.decode.combined_plan import Scratches
from webpte.runtime.decode.decode_steps import PackedStep
from webpte.runtime.decode.step_batch import TOKEN_BYTES, from_block, pack_outputs
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.device_plan import DevicePlan, Segment
from webpte.runtime.execute.payload import PayloadLayout

WORD_BYTES = 4
TOKENS, SAMPLED, POSITION, TABLE = range(4)  # inputs of the graph below


def next_round_graph(tokens: int, positions: int, words: int) -> Graph:
    """Build one call of webpte.next_round.default, for a table of so many positions."""
    dims = (tokens,), (tokens,), (1,), (positions, words)
    out = Tensor(5, DTYPES["int32"], (tokens + 1, words), None, None)
    values: tuple[Value, ...] = (
        *(Tensor(i, DTYPES["int32"], one, None, None) for i, one in enumerate(dims)),
        SymIntValue(0),
        out,
    )
    call = Call(0, "webpte.next_round.default", (0, 1, 2, 3, 4, out.id))
    return Graph(values, (call,), (0, 1, 2, 3, 4), (out.id,))


@dataclass(frozen=True)
class RoundParts:
    """The plans that a round is made of, and the delegate of the first of them."""

    delegate: GpuDelegate
    next_round: DevicePlan
    draft: PackedStep
    target: PackedStep
    draft_tokens: int  # buffer of the draft's input
    target_tokens: int

    @property
    def plans(self) -> tuple[DevicePlan, ...]:
        return (self.next_round, *self.draft.plans, *self.target.plans)

    @property
    def outputs(self) -> list[DeviceTensor]:
        """The outputs of the target's sampler."""
        return [output.tensor for output in self.target.plans[1].segments[-1].outputs]

    def buffer(self, place: int) -> int:
        """Return the buffer of an input of the first plan."""
        return self.delegate.memory.buffer_of(self.delegate.graph.inputs[place])


@dataclass(frozen=True, eq=False)
class RoundBatch:
    """A plan of several rounds, and the parts of what it uploads."""

    handle: int
    payload: np.ndarray  # bytes
    table: np.ndarray  # int32 (positions, words)
    first: np.ndarray  # bytes of the first plan's own uploads
    start: tuple[np.ndarray, ...]  # int32: tokens, sampled ones and position before it begins
    rounds: int
    record: int  # bytes that come back of a round


async def build_rounds(
    device: Device, parts: RoundParts, scratch: Scratches, tokens: int, rounds: int, begins: bool
) -> RoundBatch:
    """Make the plan of so many rounds of so many tokens.

    With `begins`, the host says where the first round begins, or else the rounds before it.
    """
    (lead,) = parts.next_round.segments
    positions, words = parts.delegate.graph.tensor(TABLE).dims
    layout = PayloadLayout()
    table_at, table_bytes = layout.add(positions * words * WORD_BYTES)
    first_at, _ = layout.add(lead.payload.data.size)
    sizes = (tokens, tokens, 1) if begins else ()
    starts = [layout.add(size * TOKEN_BYTES) for size in sizes]
    uploads = [
        Upload(parts.buffer(TABLE), table_at, table_bytes),
        *(Upload(u.buffer, first_at + u.payload_offset, u.nbytes) for u in lead.uploads),
    ]
    for place, (offset, nbytes) in zip((TOKENS, SAMPLED, POSITION), starts, strict=False):
        uploads.append(Upload(parts.buffer(place), offset, nbytes))
    record = tokens * TOKEN_BYTES + sum(tensor.nbytes for tensor in parts.outputs)
    results = await scratch(("rounds", rounds * record))
    steps = [
        part
        for number in range(rounds)
        for part in _round(parts, lead, tokens, words, results, number * record)
    ]
    readback = Readback(results, rounds * record, 0)
    commands = PlanCommands(tuple(uploads), (), (readback,), rounds * record, parts=tuple(steps))
    handle = await device.create_plan(commands)
    payload = np.zeros(layout.nbytes, np.uint8)
    table = payload[table_at : table_at + positions * words * WORD_BYTES]
    return RoundBatch(
        handle,
        payload,
        table.view(np.int32).reshape(positions, words),
        payload[first_at : first_at + lead.payload.data.size],
        tuple(payload[at : at + nbytes].view(np.int32) for at, nbytes in starts),
        rounds,
        record,
    )


def _round(
    parts: RoundParts, lead: Segment, tokens: int, words: int, results: int, record: int
) -> list[SubPlan]:
    """Return the plans of one round, whose results go to `record` of a buffer."""
    (told,) = (output.tensor.buffer for output in lead.outputs)
    given, sampled = parts.buffer(TOKENS), parts.buffer(SAMPLED)
    row = words * WORD_BYTES
    place = tokens * row
    starts = (
        GpuCopy(told, parts.buffer(POSITION), TOKEN_BYTES, place),
        GpuCopy(told, given, TOKEN_BYTES, place + WORD_BYTES),
    )
    found = [SubPlan(lead.handle, copies_after=starts)]
    draft, chosen = (plan.segments[-1] for plan in parts.draft.plans)
    (token,) = (output.tensor.buffer for output in chosen.outputs)
    sampler_at = draft.payload.data.size
    for step in range(tokens):
        at = step * row
        taken = GpuCopy(given, parts.draft_tokens, TOKEN_BYTES, step * TOKEN_BYTES)
        found.append(SubPlan(draft.handle, (*from_block(told, draft.uploads, at), taken)))
        if step < tokens - 1:
            kept = GpuCopy(token, given, TOKEN_BYTES, target_offset=(step + 1) * TOKEN_BYTES)
            copies = from_block(told, chosen.uploads, at + sampler_at)
            found.append(SubPlan(chosen.handle, copies, (kept,)))
    body, sampler = (plan.segments[-1] for plan in parts.target.plans)
    at = sampler_at + chosen.payload.data.size
    taken = GpuCopy(given, parts.target_tokens, tokens * TOKEN_BYTES)
    found.append(SubPlan(body.handle, (*from_block(told, body.uploads, at), taken)))
    outputs = parts.outputs
    kept_tokens = GpuCopy(given, results, tokens * TOKEN_BYTES, target_offset=record)
    after = (
        *pack_outputs(_first_words(outputs, tokens), sampled, 0),
        kept_tokens,
        *pack_outputs(outputs, results, record + tokens * TOKEN_BYTES),
    )
    copies = from_block(told, sampler.uploads, at + body.payload.data.size)
    found.append(SubPlan(sampler.handle, copies, after))
    return found


def _first_words(outputs: Sequence[DeviceTensor], tokens: int) -> list[DeviceTensor]:
    """Return those outputs of a sampler of several rows that are its tokens."""
    return list(outputs[:1] if outputs[0].nbytes == tokens * TOKEN_BYTES else outputs[:tokens])
