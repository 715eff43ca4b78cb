"""The signature of a language model's program: its method that answers, and its constant methods.

Most programs have a single method, `forward`: tokens [1, S] and the position in, logits out. Others
have `prefill` for prompts and `decode` for single tokens, with caches in common or not. One of
these two answers alone: the method that takes any number of tokens, else the method for single
tokens, to which a prompt goes token by token.

Models that also see pictures have `token_embedding` (tokens [1, S] in, embeddings [1, S, width]
out), `text_decoder` (embeddings and the position in, logits out), and `vision_encoder` (a picture
in, embeddings [1, rows, width] out). Where positions are not places in the cache, `text_decoder`
also takes the outputs of `rotary_tables`: see picture_session.py. Other names of the three are in
EMBEDDINGS, DECODERS and VISIONS.

Some exports take the position of each token, [S], in place of the first token's position, called
`cache_position` by optimum-executorch. The decoder of an encoder-decoder model may take the
encoder's outputs before the position, or after it.

Programs that are parts of a model share no memory: their methods take KV caches as inputs and give
changed caches after the logits. Another method may begin the caches, from a whole prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from operator import index

from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.errors import InputError
from webpte.program import Program

USUAL = "forward"
INTEGERS = ("int64", "int32")
ENCODER, DECODER = "encoder", "text_decoder"
POSITION = "a position, input_pos [1] or cache_position [S]"
ROTARY = "rotary_tables"
# Names of methods, and of programs that are parts of a model; the first are ExecuTorch's.
EMBEDDINGS = (
    *("token_embedding", "token_embeddings", "embed_tokens", "text_embedding"),
    *("embedding", "embeddings", "embed"),
)
DECODERS = (DECODER, "text_model", "decoder", "language_model", "language_decoder", "decode")
VISIONS = ("vision_encoder", "image_encoder", "vision", "visual")


@dataclass(frozen=True)
class VisionSignature:
    """The signature of a vision encoder.

    name     the method
    pixels   its first input
    rows     the number of rows that a picture is encoded to; the most, if that depends on its size
    side     the patches along each side of the square that becomes a row; 0: it takes pictures of
             a fixed size
    """

    name: str
    pixels: TensorInfo
    rows: int
    side: int = 0


def numbers_of(program: Program, method: str) -> list[int]:
    """Return the outputs of a constant method; an empty list if the program lacks it."""
    info = program.methods.get(method)
    if info is None or not info.is_constant:
        return []
    values = [output.value for output in info.outputs if isinstance(output, ScalarInfo)]
    return [int(value) for value in values if value is not None]


def passed_caches(info: MethodInfo) -> tuple[int, ...]:
    """Return the places of inputs that a method gives back after its first output: its caches."""
    given = _sizes(info.outputs[1:])
    floats = [
        at
        for at, one in enumerate(info.inputs)
        if isinstance(one, TensorInfo) and one.dtype not in INTEGERS and len(one.shape) > 2
    ]
    last = tuple(floats[max(len(floats) - len(given), 0) :]) if given else ()
    return last if _sizes([info.inputs[at] for at in last]) == given else ()


def signature_of(program: Program, method: str) -> MethodInfo:
    """Return a method's inputs and outputs without the caches that it passes."""
    return _without_caches(program.methods[method])


def _without_caches(info: MethodInfo) -> MethodInfo:
    caches = passed_caches(info)
    inputs = tuple(one for at, one in enumerate(info.inputs) if at not in caches)
    return replace(info, inputs=inputs, outputs=info.outputs[:1]) if caches else info


def prompt_method(program: Program, method: str) -> str | None:
    """Return the method that begins the caches that a method passes, from a whole prompt."""
    info = program.methods[method]
    caches = _sizes([info.inputs[at] for at in passed_caches(info)])
    for name, other in program.methods.items() if caches else ():
        first, *rest = other.inputs or (None,)
        if (
            _sizes(other.outputs[1:]) == caches
            and _tells_each(other)
            and isinstance(first, TensorInfo)
            and _sizes([first])[0][0] == _sizes(info.inputs[:1])[0][0]
            and all(isinstance(one, TensorInfo) and one.dtype in INTEGERS for one in rest)
        ):
            return name
    return None


