"""The tokenizer of the program that the chat is with, and the preparation of pictures for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from page.browser import Browser, Source
from page.core.session import Session
from page.shared.persistence import codec as codecs
from page.shared.persistence.codec import Codec
from page.shared.persistence.manifests import MANIFEST
from page.views.chat.sight import FILES, MakeReader, Sight, find_sight
from page.views.chat.talk import Talk
from webpte import Program
from webpte.errors import WebpteError
from webpte.llm import Generator
from webpte.llm.picture_session import sees
from webpte.tasks.files import GENERATION


class ChatModel:
    """The tokenizer of the open program, and how it takes pictures.

    file   the program's address or name
    codec  None while its tokenizer is unknown
    """

    def __init__(self) -> None:
        self.file = ""
        self.codec: Codec | None = None
        self._sight: Sight | None = None  # None while it is unknown
        self._given: dict[str, Any] = {}  # files that were dropped, by name

    def turn_to(self, source: Source) -> bool:
        """Begin with another program; return False if it is the same one, opened again."""
        file = source.key
        if file == self.file:
            if source.beside:  # they may have been missing before
                self._sight = None
                if self.codec is not None and self.codec.kind == codecs.IDS:
                    self.codec = None
            return False
        self.file, self.codec, self._sight, self._given = file, None, None, {}
        return True

    @property
    def ready(self) -> bool:
        return self.codec is not None and self._sight is not None

    async def find(self, session: Session, browser: Browser) -> None:
        """Find the tokenizer, and the files that pictures need, unless they are known."""
        if self._sight is None:
            sight = await find_sight(session, browser, self._given)
            self._sight = self._sight or sight  # one may have come meanwhile
        if self.codec is None:
            codec = await _find_codec(session, browser)
            self.codec = self.codec or codec

    async def load(self, session: Session, browser: Browser, files: Sequence[Any]) -> str:
        """Use chosen or dropped files; return the names of the files used, or "" if nothing is new.

        The conversation starts anew with another tokenizer.
        """
        named = {browser.source(file).name: file for file in files}
        told = ""
        if sees(session.program):
            seeing = {name: named.pop(name) for name in FILES if name in named}
            # The rest of a model's folder is not the tokenizer's.
            named = {name: file for name, file in named.items() if not _is_other(name)}
            if seeing:
                self._given |= seeing
                self._sight = await find_sight(session, browser, self._given)
                told = f"Using {' and '.join(seeing)}"
        if named:
            sources = [browser.source(file) for file in named.values()]
            await self.use(session, browser, codecs.files_by_kind(sources))
            assert self.codec is not None
            told = f"Using the tokenizer {self.codec.name}"
        return told

    async def use(self, session: Session, browser: Browser, files: Mapping[str, Source]) -> None:
        """Use another tokenizer, of files by kind, or more files of the same."""
        known = (
            dict(self.codec.files)
            if self.codec is not None and codecs.TOKENIZER not in files
            else {}
        )
        codec = await codecs.load_codec({**known, **files}, browser)
        Talk(session.program, codec)  # raises if they do not fit
        self.codec = codec

    def sight_of(self, program: Program) -> tuple[MakeReader | None, str]:
        """Return what reads pictures for a Chat; or None, and why the program takes none, if it
        sees."""
        if self._sight is None or self.codec is None:
            return None, ""
        return self._sight.fit(program, self.codec)

    def talk(self, program: Program, before: Talk | None = None) -> Talk:
        """Start a conversation; `before` is the same one with a program that is gone."""
        assert self.codec is not None
        return Talk(program, self.codec, before, self.sight_of(program)[0])


def _is_other(name: str) -> bool:
    return name == GENERATION or name.endswith(MANIFEST)


async def _find_codec(session: Session, browser: Browser) -> Codec:
    note = ""
    try:
        codec = await codecs.find_codec(session.source, browser)
        if codec is not None:
            Talk(session.program, codec)  # raises if they do not fit
    except WebpteError as error:
        codec, note = None, str(error)
    return codec or await codecs.id_codec(Generator(session.program).vocabulary, note)
