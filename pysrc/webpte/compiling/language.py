"""Language models: methods that return a sampled token, with plans for chunks of every length.

The method of a language model takes tokens [1, S] and a position, and returns logits. Its graph is
joined with a sampler's: a greedy one, and one with settings and a seed. Both share the caches and
the weights of the method.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from webpte.compiling.plans import Table, plan_table, whole_delegate
from webpte.engine.format.vulkan import ValueListValue
from webpte.engine.gpu.device_info import BUFFER_LIMIT, DeviceInfo
from webpte.engine.gpu.recording.device import EVERY_GPU, RecordingDevice
from webpte.engine.graph.graph import Graph, Tensor, Value
from webpte.engine.ops.sampling.sample import SETTINGS
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.request import RunRequest
from webpte.errors import InputError, UnsupportedError
from webpte.llm.decode.rollback_safety import unsafe_state
from webpte.llm.decode.sampler_graph import ARGMAX, SamplerKind
from webpte.llm.program_signature import (
    language_method,
    language_model,
    max_context_of,
    stop_tokens_of,
)
from webpte.program import Program, build_of

_SAMPLED = SamplerKind(sampled=True, with_top_k=True, with_top_p=True)
_MOST_PLANS = 1000
# Tokens of a call: each chunk has a plan, and the largest decides on the memory of activations.
_MOST_CHUNK, _MOST_OF_COMPUTERS = 512, 2048
_TOKEN = {"name": "token", "dtype": "int32", "shape": [1, 1]}


async def language_tables(
    program: Program, device: RecordingDevice
) -> tuple[dict[str, Table], Table] | None:
    """Return methods that sample, and the facts that `generate` needs; None for other programs."""
    try:
        name = language_method(program)
        tokens, position, logits = language_model(program, name)
    except InputError:
        return None
    context = max_context_of(program)
    info = program.methods[name]
    chunks = _chunks(tokens.shape[1], tokens.dynamic, device.info)
    if context is None or position.shape != (1,) or len(info.inputs) != 2 or 1 not in chunks:
        return None
    build = build_of(program)
    body = whole_delegate(build.methods[name])
    rewinds = unsafe_state(body.graph) is None
    methods, ahead = {}, rewinds
    given = [
        {"name": one.name, "dtype": one.dtype, "shape": list(one.shape)}
        for one in (tokens, position)
    ]
    more: list[Table] = [
        {"name": "position", "kind": "int"},
        {"name": "settings", "dtype": "float32", "shape": [SETTINGS]},
        {"name": "seed", "dtype": "int32", "shape": [2]},
    ]
    for purpose, kind in (("greedy", ARGMAX), ("sampled", _SAMPLED)):
        delegate = await with_sampler(build, name, body, kind)
        dtypes = np.dtype(tokens.dtype), np.dtype(position.dtype)
        given_at = partial(_inputs, dtypes, kind.sampled)
        largest_first = chunks[::-1]  # others use its scratch memory
        plans = [p async for p in plans_at(delegate, device, given_at, largest_first, context)]
        plans.sort(key=lambda plan: plan["shapes"][0])
        ahead = ahead and all(_takes_sampled(plan, logits.shape[-1]) for plan in plans)
        inputs = [*given, *(more if kind.sampled else [])]
        methods[f"{name}.{purpose}"] = {"inputs": inputs, "outputs": [_TOKEN], "plans": plans}
    facts = {
        "method": name,
        "greedy": f"{name}.greedy",
        "sampled": f"{name}.sampled",
        "chunks": chunks,
        "context": context,
        "vocabulary": logits.shape[-1],
        "stop": sorted(stop_tokens_of(program)),
        "rewinds": rewinds,
        "ahead": ahead,
    }
    return methods, facts


def _chunks(most: int, dynamic: bool, info: DeviceInfo) -> list[int]:
    """Return the numbers of tokens of a call, from 1 to the program's largest if the device allows.

    A prompt then is as few calls as through Python.
    """
    if not dynamic:
        return [most]
    large = info.limits[BUFFER_LIMIT] > EVERY_GPU.limits[BUFFER_LIMIT]
    most = min(most, _MOST_OF_COMPUTERS if large else _MOST_CHUNK)
    return sorted({most, *(1 << power for power in range(most.bit_length()))})


async def with_sampler(
    build: Build, name: str, body: GpuDelegate, kind: SamplerKind
) -> GpuDelegate:
    """Return a delegate that samples a token, and shares the caches of a method's delegate."""
    body.plans.keep(_MOST_PLANS)
    graph = build.only_graph(build.methods[name])
    assert graph is not None, "see `whole_delegate`"
    logits = graph.tensor(graph.outputs[0])
    joined = _joined(graph, kind.graph(logits))

    async def make() -> GpuDelegate | str:
        return await build.share_state(body, joined, "sampled tokens")

    made = await build.derive(("compiled sampler", name, kind), make)
    if isinstance(made, str):
        raise UnsupportedError(f"method {name!r}: {made}")
    made.plans.keep(_MOST_PLANS)
    made.plans.clear()  # the plan for the declared shapes, whose memory others would use
    return made