def _tells_each(info: MethodInfo) -> bool:
    """Return whether a method gives the logits of the last token of any number of tokens."""
    first, logits = info.inputs[:1], info.outputs[:1]
    if not isinstance(first[0], TensorInfo) or not isinstance(logits[0], TensorInfo):
        return False
    count = first[0].shape[1] if len(first[0].shape) > 1 else 0
    return first[0].dynamic or count in (1, *logits[0].shape[-2:-1])


def max_chunk_of(program: Program, method: str) -> int:
    """Return the number of tokens that a call takes, or a call of the method for prompts."""
    embedding = embedding_of(program, method)
    names = [prompt_method(program, method) or method, *([embedding] if embedding else [])]
    given = [program.methods[name].inputs[0] for name in names]
    return min(one.shape[1] for one in given if isinstance(one, TensorInfo))


def max_context_of(program: Program) -> int | None:
    """Return the most tokens of a conversation; None if the program does not declare the number."""
    lengths = numbers_of(program, "get_max_context_len") or numbers_of(program, "get_max_seq_len")
    return lengths[0] if lengths else None


def context_of(program: Program, method: str) -> int | None:
    """Return the most tokens of a conversation with a method; None if nothing tells the number."""
    known, info = max_context_of(program), program.methods[method]
    sizes = [dims for _, dims in _sizes([info.inputs[at] for at in passed_caches(info)])]
    room = [max(dims[1:-1]) for dims in sizes]
    return min([*room, *([] if known is None else [known])], default=None)


def stop_tokens_of(program: Program) -> frozenset[int]:
    """Return the program's own stop tokens, under the name of ExecuTorch or of optimum."""
    found = numbers_of(program, "get_eos_ids") or numbers_of(program, "get_eos_id")
    return frozenset(found)


def language_model(
    program: Program, method: str, more: bool = False
) -> tuple[TensorInfo, TensorInfo, TensorInfo]:
    """Return tokens, position and logits of a method; raise InputError if it has other values.

    The method may take `more` than tokens and position. For a method that takes embeddings, the
    tokens are the tokens of the method that embeds them.
    """
    methods = program.methods
    if method not in methods:
        raise InputError(f"{program.name} has no method {method!r}")
    info = signature_of(program, method)
    inputs, outputs = info.inputs, info.outputs
    embedding = embedding_of(program, method)
    if embedding is None and not takes_tokens(info, more):
        raise InputError(
            f"{program.name} is not a language model with a KV cache: it takes "
            f"{'; '.join(map(str, inputs))}, not tokens [1, S] and {POSITION}{_advice(info)}"
        )
    if len(outputs) != 1 or not isinstance(outputs[0], TensorInfo):
        raise InputError(
            f"{program.name} is not a language model that tokens can be sampled from: it returns "
            f"{'; '.join(map(str, outputs)) or 'nothing'}, not logits alone"
        )
    position = inputs[position_place(info)]
    assert isinstance(position, TensorInfo), "see takes_tokens"
    return _tokens(info if embedding is None else methods[embedding]), position, outputs[0]


def _advice(info: MethodInfo) -> str:
    """Tell what to do about a method that takes tokens without a position."""
    given = info.inputs[0] if len(info.inputs) == 1 else None
    if not isinstance(given, TensorInfo) or given.dtype not in INTEGERS or len(given.shape) != 2:
        return ""
    return (
        ". Without a cache each token needs the whole text again: export it with one "
        "(`model.use_kv_cache` of export_llm), or call its method with the whole text"
    )


def position_place(info: MethodInfo) -> int:
    """Return which input is the position: the second, or the last, after an encoder's outputs."""
    second, last = info.inputs[1], info.inputs[-1]
    floats = isinstance(second, TensorInfo) and second.dtype not in INTEGERS
    return len(info.inputs) - 1 if floats and _is_position(last) else 1


def _is_position(given: object) -> bool:
    return isinstance(given, TensorInfo) and given.dtype in INTEGERS and len(given.shape) == 1


def embedding_of(program: Program, method: str) -> str | None:
    """Return the method that embeds tokens for a method that takes embeddings; else None."""
    methods = program.methods
    name = _first(methods, EMBEDDINGS)
    info = signature_of(program, method) if method in methods else None
    before, tables = methods.get(name or ""), methods.get(ROTARY)
    return name if info is not None and _takes_embeddings(info, before, tables) else None


