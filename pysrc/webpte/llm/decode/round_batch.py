"""Rounds of speculative decoding as a single plan: tokens are guessed, and the target checks them.

    next_round    computes where the round begins: after the right guesses of the last round
    guess_tokens  the continuation of an earlier occurrence of the last tokens; or, with a draft
    draft         as many steps as the round has tokens; each but the last gives the next token
    target        a run of these tokens, and the tokens that follow each of them

The last step of a draft only writes its token to the draft's cache: should all guesses be right,
the next round begins after it. The end of a round is known on the GPU alone, so the uploads that
depend on the position are taken from a table of all positions where the round may begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from webpte.engine.call.gpu_tensor import DeviceTensor
from webpte.engine.dtypes import DTYPES
from webpte.engine.format.vulkan import SymIntValue
from webpte.engine.gpu.device import Device, GpuCopy, PlanCommands, Readback, SubPlan, Upload
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.device_plan import DevicePlan, Segment
from webpte.engine.run.io import PayloadLayout
from webpte.engine.shapes import Dims
from webpte.llm.decode.combined_plan import Scratches
from webpte.llm.decode.decode_steps import PackedStep
from webpte.llm.decode.step_batch import TOKEN_BYTES, from_block, pack_outputs

WORD_BYTES = 4
TOKENS, SAMPLED, POSITION, TABLE, HISTORY = range(5)  # indices of the graph's inputs


def next_round_graph(tokens: int, positions: int, words: int, room: int) -> Graph:
    """Build the graph that computes where a round begins, for a table of so many positions.

    With `room` for a history of so many tokens, the graph also guesses the tokens of the round.
    """
    dims: list[Dims] = [(tokens,), (tokens,), (1,), (positions, words)]
    dims += [(room,)] if room else []
    inputs = [Tensor(i, DTYPES["int32"], one, None, None) for i, one in enumerate(dims)]
    first = len(inputs)
    out = Tensor(first + 1, DTYPES["int32"], (tokens + 1, words), None, None)
    guesses = Tensor(first + 2, DTYPES["int32"], (tokens,), None, None)
    given = (TOKENS, SAMPLED, POSITION)
    calls = [Call(0, "webpte.next_round.default", (*given, TABLE, first, out.id))]
    outs: list[Tensor] = [out]
    if room:
        calls.append(Call(1, "webpte.guess_tokens.default", (*given, HISTORY, guesses.id)))
        outs.append(guesses)
    values: tuple[Value, ...] = (*inputs, SymIntValue(0), *outs)
    return Graph(values, tuple(calls), tuple(range(first + 1)), tuple(one.id for one in outs))


@dataclass(frozen=True)
class DraftSteps:
    """The step of a draft, and the buffer of its token."""

    step: PackedStep
    tokens: int


@dataclass(frozen=True)
class RoundParts:
    """The plans of a round, and the delegate of the first plan."""

    delegate: GpuDelegate
    next_round: DevicePlan
    draft: DraftSteps | None
    target: PackedStep
    target_tokens: int  # buffer of the target's input

    @property
    def plans(self) -> tuple[DevicePlan, ...]:
        drafts = self.draft.step.plans if self.draft else ()
        return (self.next_round, *drafts, *self.target.plans)

    @property
    def draft_bytes(self) -> int:
        """Bytes of the draft's uploads in each row of the table, before the target's."""
        return self.draft.step.row.size if self.draft else 0

    @property
    def outputs(self) -> list[DeviceTensor]:
        """The outputs of the target's sampler."""
        return [output.tensor for output in self.target.plans[1].segments[-1].outputs]

    def buffer(self, place: int) -> int:
        """Return the buffer of an input of the first plan."""
        return self.delegate.memory.buffer_of(self.delegate.graph.inputs[place])