def _joined(body: Graph, sampler: Graph) -> Graph:
    """Return a graph that samples from the body's only output.

    Inputs: the inputs of the body, then the sampler's inputs after the logits.
    """
    shift, (logits,), taken = len(body.values), body.outputs, sampler.inputs[0]

    def number(value_id: int) -> int:
        return logits if value_id == taken else value_id + shift

    def moved(value: Value) -> Value:
        if isinstance(value, ValueListValue):
            return ValueListValue(tuple(map(number, value.items)))
        return replace(value, id=value.id + shift) if isinstance(value, Tensor) else value

    calls = [
        *body.calls,
        *(replace(call, args=tuple(map(number, call.args))) for call in sampler.calls),
    ]
    return Graph(
        (*body.values, *map(moved, sampler.values)),
        tuple(replace(call, index=index) for index, call in enumerate(calls)),
        (*body.inputs, *map(number, sampler.inputs[1:])),
        tuple(map(number, sampler.outputs)),
    )


def _inputs(
    dtypes: tuple[np.dtype[Any], np.dtype[Any]], sampled: bool, count: int, position: int
) -> list[Any]:
    """Return inputs of a method that samples, after so many tokens at a position."""
    given: list[Any] = [np.zeros((1, count), dtypes[0]), np.array([position], dtypes[1])]
    if sampled:
        given += [position + count, np.zeros(SETTINGS, np.float32), np.zeros(2, np.int32)]
    return given


async def plans_at(
    delegate: GpuDelegate,
    device: RecordingDevice,
    given: Callable[[int, int], list[Any]],
    chunks: Sequence[int],
    context: int,
    place: int = 1,
) -> AsyncIterator[Table]:
    """Yield the plans for every number of tokens at every position of the cache.

    given  makes the inputs for a number of tokens at a position
    place  the input that has the position
    """
    for count in chunks:
        position = 0
        while position + count <= context:
            _, table = await plan_table(delegate, device, RunRequest(given(count, position)))
            yield table
            position = max(position, min(_ends(table, place), default=context)) + 1


def _ends(plan: Table, place: int) -> Iterator[int]:
    """Yield the last positions that the conditions of a plan allow."""
    position = ["element", place, 0]
    for one, _, high in plan["when"]:
        if one == position:
            yield high
        elif isinstance(one, list) and one[:2] == ["add", position]:
            yield high - one[2]
        else:
            yield -1  # another number: each position may need a separate plan


def _takes_sampled(plan: Table, vocabulary: int) -> bool:
    """Return whether each token that can be sampled is a valid index."""
    return all(
        high >= vocabulary - 1
        for fault in plan["faults"]
        for at, _, high in fault["inputs"]
        if at == 0
    )