def vision_method(program: Program) -> str | None:
    """Return the method that encodes pictures for a language model; None if it takes none."""
    return vision_among(program.methods)


def vision_among(methods: Mapping[str, MethodInfo]) -> str | None:
    """Return the method among several that encodes a language model's pictures, or None."""
    return None if _first(methods, EMBEDDINGS) is None else _first(methods, VISIONS)


def _first(methods: Mapping[str, MethodInfo], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in methods), None)


def _takes_embeddings(
    info: MethodInfo, before: MethodInfo | None, tables: MethodInfo | None
) -> bool:
    """Return whether a method takes the embeddings that another method gives, and a position.

    It may also take `tables`, the outputs of a third method.
    """
    tensors = [given for given in info.inputs if isinstance(given, TensorInfo)]
    if before is None or len(tensors) != len(info.inputs) or len(tensors) < 2:
        return False
    embeddings, position, *more = tensors
    made = [] if tables is None else list(tables.outputs)
    if more and _sizes(more) != _sizes(made):
        return False
    tokens = before.inputs[0] if len(before.inputs) == 1 else None
    given = before.outputs[0] if len(before.outputs) == 1 else None
    return (
        isinstance(tokens, TensorInfo)
        and isinstance(given, TensorInfo)
        and tokens.dtype in INTEGERS
        and position.dtype in INTEGERS
        and (len(tokens.shape), len(given.shape), len(position.shape)) == (2, 3, 1)
        and (given.dtype, given.shape[2]) == (embeddings.dtype, embeddings.shape[2])
        and tokens.shape == given.shape[:2]
        and (given.shape == embeddings.shape or _suits(tokens, embeddings))
    )


def _suits(tokens: TensorInfo, embeddings: TensorInfo) -> bool:
    """Return whether an embedding gives a decoder as many rows as it takes, up to the fewer."""
    more, fewer = sorted((tokens, embeddings), key=lambda one: -one.shape[1])
    return more.dynamic and (fewer.dynamic or fewer.shape[1] == 1)


def _sizes(values: Sequence[object]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.dtype, one.shape) if isinstance(one, TensorInfo) else ("", ()) for one in values]


def language_method(program: Program, method: str = USUAL) -> str:
    """Return the name of the method to call: the given method, or else the only fitting method.

    Raises InputError for a program whose methods give tokens, or take other inputs.
    """
    methods = {name: _without_caches(info) for name, info in program.methods.items()}
    chosen = method
    if method == USUAL and USUAL not in methods:
        parts = [name for name in DECODERS if embedding_of(program, name) is not None]
        chosen = parts[0] if parts else _fitting(program.name, methods)
    info = methods.get(chosen)
    if info is not None and takes_tokens(info) and _gives_tokens(info):
        raise InputError(
            f"{program.name}: method {chosen!r} gives a token ({info.outputs[0]}), not logits, so "
            "there is nothing to sample from: export the model without its argmax"
        )
    return chosen


def _fitting(name: str, methods: dict[str, MethodInfo]) -> str:
    """Return the method that takes the most tokens of any number, or else one at a time."""
    found = {key: info for key, info in methods.items() if takes_tokens(info)}
    found = {key: info for key, info in found.items() if len(info.outputs) == 1} or found
    flexible = [key for key, info in found.items() if _tokens(info).dynamic]
    if flexible:
        return max(flexible, key=lambda key: _tokens(found[key]).shape[1])
    single = [key for key, info in found.items() if _tokens(info).shape[1] == 1]
    if single:
        return "decode" if "decode" in single else single[0]
    listed = ", ".join(key for key, info in methods.items() if not info.is_constant) or "none"
    why = f"none takes tokens [1, S] and {POSITION}"
    if methods.keys() >= {ENCODER, DECODER}:
        why = "they are an encoder-decoder model's: webpte.llm.Seq2Seq runs it"
    elif (before := _first(methods, EMBEDDINGS)) and (after := _first(methods, DECODERS)):
        why = (
            f"{after} takes other things than the embeddings [1, S, width] that {before} gives, "
            "and input_pos [1]"
        )
    elif found:
        sizes = ", ".join(f"{key} {_tokens(info).shape[1]}" for key, info in found.items())
        why = f"each takes a fixed number of tokens ({sizes}), and none takes one"
    raise InputError(f"{name} has no method {USUAL!r}. Of its methods ({listed}), {why}")


