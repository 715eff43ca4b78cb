"""The session as JavaScript: with the package for npm, and with the program's compiled folder."""

from __future__ import annotations

import json
import math
from math import prod
from typing import Any

import numpy as np

from page.core.abilities import is_language_model
from page.core.session import Session
from page.shared.cards.fills import range_period
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.views.python.code import asks, question_of, source_of, word_of

_ARRAYS = {
    "float16": "Uint16Array",  # the bits: not every browser has a Float16Array
    "bfloat16": "Float32Array",
    "bool": "Uint8Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    **{f"float{bits}": f"Float{bits}Array" for bits in (32, 64)},
    **{f"int{bits}": f"Int{bits}Array" for bits in (8, 16, 32)},
    **{f"uint{bits}": f"Uint{bits}Array" for bits in (8, 16, 32)},
}
_WRITTEN = 32  # values that are written into the code, at most
_EXACT = 1 << 53
# Reads the file that “Save .npy” made: its header says how long it is.
_READ = """\
const values = async (file, Kind) => {
  const reply = await fetch(file);
  if (!reply.ok) throw new Error(`${file}: ${reply.status}: save it in Run`);
  const bytes = await reply.arrayBuffer();
  return new Kind(bytes, 10 + new DataView(bytes).getUint16(8, true));
};"""
READS = "await values("  # in code that reads files


def as_javascript(session: Session) -> str:
    """Return code that does the same with the package for npm."""
    where = source_of(session)
    chats = asks(session)
    options = _options(session)
    if chats:
        messages = [{"role": "user", "content": question_of(session)}]
        request = json.dumps({"messages": messages, "max_tokens": 100})
        return "\n".join(
            (
                'import * as webpte from "webpte";',
                "",
                f"const client = await webpte.openai({_arguments(where, options)});",
                f"const request = {request};",
                "const { completions } = client.chat;",
                "const answer = await completions.create({ ...request, stream: true });",
                "for await (const chunk of answer) {",
                '  console.log(chunk.choices[0].delta.content ?? "");',
                "}",
                "await client.close();",
            )
        )
    lines = ['import * as webpte from "webpte";', ""]
    load = f"const program = await webpte.load({_arguments(where, options)});"
    return "\n".join([*lines, load, *_call(session, "webpte.Tensor"), "await program.close();"])


def as_compiled(session: Session) -> str:
    """Return code that does the same with the program's compiled folder."""
    folder = f"const program = await open({json.dumps(folder_of(session) + '/')});"
    lines = ['import { open, Tensor } from "webpte/run";', "", folder]
    if session.can(is_language_model):
        return "\n".join(
            (
                lines[0].replace(", Tensor", ""),
                *lines[1:],
                "const prompt = [1]; // tokens; a folder of serve.py compile takes texts: write()",
                "for await (const token of program.generate(prompt, { maxNewTokens: 100 })) {",
                "  console.log(token);",
                "}",
                "program.close();",
            )
        )
    return "\n".join([*lines, *_call(session, "Tensor"), "program.close();"])


def folder_of(session: Session) -> str:
    """Return the name of the program's compiled folder."""
    stem = session.source.name.rpartition("/")[2].rpartition(".")[0]
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in stem) or "program"


def _options(session: Session) -> dict[str, Any]:
    source = session.source
    known = {
        "data": ["…"] if source.extra else None,
        "maxContext": source.max_context,
        "kvCache": source.kv_cache,
        "int8Products": source.int8_products or None,
        "device": "numpy" if session.device == "numpy" else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _arguments(where: str, options: dict[str, Any]) -> str:
    listed = ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items())
    return json.dumps(where) + (f", {{ {listed} }}" if listed else "")


def _call(session: Session, kind: str) -> list[str]:
    """Return the lines that make the inputs, call the method and show its results."""
    names = [f"x{state.index}" for state in session.inputs]
    results = [f"y{index}" for index in range(len(session.methods[session.method].outputs))]
    inputs = [
        f"const x{one.index} = {_value(one, kind)}; // {word_of(one.name)}"
        for one in session.inputs
    ]
    run = f"await program.run({json.dumps(session.method)}, [{', '.join(names)}]);"
    reads = [_READ] if any(READS in line for line in inputs) else []
    target = f"const [{', '.join(results)}] = " if results else ""
    return [*reads, *inputs, target + run, *(f"console.log({name});" for name in results)]


def _value(state: Input, kind: str) -> str:
    if isinstance(state, ScalarInput):
        return _scalar(state.value)
    shape, dtype = list(state.dims), state.dtype
    array = _ARRAYS[dtype]
    bits = f", {json.dumps(dtype)}" if dtype in ("float16", "bool") else ""
    return f"new {kind}({_data(state, array)}, {json.dumps(shape)}{bits})"


def _scalar(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return f"{value}n"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return json.dumps(value)


def _data(state: TensorInput, array: str) -> str:
    """Return code for the elements of a tensor."""
    count = prod(state.dims)
    is_big = array.startswith("Big")
    if state.fill == "zeros":
        return f"new {array}({count})"
    if state.fill == "ones" and state.dtype != "float16":
        return f"new {array}({count}).fill({'1n' if is_big else '1'})"
    if state.fill == "ramp" and state.dtype == "float32" and count > 1:
        return f"{array}.from({{ length: {count} }}, (_, i) => -1 + i * (2 / {count - 1}))"
    if state.fill == "range" and state.dtype != "float16":
        period = range_period(state.dtype, count)
        step = "i" if period == count else f"i % {period}"
        step = f"BigInt({step})" if is_big else step
        return f"{array}.from({{ length: {count} }}, (_, i) => {step})"
    flat = state.array().reshape(-1) if not state.error else np.empty(0)
    is_one = flat.size > 1 and bool((flat == flat[0]).all())
    if is_one or 0 < flat.size <= _WRITTEN or state.fill == "text":
        flat = flat.view(np.uint16) if state.dtype == "float16" else flat
        kept = flat[:1] if is_one else flat
        listed = [int(one) if flat.dtype == np.bool_ else one for one in kept.tolist()]
        written = [f"{one}n" if is_big else _scalar(one) for one in listed]
        if is_one:
            return f"new {array}({count}).fill({written[0]})"
        return f"{array}.of({', '.join(written)})"
    return f'{READS}"input{state.index}.npy", {array})'  # as “Save .npy” names it
