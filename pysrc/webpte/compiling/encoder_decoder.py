"""Encoder-decoders that answer in tokens: plans for each length of an input, and steps of answers.

The encoder's outputs stay on the GPU, and go into every call of the decoder. The method of the
decoder returns logits; joined with a sampler of the likeliest token it is a second method for steps
that nothing on the host changes. Both share the caches and the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from webpte.compiling.language import plans_at, with_sampler
from webpte.compiling.plans import Table, example_inputs, method_table, plan_tables, whole_delegate
from webpte.engine.call.info import TensorInfo
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.run.method import Method
from webpte.llm.decode.sampler_graph import ARGMAX
from webpte.program import Program, build_of

_TOKEN = {"name": "token", "dtype": "int32", "shape": [1, 1]}


async def answer_tables(
    program: Program, device: RecordingDevice, task: Table, examples: Sequence[Sequence[Any]]
) -> dict[str, Table]:
    """Return the methods of a task that encodes an input and decodes an answer.

    examples  example calls of the encoder
    """
    build, facts = build_of(program), task["decoder"]
    encoder, decoder = build.methods[task["method"]], build.methods[facts["method"]]
    encoded = await plan_tables(encoder, device, examples or [example_inputs(encoder)])
    counts = _counts(decoder, facts["prompts"])
    context, place = facts["context"], facts["position"]
    body = whole_delegate(decoder)
    greedy = await with_sampler(build, facts["method"], body, ARGMAX)
    plans: list[Table] = []
    steps: list[Table] = []
    for plan in encoded:
        given = partial(_inputs, decoder, place, [one["shape"] for one in plan["results"]])
        for count in counts:  # a prompt is at the start of the caches
            most = context if count == 1 else count
            plans += [one async for one in plans_at(body, device, given, [count], most, place)]
        steps += [one async for one in plans_at(greedy, device, given, [1], context, place)]
    table = method_table(decoder, _different(plans))
    return {
        task["method"]: method_table(encoder, encoded),
        facts["method"]: table,
        facts["greedy"]: {**table, "outputs": [_TOKEN], "plans": _different(steps)},
    }


def _different(plans: Sequence[Table]) -> list[Table]:
    """Return each plan once: plans occur again where encoded inputs have one length."""
    return [plan for at, plan in enumerate(plans) if plan not in plans[:at]]


def _counts(decoder: Method, prompts: Sequence[int]) -> list[int]:
    """Return the numbers of tokens of a call: 1, and the lengths of prompts that fit."""
    tokens = decoder.info.inputs[0]
    assert isinstance(tokens, TensorInfo), "see `Seq2Seq`"
    low, high = tokens.bounds[1]
    return sorted({1, *(count for count in prompts if low <= count <= high)})


def _inputs(
    decoder: Method, place: int, encoded: Sequence[Sequence[int]], count: int, position: int
) -> list[Any]:
    """Return inputs of the decoder: so many tokens, at a position, and an encoded input."""
    tokens, at = (decoder.info.inputs[i] for i in (0, place))
    assert isinstance(tokens, TensorInfo), "see `Seq2Seq`"
    assert isinstance(at, TensorInfo), "see `Seq2Seq`"
    given: list[Any] = [np.zeros(tuple(shape), np.float32) for shape in encoded]
    given.insert(0, np.zeros((1, count), tokens.array_dtype))
    given.insert(place, np.array([position], at.array_dtype))
    return [
        one.astype(info.array_dtype)
        for one, info in zip(given, decoder.info.inputs, strict=True)
        if isinstance(info, TensorInfo)
    ]
