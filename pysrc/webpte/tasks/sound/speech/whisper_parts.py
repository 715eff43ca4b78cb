"""Whisper in parts that keep no state: encoder and decoder, or also cross-attention, steps, head.

    encoder    features, or the samples that `mel` makes features of -> states
    cross_kv   states -> keys and values for each layer of the decoder
    decoder    tokens, and the states or the keys and values -> logits, or what `head` takes

A decoder without caches gets the whole answer in each call. Others return their caches, which the
next call gets back: one decoder for the prompt and another for steps, or one for both. Inputs and
outputs are known by their shapes, because files name none; others raise InputError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor, with_shape
from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.errors import ExecutionError, InputError
from webpte.llm.decode.sampling import LogitsRule
from webpte.llm.program_signature import INTEGERS, max_context_of, numbers_of, stop_tokens_of
from webpte.program import Program

Array = np.ndarray
Shape = tuple[str, tuple[int, ...]]
_MEL = ("mel", "spectrogram", "frontend", "features")
_HEAD = ("head", "logits")


@dataclass(frozen=True)
class DecoderForm:
    """A method that decodes, by the places of its inputs.

    width      the tokens of a call
    position   the place of the positions, or None
    encoded    the places of the encoder's outputs, in order
    caches     the places of caches, which follow the first output in the same order
    """

    method: str
    width: int
    tokens: int
    position: int | None
    encoded: tuple[int, ...]
    caches: tuple[int, ...]
    returned: int


class WhisperParts:
    """An encoder-decoder model whose parts keep no state, with the calls of `webpte.llm.Seq2Seq`.

    An answer is greedy: the likeliest token each time.

    source       the input of the first part: features, or samples
    max_context  the number of tokens of an answer, its start included
    start, eos   the program's own tokens around an answer, if it has them
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        methods = {name: info for name, info in program.methods.items() if not info.is_constant}
        self._mel = _named(methods, _MEL)
        self._encoder = _named(methods, ("encoder", "encode"))
        self._cross = _named(methods, ("cross",))
        self._head = _named(methods, _HEAD)
        if self._encoder is None:
            raise InputError(f"{program.name} has no encoder among {', '.join(methods)}")
        chain = [one for one in (self._mel, self._encoder, self._cross) if one is not None]
        self._chain = tuple(chain)
        self.source = self._only_tensor(chain[0])
        for one, after in pairwise(chain):
            if _sizes(methods[one].outputs) != _sizes(methods[after].inputs):
                raise InputError(
                    f"{program.name}: {one!r} gives {_listed(methods[one].outputs)}, but {after!r} "
                    f"takes {_listed(methods[after].inputs)}"
                )
        encoded = _shapes(methods[chain[-1]].outputs)
        others = [name for name in methods if name not in (*chain, self._head, "sampler")]
        forms = [self._form(name, methods[name], encoded) for name in others]
        self._prompt, self._step = self._pair(forms)
        self.max_context = self._room()
        self.start = tuple(numbers_of(program, "decoder_start_token_id")[:1])
        self.eos = stop_tokens_of(program)

    def _room(self) -> int | None:
        """Return the tokens that fit into a call, or into caches; None if nothing tells."""
        said = max_context_of(self.program)
        room = [] if said is None else [said]
        if not self._step.caches:
            return min([*room, self._step.width])
        inputs = _shapes(self.program.methods[self._step.method].inputs)
        room += [inputs[at][1][-2] for at in self._step.caches if len(inputs[at][1]) > 1]
        return min(room) if room else None

    def _only_tensor(self, method: str) -> TensorInfo:
        given = self.program.methods[method].inputs
        if len(given) != 1 or not isinstance(given[0], TensorInfo):
            raise InputError(
                f"{self.program.name}: {method!r} takes {_listed(given)}, not a tensor"
            )
        return given[0]

    def _form(self, name: str, info: MethodInfo, encoded: Sequence[Shape]) -> DecoderForm:
        """Tell the inputs of a decoder apart; raise InputError if that fails."""
        inputs = _shapes(info.inputs)
        tokens = [
            at for at, (kind, dims) in enumerate(inputs) if kind in INTEGERS and len(dims) == 2
        ]
        places = [
            at for at, (kind, dims) in enumerate(inputs) if kind in INTEGERS and len(dims) < 2
        ]
        floats = [at for at in range(len(inputs)) if at not in (*tokens, *places)]
        taken = _in_order([inputs[at] for at in floats], encoded)
        outputs = _shapes(info.outputs)
        if len(tokens) == 1 and len(places) < 2 and taken is not None and outputs:
            given = [floats[at] for at in taken]
            caches = [at for at in floats if at not in given]
            fits = [inputs[at] for at in caches] == outputs[1:] and bool(places)
            if fits or not caches:
                return DecoderForm(
                    name,
                    inputs[tokens[0]][1][1],
                    tokens[0],
                    places[0] if places else None,
                    tuple(given),
                    tuple(caches),
                    len(outputs) - 1,
                )
        raise InputError(
            f"{self.program.name}: {name!r} takes {_listed(info.inputs)} and gives "
            f"{_listed(info.outputs)}; a decoder takes tokens [1, S], perhaps a position, what the "
            "encoder gives, and with a position caches that it gives back after its first output"
        )

    def _pair(self, forms: Sequence[DecoderForm]) -> tuple[DecoderForm, DecoderForm]:
        """Return the decoder for the prompt and the decoder for steps, or one for both."""
        if len(forms) == 1:
            (one,) = forms
            if one.returned == len(one.caches) and (one.caches or one.width > 1):
                return one, one
        if len(forms) == 2:
            first, second = sorted(forms, key=lambda form: (len(form.caches), -form.width))
            if first.returned == second.returned == len(second.caches) > 0 == len(first.caches):
                return first, second
        names = ", ".join(form.method for form in forms) or "none"
        raise InputError(
            f"{self.program.name} has no decoder for whole answers, and no two for the prompt and "
            f"for steps, of which the second takes the caches that the first gives: {names}"
        )

    @property
    def max_source(self) -> int:
        """The longest input."""
        return self.source.shape[-1]

    @property
    def is_text(self) -> bool:
        """Whether the first part takes tokens."""
        return self.source.dtype in INTEGERS

    async def generate(
        self,
        source: Array,
        max_new_tokens: int | None = None,
        *,
        prompt: Sequence[int],
        stop: Collection[int] = (),
        rule: LogitsRule | None = None,
        **options: Any,
    ) -> AsyncIterator[int]:
        """Yield the tokens of an answer, without its stop token.

        source   features or samples as the first part takes them
        rule     as for `Seq2Seq.generate`
        options  none: each token is the likeliest
        """
        if any(options.values()):
            raise InputError(
                f"{self.program.name} answers greedily: leave out {', '.join(options)}"
            )
        room = None if self.max_context is None else self.max_context - len(prompt)
        most = room if max_new_tokens is None else max_new_tokens
        if most is None:
            raise InputError(f"{self.program.name} has no limit: give max_new_tokens")
        if room is not None and room < 1:
            raise InputError(f"{self.program.name} has no room after {len(prompt)} tokens")
        ends, history = {*stop, *self.eos}, list(prompt)
        encoded = await self._encode(source)
        try:
            state = _DecoderState()
            for _ in range(most if room is None else min(most, room)):
                logits = await self._logits(history, encoded, state)
                logits = logits if rule is None else rule(history, logits)
                token = int(np.argmax(logits))
                if token in ends:
                    return
                history.append(token)
                yield token
        finally:
            for value in encoded:
                if isinstance(value, GpuTensor):
                    value.destroy()

    async def _encode(self, source: Array) -> tuple[Any, ...]:
        """Run the parts before the decoder; the results of the last stay on the GPU, if any."""
        place = "numpy" if self.program.device_info.kind == "numpy" else "gpu"
        values: tuple[Any, ...] = (np.asarray(source, DTYPES[self.source.dtype].numpy),)
        for method in self._chain:
            inputs = self.program.methods[method].inputs
            given = [_fitted(one, info) for one, info in zip(values, inputs, strict=True)]
            before, values = values, await self.program.run(method, *given, output=place)
            for value in before:
                if isinstance(value, GpuTensor):
                    value.destroy()
        return values

    async def _logits(
        self, history: Sequence[int], encoded: Sequence[Any], state: _DecoderState
    ) -> Array:
        """Return the logits after a history, and keep the caches that belong to it."""
        first = not state.done
        form = self._prompt if first else self._step
        keeps = bool(form.returned)
        if first and form.caches:  # a single form: the caches begin as zeros
            shapes = _shapes(self.program.methods[form.method].inputs)
            state.caches = tuple(
                np.zeros(shapes[at][1], DTYPES[shapes[at][0]].numpy) for at in form.caches
            )
        found = np.zeros(0, np.float32)
        while True:
            begin = state.done if keeps else 0
            part = list(history[begin : begin + form.width])
            found, caches = await self._call(form, part, begin, encoded, state.caches)
            if not keeps:
                break
            state.caches, state.done = caches, begin + len(part)
            if state.done == len(history):
                break
            form = self._step
        return found

    async def _call(
        self,
        form: DecoderForm,
        tokens: Sequence[int],
        begin: int,
        encoded: Sequence[Any],
        caches: Sequence[Any],
    ) -> tuple[Array, tuple[Any, ...]]:
        info = self.program.methods[form.method]
        shapes = _shapes(info.inputs)
        whole = info.inputs[form.tokens]
        assert isinstance(whole, TensorInfo)
        width = len(tokens) if whole.dynamic else form.width
        given: dict[int, Any] = dict(zip(form.encoded, encoded, strict=True))
        given |= dict(zip(form.caches, caches, strict=True)) if form.caches else {}
        padded = [*tokens, *[tokens[-1]] * (width - len(tokens))]
        given[form.tokens] = np.asarray([padded], shapes[form.tokens][0])
        if form.position is not None:
            kind, dims = shapes[form.position]
            places = np.arange(begin, begin + width) if dims and dims[0] > 1 else np.array([begin])
            given[form.position] = places.astype(kind).reshape(-1 if dims else ())
        out, *kept = await self.program.run(form.method, *(given[at] for at in sorted(given)))
        rows = np.asarray(out).reshape(-1, out.shape[-1])
        last = min(len(tokens), len(rows)) - 1
        logits = rows[last] if self._head is None else await self._to_logits(rows, last)
        if not np.isfinite(logits).all():
            raise ExecutionError(f"{self.program.name} returned NaN or infinities")
        return logits, tuple(kept)

    async def _to_logits(self, rows: Array, last: int) -> Array:
        """Return the logits of a row, by the head, which takes one row or all of a call."""
        assert self._head is not None
        wanted = self._only_tensor(self._head)
        if wanted.dynamic or int(np.prod(wanted.shape)) == rows.shape[1]:
            rows, last = rows[last : last + 1], 0
        shape = (*(1,) * (len(wanted.shape) - 2), *rows.shape)[-len(wanted.shape) :]
        given = rows.astype(DTYPES[wanted.dtype].numpy).reshape(shape)
        (found,) = await self.program.run(self._head, given)
        logits: Array = np.asarray(found).reshape(len(rows), -1)[last]
        return logits