def _tokens(info: MethodInfo) -> TensorInfo:
    tokens = info.inputs[0]
    assert isinstance(tokens, TensorInfo), "see takes_tokens"
    return tokens


def takes_tokens(info: MethodInfo, more: bool = False) -> bool:
    """Return whether a method takes tokens [1, S] and a position [1], alone or with `more`."""
    if len(info.inputs) < 2 or (len(info.inputs) > 2 and not more):
        return False
    tokens, position = info.inputs[0], info.inputs[position_place(info)]
    listed = isinstance(tokens, TensorInfo) and tokens.dtype in INTEGERS and len(tokens.shape) == 2
    return listed and _is_position(position)


def _gives_tokens(info: MethodInfo) -> bool:
    output = info.outputs[0] if len(info.outputs) == 1 else None
    return isinstance(output, TensorInfo) and output.dtype in INTEGERS


def vision_of(program: Program, method: str) -> VisionSignature:
    """Return the vision encoder's input, and the number of its rows; raises InputError."""
    name = vision_method(program)
    assert name is not None, "the program sees"
    info = program.methods[name]
    given = [one for one in info.inputs if isinstance(one, TensorInfo)]
    rows = info.outputs[0] if len(info.outputs) == 1 else None
    wanted = signature_of(program, method).inputs[0]
    if (
        len(given) == len(info.inputs)
        and isinstance(rows, TensorInfo)
        and isinstance(wanted, TensorInfo)
        and len(rows.shape) in (2, 3)
        and (len(rows.shape) == 2 or rows.shape[0] == 1)
        and (rows.dtype, rows.shape[-1]) == (wanted.dtype, wanted.shape[-1])
    ):
        if len(given) == 1 and not given[0].dynamic and not rows.dynamic:
            return VisionSignature(name, given[0], rows.shape[-2])
        if len(given) == 2 and ROTARY in program.methods:
            patches, places = given
            side = isqrt(patches.shape[1]) if len(patches.shape) == 3 else 0
            if (
                places.dtype in INTEGERS
                and places.shape == (*patches.shape[:2], 2)
                and side * side == patches.shape[1]
                and rows.shape[-2] == patches.shape[0]
            ):
                return VisionSignature(name, patches, rows.shape[-2], side)
    raise InputError(
        f"{program.name}: {name} takes {'; '.join(map(str, info.inputs))} and gives "
        f"{'; '.join(map(str, info.outputs))}; it should take one picture, or patches and their "
        f"places, and give rows of embeddings as {method} takes them ({wanted})"
    )


def positions_of(program: Program, method: str) -> TensorInfo | None:
    """Return the input of `rotary_tables`, positions [3, context]; None without that method."""
    if len(signature_of(program, method).inputs) == 2:
        return None
    info = program.methods[ROTARY]  # `embedding_of` has checked that the method exists
    given = info.inputs[0] if len(info.inputs) == 1 else None
    if (
        not isinstance(given, TensorInfo)
        or given.dtype not in INTEGERS
        or len(given.shape) != 2
        or given.shape[0] != 3
        or given.dynamic
    ):
        raise InputError(
            f"{program.name}: {ROTARY} takes {'; '.join(map(str, info.inputs))}; it should take "
            "the positions of all places on three axes, [3, context]"
        )
    return given


def listed_tokens(tokens: Iterable[int]) -> list[int]:
    """Return tokens as a list; raise InputError if they cannot be listed."""
    try:
        return list(tokens)
    except TypeError:
        raise InputError(f"tokens must be a list of integers, not {tokens!r}") from None


def check_token_ids(tokens: Iterable[int], vocabulary: int, name: str) -> list[int]:
    """Return tokens as ints; raise InputError for tokens outside the program's vocabulary."""
    numbers: list[int] = []
    for place, token in enumerate(listed_tokens(tokens)):
        try:
            number = index(token)
        except TypeError:
            number = -1
        if not 0 <= number < vocabulary:
            raise InputError(
                f"{token!r} (place {place}) is not a token of {name}: tokens are integers from 0 "
                f"to {vocabulary - 1}"
            )
        numbers.append(number)
    return numbers
