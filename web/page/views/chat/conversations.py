"""The conversation with the open program, and conversations kept for the next visit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from page.browser import Source
from page.core.session import Session
from page.core.state import AppState, Change
from page.views.chat import saved_chats
from page.views.chat.archive import Archive
from page.views.chat.chat_model import ChatModel
from page.views.chat.pictures import KeptPictures
from page.views.chat.settings import ChatSettings
from page.views.chat.talk import Talk


class Conversations:
    """The current conversation, saved as it grows, and the list of earlier ones.

    model  the tokenizer of the open program, and how it takes pictures
    talk   the current conversation, or None; `current` makes it fit the open program
    """

    def __init__(self, state: AppState, settings: ChatSettings) -> None:
        self._state, self._settings = state, settings
        self.model = ChatModel()
        self.talk: Talk | None = None
        self._kept: KeptPictures | None = None  # of the saved one; None: not read yet
        self._outdated = False  # the conversation is with a closed program
        self._said = False  # whether something was said on this visit
        state.follow(self._follow, Change.ADDRESS)

    def _follow(self, change: Change) -> None:
        """Move the conversations to the address that a kept copy gives their program."""
        session = self._state.session
        if session is None or not self.model.file:
            return
        before, after = self.model.file, session.source.key
        if before == after:
            return
        self.model.file, store = after, self._state.store
        old, new = (saved_chats.key_of(file) for file in (before, after))
        self.archive.take_over(Archive(store, before))
        if store.read(old):
            self.archive.add_valid(store.read(new))  # of the same copy, on an earlier visit
            store.write(new, store.read(old))
            store.write(old, None)

    def turn_to(self, session: Session | None) -> bool:
        """Keep the conversation if the same program is opened again, else start a new one; return
        whether it is another program."""
        if session is None or not self.model.turn_to(session.source):
            self._outdated = True  # the program may be opened again
            if self.model.codec is None:
                self.talk = None
            return False
        self.talk = self._kept = None
        self._outdated = self._said = False
        self._settings.system = ""
        return True

    # ---- the model's files

    async def prepare(self, session: Session) -> None:
        """Find the model's files, and read the pictures of the saved conversation."""
        await self.model.find(session, self._state.browser)
        await self._read_kept()

    async def _read_kept(self) -> None:
        if self._kept is None:
            kept = KeptPictures()
            await kept.load(self._state.browser, self._saved)
            self._kept = self._kept or kept

    async def load(self, session: Session, files: Sequence[Any]) -> str:
        """Use files of the model; return their names, or "" if nothing is new."""
        before = self.model.codec
        told = await self.model.load(session, self._state.browser, files)
        await self._read_kept()
        if session is not self._state.session or not told:
            return ""
        self._outdated = True  # a conversation goes on with pictures
        if self.model.codec is not before:
            self.talk = None
        return told

    async def use_tokenizer(self, session: Session, source: Source) -> None:
        """Use the tokenizer of a file; the conversation starts anew."""
        await self.model.use(session, self._state.browser, {"tokenizer": source})
        await self._read_kept()
        if session is self._state.session:
            self.talk = None

    # ---- the current one

    def current(self, session: Session) -> Talk | None:
        """Return the conversation with the open program; None while its tokenizer is unknown."""
        if not self.model.ready or self._kept is None:
            return None
        if self.talk is None or self._outdated:
            self.talk = self.model.talk(session.program, self.talk)
            self._outdated = False
            self._restore_saved(self.talk, self._kept)
        return self.talk

    def _restore_saved(self, talk: Talk, kept: KeptPictures) -> None:
        """Restore the saved conversation after a reload, unless this visit has one."""
        saved = self._saved
        if saved and not self._said:
            self._settings.system = saved_chats.restore(talk, saved, kept) or self._settings.system

    @property
    def _saved(self) -> Any:
        return self._state.store.read(saved_chats.key_of(self.model.file))

    def save(self, talk: Talk) -> None:
        self._said = self._said or bool(talk.lines)
        if self._said:
            key = saved_chats.key_of(self.model.file)
            self._state.store.write(key, saved_chats.to_json(talk))

    # ---- the list

    @property
    def archive(self) -> Archive:
        return Archive(self._state.store, self.model.file)

    def start_anew(self) -> Callable[[], bool] | None:
        """Put the conversation into the list; return what goes back to it, if it has messages.

        That returns False if the tokenizer is another one by then.
        """
        before, codec = self.talk, self.model.codec
        archived = self._put_away()
        self.talk = None
        if before is None or not before.lines:
            return None

        def back() -> bool:
            if self.model.codec is not codec:
                return False
            if archived:
                self.archive.take(0)
            self.talk, self._outdated = before, True  # the cache has been used since
            return True

        return back

    def delete(self, at: int, draw: Callable[[], None]) -> tuple[str, Callable[[], None]]:
        """Delete a conversation of the list; return its title, or "", and what restores it."""
        archive = self.archive
        taken = archive.take(at)

        def back() -> None:
            if taken is not None:
                archive.add(taken["saved"], taken["title"], at)
                draw()

        return taken["title"] if taken is not None else "", back

    def _put_away(self) -> bool:
        """Put the conversation into the list; return whether there was something to put there."""
        saved = saved_chats.to_json(self.talk) if self.talk is not None else {}
        if saved:
            self.archive.add(saved)
        return bool(saved)

    async def open(self, at: int) -> bool:
        """Open a conversation of the list; the current one takes its place there.

        Returns False if it was with another tokenizer.
        """
        kept, entries = KeptPictures(), self.archive.entries()
        await kept.load(self._state.browser, entries[at]["saved"] if at < len(entries) else None)
        session = self._state.idle_session()
        taken = self.archive.take(at) if session is not None and self.model.ready else None
        if session is None or taken is None:
            return True
        talk = self.model.talk(session.program)
        system = saved_chats.restore(talk, taken["saved"], kept)
        if not talk.lines:
            self.archive.add(taken["saved"], taken["title"], at)
            return False
        self._settings.system = system
        self._put_away()
        self.talk, self._outdated, self._said = talk, False, True
        return True