class _DecoderState:
    """The caches of an answer, and the number of tokens in them."""

    def __init__(self) -> None:
        self.caches: tuple[Any, ...] = ()
        self.done = 0


def _named(methods: dict[str, MethodInfo], words: Collection[str]) -> str | None:
    """Return the first method with one of some words in its name."""
    return next((name for name in methods if {*name.split("_")} & {*words}), None)


def _shapes(values: Sequence[Any]) -> list[Shape]:
    return [
        (one.dtype, tuple(one.shape)) if isinstance(one, TensorInfo) else (one.kind, ())
        for one in values
    ]


def _sizes(values: Sequence[Any]) -> list[tuple[str, int]]:
    return [(kind, int(np.prod(dims))) for kind, dims in _shapes(values)]


def _fitted(value: Any, info: Any) -> Any:
    """Return a value in the shape that a method takes, if that has as many elements."""
    if isinstance(value, GpuTensor):
        fits = int(np.prod(value.shape)) == int(np.prod(info.shape))
        return with_shape(value, tuple(info.shape)) if fits else value
    return value.reshape(info.shape) if value.size == int(np.prod(info.shape)) else value


def _in_order(given: Sequence[Shape], wanted: Sequence[Shape]) -> list[int] | None:
    """Return the places of the wanted shapes among the given, in order; None if one lacks."""
    found, at = list[int](), 0
    for one in wanted:
        while at < len(given) and given[at] != one:
            at += 1
        if at == len(given):
            return None
        found.append(at)
        at += 1
    return found


def _listed(values: Sequence[Any]) -> str:
    return "; ".join(map(str, values)) or "nothing"
