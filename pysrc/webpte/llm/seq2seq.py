"""Answers of encoder-decoder models: translations, summaries, transcripts.

    model = webpte.llm.Seq2Seq(program)
    async for token in model.generate(tokens_of_the_text, max_new_tokens=60):
        ...

The program has two methods. `encoder` takes an input and gives its keys and values for each layer
of the decoder; `text_decoder` takes tokens, their position and these keys and values, and keeps the
KV cache of its self-attention. In exports of optimum-executorch the encoder gives hidden states,
which `text_decoder` takes before the position. On a GPU, the encoder's outputs stay there, and are
copied once for an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

import numpy as np

from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.call.info import TensorInfo
from webpte.engine.dtypes import DTYPES
from webpte.engine.ops.sampling.sample_numpy import mask_of
from webpte.errors import InputError
from webpte.llm.decode.sampling import LogitsRule, SampledToken, SamplerSettings
from webpte.llm.generation import Generation, GenerationOptions
from webpte.llm.kv_session import KVSession
from webpte.llm.program_signature import DECODER, ENCODER, INTEGERS, numbers_of, position_place
from webpte.llm.speculation import SpeculationState
from webpte.program import Program, call_log_of

NUMPY = "numpy"


class Seq2Seq:
    """An encoder-decoder model, whose answers depend on an input and no earlier conversation.

    An answer ends when the next begins. The decoder's state belongs to the program, as the cache of
    a `Generator` does.

    source       the encoder's input
    max_source   the longest input: positions of the encoder's input
    max_context  the number of tokens of an answer, its start included; None if it is not known
    start        the tokens that every answer starts with, which are not part of it
    forced       tokens that follow the start in every answer
    eos          the program's own stop tokens
    """

    def __init__(self, program: Program, encoder: str = ENCODER, decoder: str = DECODER) -> None:
        self.program = program
        self._session = session = EncodedSession(program, encoder, decoder)
        self.source = session.source
        self.max_source: int = session.source.shape[-1]
        self.max_context, self.eos = session.max_context, session.eos
        self.start = tuple(numbers_of(program, "decoder_start_token_id")[:1])
        self.forced = tuple(numbers_of(program, "forced_bos_token_id")[:1])

    @property
    def vocabulary(self) -> int:
        """The number of tokens: the last dim of the logits."""
        return self._session.vocabulary

    @property
    def is_text(self) -> bool:
        """Whether the encoder takes tokens, rather than features."""
        return self._session.source.dtype in INTEGERS

    def generate(
        self,
        source: Sequence[int] | np.ndarray,
        max_new_tokens: int | None = None,
        *,
        prompt: Sequence[int] | None = None,
        stop: Collection[int] = (),
        rule: LogitsRule | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """Answer an input: the tokens of a text, or an array for the encoder.

        `prompt` are the tokens that the answer continues: by default the model's own, `start` and
        `forced`. It is at most `max_new_tokens` long, by default as long as fits. `rule(history,
        logits)` returns the logits (vocabulary,) to choose a token from, after a history that
        begins with the prompt; each token then waits for its logits. The other options are as for
        `Generator.generate`; there is no speculation.
        """
        if options.get("speculate") is not None:
            raise InputError("an encoder-decoder model decodes without speculation")
        given = self._session.check_source(source)
        first = (*self.start, *self.forced) if prompt is None else tuple(prompt)
        if not first:
            raise InputError(
                f"{self.program.name} does not say which token its answers start with: give a "
                "prompt"
            )
        if max_new_tokens is None:
            if self.max_context is None:
                raise InputError(f"{self.program.name} has no limit: give max_new_tokens")
            max_new_tokens = max(1, self.max_context - len(first))
        session, most = self._session, max_new_tokens
        return _EncodedGeneration(session, given, first, most, stop, rule, **options)

    def compiled(self, prompts: Sequence[int]) -> dict[str, Any]:
        """Return the method that encodes and the decoder as a compiled program describes them.

        prompts  the numbers of tokens that answers begin with
        """
        session = self._session
        if self.max_context is None:
            raise InputError(
                f"{self.program.name} has no limit of tokens, so it cannot be compiled"
            )
        decoder = {
            "method": session.method,
            "greedy": f"{session.method}.greedy",
            "position": position_place(self.program.methods[session.method]),
            "prompt": [*self.start, *self.forced],
            "prompts": sorted(prompts),
            "ends": sorted(self.eos),
            "suppressed": numbers_of(self.program, "begin_suppress_tokens"),
            "context": self.max_context,
        }
        return {"method": session.encoder, "decoder": decoder}


class EncodedSession(KVSession):
    """The decoder's context for an input, which is encoded before the first token is decoded."""

    def __init__(self, program: Program, encoder: str, decoder: str) -> None:
        super().__init__(program, decoder, more=True)
        self.encoder = encoder
        self.source = _source_of(program, encoder, decoder)
        self._source: np.ndarray | None = None
        self._not_first = _all_but(numbers_of(program, "begin_suppress_tokens"), self.vocabulary)
        self._encoded_at = -1  # the program's generation when the input was encoded

    def check_source(self, source: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return an input in the encoder's form; raises InputError."""
        info, dtype = self.source, DTYPES[self.source.dtype].numpy
        if info.dtype not in INTEGERS:
            return np.asarray(source, dtype)
        tokens = source.reshape(-1) if isinstance(source, np.ndarray) else source
        numbers = self.check_tokens(tokens)
        if not 1 <= len(numbers) <= info.shape[-1]:
            raise InputError(
                f"an input of {len(numbers)} tokens: {self.program.name} takes 1 to "
                f"{info.shape[-1]}"
            )
        return np.asarray([numbers], dtype)

    def start(self, source: np.ndarray) -> None:
        """Empty the context for an input; free the encoder's outputs for an earlier input."""
        self.reset()
        self._free()
        self._source = source

    async def prefill(
        self, tokens: list[int], settings: SamplerSettings, allowed: np.ndarray | None = None
    ) -> SampledToken:
        if self._source is not None and not self.position:
            with self._alone():
                await self._encode(self._source)
            allowed = self._not_first if allowed is None else allowed
        return await super().prefill(tokens, settings, allowed)

    async def _encode(self, source: np.ndarray) -> None:
        """Run the encoder, unless its outputs for this input still exist."""
        generation = call_log_of(self.program).generation
        if self.given and self._encoded_at == generation:
            return
        self._free()
        place = NUMPY if self.program.device_info.kind == NUMPY else "gpu"
        self.given = await self.program.run(self.encoder, source, output=place)
        self._encoded_at = generation

    def _free(self) -> None:
        for tensor in self.given:
            if isinstance(tensor, GpuTensor):
                tensor.destroy()
        self.given = ()


class _EncodedGeneration(Generation):
    """An answer to an input, which starts with a prompt."""

    def __init__(
        self,
        session: EncodedSession,
        source: np.ndarray,
        prompt: Sequence[int],
        max_new_tokens: int,
        stop: Collection[int],
        rule: LogitsRule | None,
        **options: Any,
    ) -> None:
        speculators = SpeculationState(session)
        super().__init__(session, speculators, prompt, True, max_new_tokens, stop, **options)
        if rule is not None:
            self._plain.use_rule(rule)
        self._encoded, self._source = session, source

    def _begin(self) -> int:
        self._encoded.check_idle()
        self._encoded.start(self._source)
        return super()._begin()


def _all_but(tokens: Sequence[int], vocabulary: int) -> np.ndarray | None:
    """Return the sampler's mask of all tokens but these; None without tokens."""
    if not tokens:
        return None
    return mask_of(np.setdiff1d(np.arange(vocabulary), np.array(tokens)), vocabulary)


def _source_of(program: Program, encoder: str, decoder: str) -> TensorInfo:
    """Return the input of an encoder whose outputs a decoder takes; raises InputError."""
    methods = program.methods
    if encoder not in methods:
        raise InputError(f"{program.name} has no method {encoder!r}: it has {', '.join(methods)}")
    first, second = methods[encoder], methods[decoder]
    source = first.inputs[0] if len(first.inputs) == 1 else None
    if not isinstance(source, TensorInfo):
        raise InputError(
            f"{program.name}: {encoder!r} takes {_listed(first.inputs)}, not one tensor"
        )
    place = position_place(second)
    taken = [given for at, given in enumerate(second.inputs) if at not in (0, place)]
    if _shapes(first.outputs) != _shapes(taken) or not first.outputs:
        raise InputError(
            f"{program.name}: {encoder!r} gives {_listed(first.outputs)}, but {decoder!r} takes "
            f"{_listed(taken)} besides tokens and position"
        )
    return source


def _shapes(values: Sequence[Any]) -> list[Any]:
    return [(one.dtype, one.shape) if isinstance(one, TensorInfo) else None for one in values]


def _listed(values: Sequence[Any]) -> str:
    return "; ".join(map(str, values)) or "nothing"
