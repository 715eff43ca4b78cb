"""Facts that a language model's program tells: inputs and output, and its constant methods."""

from __future__ import annotations

from webpte.errors import InputError
from webpte.runtime.base.info import ScalarInfo, TensorInfo
from webpte.runtime.program import Program


def numbers_of(program: Program, method: str) -> list[int]:
    """Return the outputs of a constant method; an empty list if the program lacks it."""
    info = program.methods.get(method)
    if info is None or not info.is_constant:
        return []
    values = [output.value for output in info.outputs if isinstance(output, ScalarInfo)]
    return [int(value) for value in values if value is not None]


def max_context_of(program: Program) -> int | None:
    """Return the number of tokens that a conversation may have; None if the program lacks it."""
    lengths = numbers_of(program, "get_max_context_len") or numbers_of(program, "get_max_seq_len")
    return lengths[0] if lengths else None


def language_model(program: Program, method: str) -> tuple[TensorInfo, TensorInfo, TensorInfo]:
    """Return tokens, position and logits of a method; raise InputError if it has others."""
    methods = program.methods
    if method not in methods:
        raise InputError(f"{program.name} has no method {method!r}")
    inputs, outputs = methods[method].inputs, methods[method].outputs
    tensors = [given for given in inputs if isinstance(given, TensorInfo)]
    if not (
        len(inputs) == len(tensors) == 2
        and all(tensor.dtype in ("int64", "int32") for tensor in tensors)
        and [len(tensor.shape) for tensor in tensors] == [2, 1]
    ):
        raise InputError(
            f"{program.name} is not a language model with a KV cache: it takes "
            f"{'; '.join(map(str, inputs))}, not tokens [1, S] and input_pos [1]"
        )
    if len(outputs) != 1 or not isinstance(outputs[0], TensorInfo):
        raise InputError(
            f"{program.name} is not a language model that tokens can be sampled from: it returns "
            f"{'; '.join(map(str, outputs)) or 'nothing'}, not logits alone"
        )
    tokens, position = tensors
    return tokens, position, outputs[0]
