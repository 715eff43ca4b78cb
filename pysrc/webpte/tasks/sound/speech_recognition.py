"""automatic-speech-recognition: the text of a sound, with times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from webpte.engine.call.info import TensorInfo
from webpte.errors import InputError
from webpte.llm.program_signature import ENCODER
from webpte.llm.text import Tokenizer
from webpte.tasks.files import (
    CONFIG,
    GENERATION,
    PREPROCESSOR,
    TOKENIZER,
    TOKENIZER_CONFIG,
    ModelFiles,
)
from webpte.tasks.sound.listening import BlockReader, hear_phrases
from webpte.tasks.sound.samples import BlockResampler, samples_of
from webpte.tasks.sound.speech import Ctc, LogMel, Moonshine, Whisper
from webpte.tasks.sound.speech.ctc import hears_letters
from webpte.tasks.sound.speech.phrases import (
    LoudnessStream,
    PhraseFinder,
    PhraseSettings,
    VoiceStream,
)
from webpte.tasks.sound.speech.whisper_settings import settings_of
from webpte.tasks.sound.voice_activity import RATE as VOICE_RATE
from webpte.tasks.sound.voice_activity import STEP_DOWN, VoiceActivityDetection
from webpte.tasks.task import Task, task


@task("automatic-speech-recognition", view="speech")
class SpeechRecognition(Task):
    """Turns sounds into text, by Whisper, Moonshine or wav2vec 2.0.

    await task(samples)                                # {"text": ...}
    await task(samples, return_timestamps=True)        # also "chunks", with their times
    async for chunk in task.stream(samples): ...       # chunks as soon as they are ready
    async for heard in task.listen(microphone): ...    # phrases of a live sound
    """

    needed: ClassVar[Sequence[str]] = (TOKENIZER,)
    wanted: ClassVar[Sequence[str]] = (CONFIG, PREPROCESSOR, TOKENIZER_CONFIG, GENERATION)

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # always there: it is needed
        self.tokenizer: Tokenizer = files.tokenizer
        self._model = _model_of(files, self.tokenizer)
        self._turn = asyncio.Lock()  # a window at a time changes the program's state

    def compiled(self) -> dict[str, Any]:
        made = self._model.compiled()
        if made is None:
            return super().compiled()
        if isinstance(self._model, Ctc):
            return {"name": self.name, **made}
        return {"name": self.name, **made, "outputs": [{"kind": "text", "outputs": [0]}]}

    @property
    def rate(self) -> int:
        """The samples per second of sounds."""
        return self._model.rate

    @property
    def languages(self) -> list[str]:
        """The supported languages; empty if the model knows a single language."""
        return list(self._model.languages)

    async def __call__(
        self,
        inputs: Any,
        *,
        return_timestamps: bool = False,
        language: str | None = None,
        task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> Any:
        """Return the text of a sound, or a list of texts for a list.

        inputs   samples (count,) of floats, `rate` a second, or {"array" (or "raw"),
                 "sampling_rate"} of any rate, or a list
        return_timestamps   also return "chunks": {"timestamp": (start, end), "text"}
        language            a member of `languages`; by default detected in the first window
        task                "transcribe", or "translate" into English
        max_new_tokens      tokens of a window
        """
        many = isinstance(inputs, list | tuple)
        found = []
        for sound in inputs if many else [inputs]:
            chunks = [
                chunk
                async for chunk in self.stream(
                    sound,
                    language=language,
                    task=task,
                    max_new_tokens=max_new_tokens,
                    return_timestamps=return_timestamps,
                )
            ]
            result: dict[str, Any] = {"text": "".join(chunk["text"] for chunk in chunks)}
            found.append(result | ({"chunks": chunks} if return_timestamps else {}))
        return found if many else found[0]

    async def stream(
        self,
        sound: Any,
        *,
        return_timestamps: bool = True,
        language: str | None = None,
        task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield chunks of a sound when they are ready: {"timestamp": (start, end), "text"}."""
        samples = samples_of(sound, self.rate)
        segments = self._model.transcribe(
            samples,
            language=language,
            task=task,
            timestamps=return_timestamps,
            max_new_tokens=max_new_tokens,
        )
        while True:
            async with self._turn:  # a window at a time: another sound may come in between
                one = await anext(segments, None)
            if one is None:
                return
            times = (round(one.start, 2), round(one.end, 2))
            yield {"timestamp": times, "text": self.tokenizer.decode(one.text_tokens)}

    async def listen(
        self,
        blocks: AsyncIterable[Any] | Iterable[Any],
        *,
        sampling_rate: int | None = None,
        voice: Task | None = None,
        partial_seconds: float | None = 1.0,
        threshold: float = 0.5,
        min_speech_duration_ms: float = 250,
        min_silence_duration_ms: float = 500,
        speech_pad_ms: float = 200,
        language: str | None = None,
        task: str = "transcribe",
        max_new_tokens: int | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the phrases of a live sound, a microphone's for example.

        A phrase is {"text", "timestamp": (start, end), "final"}, with seconds since the beginning.
        While it grows, it has the text so far; when it has ended it is final. A phrase ends with a
        pause, or where the model's window is full. Closing the generator closes `blocks`.

        blocks            sounds in turn; while the model works, blocks are taken up to the length
                          of its window
        sampling_rate     rate of blocks that are plain arrays; by default `rate`
        voice             a voice-activity-detection task; without it, speech is a sound 10 dB
                          louder than the noise
        partial_seconds   how much a phrase has to grow until it is yielded again; None: only its
                          end
        threshold, min_speech_duration_ms, min_silence_duration_ms, speech_pad_ms
                          as for voice-activity-detection
        language, task, max_new_tokens   for each phrase, as in a call
        """
        second = self.rate / 1000
        stream = self._voice_stream(voice)
        settings = PhraseSettings(
            frame=stream.frame,
            high=threshold,
            low=max(threshold - STEP_DOWN, 0.01),
            speech=int(min_speech_duration_ms * second),
            silence=int(min_silence_duration_ms * second),
            pad=int(speech_pad_ms * second),
            longest=self._model.window_samples,
        )
        every = None if partial_seconds is None else max(1, int(partial_seconds * self.rate))
        resampler = BlockResampler(self.rate, sampling_rate)
        reader = BlockReader(blocks, resampler, self._model.window_samples)
        text = ""
        heard = hear_phrases(reader, stream, PhraseFinder(settings), every)
        async with aclosing(heard):
            async for one in heard:
                found = await self(
                    one.phrase.samples, language=language, task=task, max_new_tokens=max_new_tokens
                )
                if one.final or found["text"] != text:
                    start, end = (
                        round(at / self.rate, 2) for at in (one.phrase.start, one.phrase.end)
                    )
                    yield {"text": found["text"], "timestamp": (start, end), "final": one.final}
                text = "" if one.final else found["text"]

    def _voice_stream(self, voice: Task | None) -> VoiceStream:
        """Return a detector of speech; raise InputError for a task without that ability."""
        if voice is None:
            return LoudnessStream(self.rate)
        if not isinstance(voice, VoiceActivityDetection):
            raise InputError(
                f"voice is a {type(voice).__name__}; open a voice-activity-detection task for it"
            )
        if self.rate != VOICE_RATE:
            raise InputError(
                f"{self.program.name} takes {self.rate} samples a second, but {voice.program.name} "
                f"{VOICE_RATE}: leave out voice"
            )
        return voice.stream()


def _model_of(files: ModelFiles, tokenizer: Tokenizer) -> Whisper | Moonshine | Ctc:
    """Return the model that the files describe, by its methods and how sounds are prepared."""
    settings = files.table(PREPROCESSOR)
    if hears_letters(files.program.methods):
        return Ctc(files.program, settings, tokenizer)
    if settings.content.get("feature_extractor_type") == "Wav2Vec2FeatureExtractor":
        return Moonshine(files.program, settings)
    known = GENERATION in files.settings
    generation = files.table(GENERATION).content if known else settings_of(tokenizer)
    return Whisper(files.program, _features_of(files), generation)


def _features_of(files: ModelFiles) -> LogMel:
    """Return the features by the files, else Whisper's with as many bands as the encoder takes."""
    if PREPROCESSOR in files.settings:
        return LogMel.of(files.table(PREPROCESSOR).content)
    info = files.program.methods.get(ENCODER)
    given = info.inputs[0] if info is not None and info.inputs else None
    if isinstance(given, TensorInfo) and len(given.shape) == 3:
        return LogMel(bands=given.shape[1])
    return LogMel()
