"""translation, summarization, text2text-generation: text to text, by an encoder-decoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from webpte.errors import InputError
from webpte.llm.generation import GenerationOptions
from webpte.llm.seq2seq import Seq2Seq
from webpte.llm.text import Tokenizer
from webpte.llm.text.tokenizer import check_fits
from webpte.tasks.encoder import checked_text, cutting
from webpte.tasks.files import CONFIG, TOKENIZER, TOKENIZER_CONFIG, ModelFiles
from webpte.tasks.form import PASSAGE, text_form
from webpte.tasks.task import Task, task


class TextToText(Task):
    """A task that answers a text with another.

    result   the key of an answer, as in the pipelines
    """

    needed: ClassVar[Sequence[str]] = (CONFIG, TOKENIZER)
    wanted: ClassVar[Sequence[str]] = (TOKENIZER_CONFIG,)
    result: ClassVar[str] = ""

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        assert files.tokenizer is not None  # always there: it is needed
        self.tokenizer: Tokenizer = files.tokenizer
        self._model = Seq2Seq(files.program)
        if not self._model.is_text:
            raise InputError(
                f"{files.program.name} is not a program for {self.name}: it takes no tokens"
            )
        check_fits(self.tokenizer, self._model.vocabulary)
        self._turn = asyncio.Lock()  # an answer at a time changes the program's state

    def prefix(self, name: str) -> str:
        """Return the trained prefix of a task's texts; "" if the config has no prefix."""
        config = self.files.table(CONFIG)
        if config.content.get("task_specific_params") is None:
            return ""
        tasks = config.table("task_specific_params")
        return tasks.table(name).text("prefix", "") if name in tasks else ""

    async def __call__(
        self,
        inputs: Any,
        *,
        max_new_tokens: int | None = None,
        truncation: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> list[dict[str, str]]:
        """Return an answer for each text.

        inputs           a text, or a list of texts
        max_new_tokens   tokens of an answer; by default all that fit
        truncation       cut long texts; otherwise they are an error
        options          for `Seq2Seq.generate`: temperature, seed, ...
        """
        prefix = self.prefix(self.name)
        return await self.answer(inputs, prefix, max_new_tokens, truncation, options)

    async def answer(
        self,
        inputs: Any,
        prefix: str,
        max_new_tokens: int | None,
        truncation: Any,
        options: GenerationOptions,
    ) -> list[dict[str, str]]:
        """Return the answers to a text or a list of texts, in order."""
        texts = inputs if isinstance(inputs, list | tuple) else [inputs]
        sources = [self._source(prefix + checked_text(text), truncation) for text in texts]
        found = []
        for source in sources:
            async with self._turn:
                answer = self._model.generate(source, max_new_tokens, **options)
                tokens = [token async for token in answer]
            found.append({self.result: self.tokenizer.decode(tokens)})
        return found

    def _source(self, text: str, truncation: Any) -> list[int]:
        longest = self._model.max_source
        tokens: list[int] = self.tokenizer.encode(text)
        if len(tokens) <= longest:
            return tokens
        if cutting(truncation) is None:
            raise InputError(
                f"{text[:40]!r} has {len(tokens)} tokens; {self.program.name} takes {longest}: "
                "give a shorter text, or truncation=True to cut it"
            )
        rows, _ = self.tokenizer.encode_batch([text], longest)
        return [int(token) for token in rows[0]]


@task("text2text-generation", form=text_form(PASSAGE, 5, truncation=True))
class Text2TextGeneration(TextToText):
    """Answers texts in the form of the model's training.

    await task("question: ...")       # [{"generated_text": ...}]
    """

    result = "generated_text"


@task("summarization", form=text_form(PASSAGE, 5, truncation=True))
class Summarization(TextToText):
    """Summarizes texts.

    await task(article)       # [{"summary_text": ...}]
    """

    result = "summary_text"


@task("translation", form=text_form(rows=5, truncation=True))
class Translation(TextToText):
    """Translates texts.

    await task("How are you?")                                      # [{"translation_text": ...}]
    await task("How are you?", src_lang="en", tgt_lang="fr")        # T5, which knows several pairs
    """

    result = "translation_text"

    async def __call__(
        self,
        inputs: Any,
        *,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        max_new_tokens: int | None = None,
        truncation: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> list[dict[str, str]]:
        """Return a translation of each text; further options as in text2text-generation.

        src_lang, tgt_lang   for a model whose config.json names pairs of languages
        """
        prefix = self.prefix(self.name)
        if src_lang is not None or tgt_lang is not None:
            pair = f"translation_{src_lang}_to_{tgt_lang}"
            prefix = self.prefix(pair)
            if not prefix:
                raise InputError(
                    f"{self.program.name} was not taught {pair!r}: its config.json has no such "
                    "entry in task_specific_params"
                )
        return await self.answer(inputs, prefix, max_new_tokens, truncation, options)
