"""A decoder's graph that takes tokens: the embedding's calls go before the decoder's.

Exports of models that also see pictures have two methods: `token_embedding` gives the embeddings of
tokens, and `text_decoder` takes embeddings, of tokens or of pictures. For tokens alone both become
a single graph, so that a step is one submission, and its sampled token can be the next step's
input.
"""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.format.vulkan import ValueListValue
from webpte.engine.graph.graph import Call, Graph, Tensor, Value


def token_graph(embedding: Graph, decoder: Graph) -> Graph | str:
    """Return a graph of both, or why they cannot be joined; ids of the decoder's values stay.

    Inputs: the inputs of the embedding (tokens), then the inputs of the decoder but for the
    embeddings.
    """
    if len(embedding.inputs) != 1 or len(embedding.outputs) != 1:
        return "the embedding does not take tokens and give their embeddings alone"
    given, taken = embedding.value(embedding.outputs[0]), decoder.value(decoder.inputs[0])
    if not isinstance(given, Tensor) or not isinstance(taken, Tensor):
        return "embeddings are not tensors"
    if (given.dtype, given.dims) != (taken.dtype, taken.dims):
        return f"embeddings are {given}, but the decoder takes {taken}"
    shift = len(decoder.values)

    def number(value_id: int) -> int:
        return value_id + shift

    source = number(embedding.outputs[0])
    values = [*decoder.values, *(_moved(value, shift) for value in embedding.values)]
    calls = [
        replace(call, args=tuple(number(value_id) for value_id in call.args))
        for call in embedding.calls
    ]
    for call in decoder.calls:
        args = tuple(source if i == taken.id else i for i in call.args)
        calls.append(replace(call, args=args))
    values = [
        ValueListValue(tuple(source if i == taken.id else i for i in value.items))
        if isinstance(value, ValueListValue)
        else value
        for value in values
    ]
    ordered: list[Call] = [replace(call, index=index) for index, call in enumerate(calls)]
    inputs = (number(embedding.inputs[0]), *decoder.inputs[1:])
    return Graph(tuple(values), tuple(ordered), inputs, decoder.outputs)


def _moved(value: Value, shift: int) -> Value:
    """Return a value of the embedding with its new number."""
    if isinstance(value, ValueListValue):
        return ValueListValue(tuple(item + shift for item in value.items))
    if not isinstance(value, Tensor):
        return value
    group = value.mem_obj_id
    return replace(value, id=value.id + shift, mem_obj_id=None if group is None else group + shift)