@dataclass(frozen=True, eq=False)
class RoundBatch:
    """A plan of several rounds, and the parts of its uploads."""

    handle: int
    payload: np.ndarray  # bytes
    table: np.ndarray  # int32 (positions, words)
    first: np.ndarray  # bytes of the first plan's own uploads
    # int32: tokens, sampled tokens, position and history before the first round
    start: dict[int, np.ndarray]
    rounds: int
    record: int  # bytes read back per round


async def build_rounds(
    device: Device, parts: RoundParts, scratch: Scratches, tokens: int, rounds: int, begins: bool
) -> RoundBatch:
    """Make the plan of `rounds` rounds of `tokens` tokens each.

    With `begins`, the host gives the start of the first round; otherwise it follows from the rounds
    before.
    """
    (lead,) = parts.next_round.segments
    positions, words = parts.delegate.graph.tensor(TABLE).dims
    layout = PayloadLayout()
    table_at, table_bytes = layout.add(positions * words * WORD_BYTES)
    first_at, _ = layout.add(lead.payload.data.size)
    graph, starts = parts.delegate.graph, dict[int, tuple[int, int]]()
    if begins:
        told = [i for i in graph.inputs[:-1] if i != TABLE]
        starts = {i: layout.add(prod(graph.tensor(i).dims) * WORD_BYTES) for i in told}
    uploads = [
        Upload(parts.buffer(TABLE), table_at, table_bytes),
        *(Upload(u.buffer, first_at + u.payload_offset, u.nbytes) for u in lead.uploads),
    ]
    uploads += [Upload(parts.buffer(at), *one) for at, one in starts.items()]
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
        {i: payload[at : at + size].view(np.int32) for i, (at, size) in starts.items()},
        rounds,
        record,
    )


def _round(
    parts: RoundParts, lead: Segment, tokens: int, words: int, results: int, record: int
) -> list[SubPlan]:
    """Return the plans of a round; its results go to the buffer `results`, at byte `record`."""
    told, *guesses = (output.tensor.buffer for output in lead.outputs)
    given, sampled = parts.buffer(TOKENS), parts.buffer(SAMPLED)
    place = tokens * words * WORD_BYTES
    first = (
        GpuCopy(guesses[0], given, tokens * TOKEN_BYTES)
        if guesses
        else GpuCopy(told, given, TOKEN_BYTES, place + WORD_BYTES)
    )
    position = GpuCopy(told, parts.buffer(POSITION), TOKEN_BYTES, place)
    found = [SubPlan(lead.handle, copies_after=(position, first))]
    if parts.draft is not None:
        found += _drafted(parts.draft, told, given, tokens, words * WORD_BYTES)
    body, sampler = (plan.segments[-1] for plan in parts.target.plans)
    at = parts.draft_bytes
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


def _drafted(draft: DraftSteps, told: int, given: int, tokens: int, row: int) -> list[SubPlan]:
    """Return the steps of a draft, which write the tokens after the first to `given`."""
    found = []
    body, chosen = (plan.segments[-1] for plan in draft.step.plans)
    (token,) = (output.tensor.buffer for output in chosen.outputs)
    for step in range(tokens):
        at = step * row
        taken = GpuCopy(given, draft.tokens, TOKEN_BYTES, step * TOKEN_BYTES)
        found.append(SubPlan(body.handle, (*from_block(told, body.uploads, at), taken)))
        if step < tokens - 1:
            kept = GpuCopy(token, given, TOKEN_BYTES, target_offset=(step + 1) * TOKEN_BYTES)
            copies = from_block(told, chosen.uploads, at + body.payload.data.size)
            found.append(SubPlan(chosen.handle, copies, (kept,)))
    return found


def _first_words(outputs: Sequence[DeviceTensor], tokens: int) -> list[DeviceTensor]:
    """Return the tokens among the outputs of a sampler of several rows."""
    return list(outputs[:1] if outputs[0].nbytes == tokens * TOKEN_BYTES else outputs[:tokens])
