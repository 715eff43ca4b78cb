"""The library section: files that were opened from a URL, and copies of local ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from secrets import token_hex
from time import time

from page.browser import Message, Source
from page.core.hub_models import models_view
from page.core.session import Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.core.typed_address import origin_of
from page.sections.library.view import (
    Row,
    agree_note,
    is_program,
    keep_note,
    library_view,
    summary_text,
    unkept_note,
)
from page.shared.html.markup import render
from page.shared.html.units import bytes_text
from page.shared.persistence.library_files import (
    beside_name,
    delete_all,
    find_same,
    free_name,
    orphaned_parts,
    part_name,
    parts_of,
    title_name,
)
from webpte.engine.open.library import LOCAL, Entry, Usage
from webpte.errors import SourceError

_COPY_SECONDS = 0.2  # between two drawings of how far a copy is
_NOTHING = Usage(0, 0, False)


class LibraryController:
    def __init__(self, state: AppState, open_address: Callable[[str], Awaitable[None]]) -> None:
        """Build the controller; `open_address` opens a program by its address in the library."""
        self._state = state
        self._open = open_address
        self._entries: list[Entry] = []
        self._usage = _NOTHING
        self._asked = ""  # the address of a file whose deletion waits for a confirmation
        self._copied: Session | None = None  # whose copy is being written
        self._tasks: set[asyncio.Future[None]] = set()
        state.follow(self._follow, Change.ADAPTER, Change.SESSION, Change.ADDRESS)

    # ---- the session

    def _follow(self, change: Change) -> None:
        if change is Change.SESSION:
            self._draw_note()
            session = self._state.session
            if session is not None:
                going = asyncio.ensure_future(self._keep(session.source))
                self._tasks.add(going)
                going.add_done_callback(self._tasks.discard)
        self._draw()

    async def _keep(self, source: Source) -> None:
        """Fetch the rest of a file that the load has left out, in the background."""
        constants = [part for part in source.extra if hasattr(part, "keep")]
        for file in [source.file, *constants]:
            if file is None or file.kept:
                continue
            failed = False
            try:
                await file.keep()
                why = f"{file.name} is {file.came}" if file.came.startswith("not kept") else ""
            except SourceError as error:
                why, failed = str(error), True
            session = self._state.session
            if why and session is not None and session.source is source:
                self._state.show(keep=unkept_note(why))  # the status stays the program's
            elif failed:
                self._state.tell(why, "bad")
        await self.refresh()

    def _draw_note(self, done: int | None = None, total: int = 0) -> None:
        """Draw the note below a local file, which a reload would lose, or one of another site."""
        session = self._state.session
        doubted = self._doubted(session)
        if session is not None and doubted:
            source = session.source
            self._state.show(keep=agree_note(source.name, source.size, doubted, done, total))
            return
        own = session.source if session is not None else None
        # A copy of a model in parts would not have their names.
        lost = own is not None and not own.address and not own.is_joined
        note = keep_note(own.name, done, total) if own and lost and self._usage.quota else ""
        self._state.show(keep=note)

    def _doubted(self, session: Session | None) -> str:
        """Return the origin of a program that a link named and nobody agreed to keep, or ""."""
        file = session.source.file if session is not None else None
        if file is None or file.kept or not self._usage.quota:
            return ""
        origin = origin_of(file.address)
        return origin if origin in self._state.browser.unkept else ""

    # ---- acts

    async def on_library_agree(self, message: Message) -> None:
        """Keep the program that a link named; other files of its site are kept from now on."""
        session, browser = self._state.session, self._state.browser
        origin = self._doubted(session)
        if session is None or not origin or session is self._copied:
            return
        self._copied, throttle = session, Throttle(_COPY_SECONDS)

        def progress(stage: str, done: int, total: int) -> None:
            if session is self._state.session and throttle.ready():
                self._draw_note(done, total)

        browser.unkept.discard(origin)
        try:
            constants = [part for part in session.source.extra if hasattr(part, "keep")]
            for file in [session.source.file, *constants]:
                fetched = (await browser.fetch(file.address, progress)).file
                if fetched is not None and not await fetched.keep(progress):
                    raise SourceError(f"{file.name} is {fetched.came or 'not kept'}")
        except BaseException:
            browser.unkept.add(origin)
            raise
        finally:
            self._copied = None
            if session is self._state.session:
                self._draw_note()
        self._state.tell(f"Kept {session.source.name}: it opens again without a network")
        await self.refresh()

    async def refresh(self) -> None:
        """Read the list again: another tab may have changed it."""
        library = self._state.browser.library
        try:
            self._entries, self._usage = await library.entries(), await library.usage()
        except SourceError:
            self._entries, self._usage = [], _NOTHING  # the browser has no library
        state, usage = self._state, self._usage
        state.kept = frozenset(entry.address for entry in self._entries if not entry.missing)
        state.room = usage.quota - usage.used if usage.quota else None
        if self._doubted(self._state.session):  # only now it is known whether there is room
            self._draw_note()
        self._draw()

    async def on_library_refresh(self, message: Message) -> None:
        self._asked = ""
        await self.refresh()

    async def on_library_open(self, message: Message) -> None:
        await self._open(str(message["address"]))

    async def on_library_delete(self, message: Message) -> None:
        address = str(message["address"])
        if self._is_open(address):
            self._state.tell("This program is open: close it first", "bad")
            return
        if address.startswith(LOCAL) and not message.get("sure"):
            self._asked = address
            self._draw()
            return
        self._asked = ""
        freed = 0
        try:
            for program in self._named(address):  # first, so that no program lacks its parts
                for entry in [program, *parts_of(self._entries, program)]:
                    await self._state.browser.library.delete(entry.address)
                    freed += entry.size - entry.missing
        finally:
            await self.refresh()
        self._state.tell(f"Deleted: {bytes_text(freed)} freed")

    async def on_library_tidy(self, message: Message) -> None:
        """Delete all files but programs; they are fetched again when needed."""
        try:
            for entry in self._others():
                await self._state.browser.library.delete(entry.address)
        finally:
            await self.refresh()
        self._state.tell("Deleted. These files are downloaded again when needed.")

    async def on_library_persist(self, message: Message) -> None:
        agreed = await self._state.browser.library.persist()
        await self.refresh()
        told = (
            "Storage is permanent now"
            if agreed
            else "The browser refused: try again when you have used the page more"
        )
        self._state.tell(told, "good" if agreed else "bad")

    async def on_library_keep(self, message: Message) -> None:
        """Keep a copy of the dropped program, with the files that belong to it."""
        session = self._state.session
        if session is None or session.source.address or session is self._copied:
            return
        self._copied = session
        try:
            name, address = await self._copy(session)
        finally:
            self._copied = None
            self._draw_note()
        if session is self._state.session:
            told = f"a copy of {name}" if name == session.source.name else f"a copy as {name}"
            session.source = replace(session.source, name=name, address=address)
            self._draw_note()
            self._state.announce(Change.ADDRESS)
            self._state.tell(f"Kept {told}: a reload opens it again")
        await self.refresh()

    async def _copy(self, session: Session) -> tuple[str, str]:
        """Keep a program, unless the same program is kept; return its name there and its address.

        Another program of the same name stays: the name of the new program then gets a number.
        """
        source, browser, library = session.source, self._state.browser, self._state.browser.library
        throttle = Throttle(_COPY_SECONDS)

        def progress(stage: str, done: int, total: int) -> None:
            if session is self._state.session and throttle.ready():
                self._draw_note(done, total)

        wanted, entries = await title_name(browser, source), await library.entries()
        same = await find_same(browser, entries, source, wanted, progress)
        if same is not None:
            return same.name, same.address
        ours = [entry for entry in entries if entry.address.startswith(LOCAL)]
        name = free_name(wanted, [entry.name for entry in ours if not entry.missing])
        unfinished = [entry for entry in ours if entry.name == name]
        copy, parts = token_hex(4), list[str]()
        try:
            for index, part in enumerate(source.extra):
                kept = part_name(name, copy, index)
                parts.append(await library.add(part, kept, progress=progress))
            for beside, file in source.beside.items():
                kept = beside_name(name, copy, beside)
                parts.append(await library.add(browser.source(file).data, kept, progress=progress))
            address = await library.add(
                source.data, name, parts=parts, progress=progress, replace=False
            )
        except BaseException:
            await delete_all(library, parts)  # without their program they are not listed
            raise
        await delete_all(library, [part for program in unfinished for part in program.parts])
        return name, address

    # ---- the list

    def _named(self, address: str) -> list[Entry]:
        return [entry for entry in self._entries if entry.address == address]

    def _is_open(self, address: str) -> bool:
        session = self._state.session
        if session is None:
            return False
        file, own = session.source.file, session.source.address
        read = file is not None and file.kept and file.address == address
        return read or (bool(own) and self._state.browser.absolute(own) == address)

    def _others(self) -> list[Entry]:
        fetched = [
            e for e in self._entries if not is_program(e) and not e.address.startswith(LOCAL)
        ]
        return fetched + orphaned_parts(self._entries, time())

    def _draw(self) -> None:
        rows = [
            Row(
                entry,
                sum(e.size - e.missing for e in [entry, *parts_of(self._entries, entry)]),
                self._is_open(entry.address),
                entry.address == self._asked,
            )
            for entry in self._entries
            if is_program(entry)
        ]
        others = self._others()
        self._state.show(
            library=render(library_view(rows, others, self._usage, time())),
            hub_models=render(models_view(self._state)),
        )
        self._state.browser.show(text={"library-total": summary_text(rows, others)})
