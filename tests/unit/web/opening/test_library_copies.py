"""Copies of dropped programs in the page's library, with their files of constants."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from page.app import App
from page.persistence.library_files import orphaned_parts
from support.page.fake_page import (
    SAMPLES,
    Engine,
    FakeBrowser,
    FakeLibrary,
    File,
    drive,
    drop,
)
from support.page.library_page import settle
from webpte.library import Entry

SAMPLE = (SAMPLES / "sigmoid.pte").read_bytes()
CONSTANTS = (SAMPLES.parents[1] / "tests/data/format/linear.ptd").read_bytes()
SIGMOID = "http://site/samples/sigmoid.pte"


def test_files_of_constants_are_kept_and_deleted_with_their_program() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, File("mine.pte", SAMPLE), File("w.ptd", CONSTANTS))
        await app.receive({"act": "library-keep"})
        part, program = browser.library.files
        assert re.fullmatch(r"local:mine\.pte/\w+-0\.ptd", part)
        assert (program, browser.library.files[program][0].parts) == ("local:mine.pte", (part,))
        assert browser.text["library-total"].startswith("1 program, ")
        await app.receive({"act": "close"})
        engine.data = []
        await app.receive({"act": "library-open", "address": "local:mine.pte"})
        assert engine.data == [CONSTANTS]
        await app.receive({"act": "close"})
        await app.receive({"act": "library-delete", "address": "local:mine.pte", "sure": "yes"})
        assert browser.library.files == {}

    drive(script, engine=engine)


MANIFEST = File(
    "model.manifest.json", b'{"task": "fill-mask", "program": "mine.pte", "data": ["w.ptd"]}'
)
BESIDE = MANIFEST, File("config.json", b"{}"), File("labels.json", b"[]")


def test_a_folder_is_kept_with_its_task_and_what_lies_beside_its_program() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await drop(app, *BESIDE, File("mine.pte", SAMPLE), File("w.ptd", CONSTANTS))
        await app.receive({"act": "library-keep"})
        *parts, program = browser.library.files
        assert program == "local:mine.pte"
        assert browser.library.files[program][0].parts == tuple(parts)
        assert [part.rpartition("/")[2] for part in parts[1:]] == [one.name for one in BESIDE]
        assert browser.text["library-total"].startswith("1 program, ")
        await app.receive({"act": "close"})
        await app.receive({"act": "library-open", "address": program})
        session = app._state.session
        assert session is not None
        assert session.source.task == "fill-mask"
        found = {name: await browser.read(file) for name, file in session.source.beside.items()}
        assert found == {one.name: one.data for one in BESIDE}
        assert len(session.source.extra) == 1
        await app.receive({"act": "close"})
        await app.receive({"act": "library-delete", "address": program, "sure": "yes"})
        assert browser.library.files == {}

    drive(script, engine=Engine())


def failing(library: FakeLibrary, last: str) -> None:
    """Return a library that is full from a file of this name on."""
    add = library.add

    async def adding(file: Any, name: str, **options: Any) -> str:
        library.full = name == last
        return await add(file, name, **options)

    library.add = adding  # type: ignore[method-assign]


def test_without_room_for_the_program_its_constants_are_not_kept_either() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        failing(browser.library, "mine.pte")
        await drop(app, File("mine.pte", SAMPLE), File("w.ptd", CONSTANTS))
        await app.receive({"act": "library-keep"})
        assert "mine.pte is not kept" in browser.html["error"]
        assert browser.library.files == {}

    drive(script, engine=Engine())


OTHER = CONSTANTS + bytes(4)


async def keep_copies(app: App, *constants: bytes) -> None:
    """Keep copies of programs with the same name, one after the other."""
    for one in constants:
        await drop(app, File("mine.pte", SAMPLE), File("w.ptd", one))
        await app.receive({"act": "library-keep"})


async def constants_of_the_copy(app: App, engine: Engine) -> list[bytes]:
    await app.receive({"act": "close"})
    engine.data = []
    await app.receive({"act": "library-open", "address": "local:mine.pte"})
    return engine.data


def test_a_copy_that_fails_leaves_the_one_before_it_with_its_constants() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS)
        before = dict(browser.library.files)
        failing(browser.library, "mine.pte")
        await keep_copies(app, OTHER)
        assert "mine.pte is not kept" in browser.html["error"]
        assert browser.library.files == before
        assert await constants_of_the_copy(app, engine) == [CONSTANTS]

    drive(script, engine=engine)


def test_another_copy_takes_the_place_of_the_one_before_it_and_of_its_constants() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS, OTHER)
        assert len(browser.library.files) == 2
        assert await constants_of_the_copy(app, engine) == [OTHER]

    drive(script, engine=engine)


def test_two_clicks_make_one_copy() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        add, added = browser.library.add, list[str]()

        async def slowly(file: Any, name: str, **options: Any) -> str:
            added.append(name)
            await settle()
            return await add(file, name, **options)

        browser.library.add = slowly  # type: ignore[method-assign]
        await drop(app, File("mine.pte", SAMPLE), File("w.ptd", CONSTANTS))
        await asyncio.gather(*(app.receive({"act": "library-keep"}) for _ in range(2)))
        assert len(added) == 2
        assert await constants_of_the_copy(app, engine) == [CONSTANTS]

    drive(script, engine=engine)


def test_other_constants_for_a_copy_are_not_those_that_a_reload_would_bring() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS)
        await app.receive({"act": "close"})
        await app.receive({"act": "library-open", "address": "local:mine.pte"})
        await drop(app, File("other.ptd", OTHER))
        assert engine.data == [OTHER]
        assert browser.other["address"] == ""
        assert 'data-act="library-keep"' in browser.html["keep"]
        await app.receive({"act": "library-delete", "address": "local:mine.pte", "sure": "yes"})
        assert "local:mine.pte" in browser.library.files, "the program is read from there"

    drive(script, engine=engine)


def test_parts_that_a_closed_page_has_left_can_be_tidied_away() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS)
        browser.library.put("local:mine.pte/0123-0.ptd", "mine.pte/0123-0.ptd", OTHER, 9)
        browser.library.put("local:words.json", "words.json", b"{}", 2)  # added by other code
        await app.receive({"act": "library-refresh"})
        assert browser.text["library-total"].startswith("1 program and 1 other file")
        await app.receive({"act": "library-tidy"})
        assert len(browser.library.files) == 3
        assert "local:mine.pte/0123-0.ptd" not in browser.library.files
        fresh = [Entry("local:a.pte/1-0.ptd", "a.pte/1-0.ptd", 9, "", "", 5000, 5000)]
        assert orphaned_parts(fresh, 5001) == [], "another tab may be writing its program"
        assert orphaned_parts(fresh, 9999) == fresh

    drive(script, engine=Engine())
