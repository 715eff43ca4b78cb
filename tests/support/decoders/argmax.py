"""Runs a method with a greedy sampler behind it: the smallest use of a derived delegate."""

from __future__ import annotations

from typing import Any

import numpy as np

import webpte
from webpte.engine.call.call import executing
from webpte.engine.call.info import TensorInfo
from webpte.engine.run.delegate import GpuDelegate
from webpte.errors import InputError
from webpte.llm.decode.derived import sampled_delegate
from webpte.llm.decode.sampler_graph import ARGMAX
from webpte.program import build_of, call_log_of, method_of


async def run_argmax(program: webpte.Program, method: str, *inputs: Any) -> np.ndarray:
    """Run a method with one output, and return where that is largest along its last dim."""
    build, found, log = build_of(program), method_of(program, method), call_log_of(program)
    log.count(method)
    if len(found.info.outputs) != 1 or not isinstance(found.info.outputs[0], TensorInfo):
        raise InputError(f"method {method!r} does not have exactly one tensor as its output")
    with build.lifetime.lease(), log.context():
        delegate = found.only_delegate
        if not isinstance(delegate, GpuDelegate):
            (output,) = await found.run(found.request(inputs))
            return np.argmax(output, axis=-1)
        given = found.take_inputs(inputs)
        with executing(method):
            (indices,) = await sampled_delegate(build, delegate, ARGMAX).run(given)
        return indices
