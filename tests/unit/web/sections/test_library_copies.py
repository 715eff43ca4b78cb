"""Copies of dropped programs in the page's library, with their files of constants."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from page.app import App
from page.shared.persistence.library_files import free_name, orphaned_parts
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
from webpte.engine.open.library import Entry
from webpte.errors import SourceError

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
        failing(browser.library, "mine (2).pte")
        await keep_copies(app, OTHER)
        assert "mine (2).pte is not kept" in browser.html["error"]
        assert browser.library.files == before
        assert await constants_of_the_copy(app, engine) == [CONSTANTS]

    drive(script, engine=engine)


def test_another_program_of_the_same_name_is_kept_beside_the_one_before_it() -> None:
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS, OTHER, OTHER, CONSTANTS)
        assert programs_of(browser) == ["local:mine.pte", "local:mine (2).pte"]
        assert len(browser.library.files) == 4, "each has one file of constants"
        for name, constants in ("mine.pte", CONSTANTS), ("mine (2).pte", OTHER):
            await app.receive({"act": "close"})
            await app.receive({"act": "library-open", "address": f"local:{name}"})
            assert engine.data == [constants]
            assert name in browser.html["program"]

    drive(script, engine=engine)


def programs_of(browser: FakeBrowser) -> list[str]:
    """Return the addresses of kept programs, in the order they were kept."""
    return [address for address in browser.library.files if address.endswith(".pte")]


def folder_of(task: str, name: str = "") -> list[File]:
    """Return the files of a model's folder, which are all called the same."""
    card = f'{{"task": "{task}", "program": "model.pte", "name": "{name}"}}'
    config = File("config.json", f'{{"of": "{task}"}}'.encode())
    return [File("card.json", card.encode()), config, File("model.pte", SAMPLE)]


@pytest.mark.parametrize(
    ("titles", "kept"),
    [
        (("", ""), ["model.pte", "model (2).pte"]),
        (("moods", "names"), ["moods.pte", "names.pte"]),
        (("a/b", "a/b"), ["a b.pte", "a b (2).pte"]),
    ],
)
def test_two_folders_are_kept_each_with_its_task_and_files(
    titles: tuple[str, str], kept: list[str]
) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        tasks = "fill-mask", "text-classification"
        for task, title in zip(tasks, titles, strict=True):
            await drop(app, *folder_of(task, title))
            await app.receive({"act": "library-keep"})
        assert programs_of(browser) == [f"local:{name}" for name in kept]
        for task, name in zip(tasks, kept, strict=True):
            await app.receive({"act": "close"})
            await app.receive({"act": "library-open", "address": f"local:{name}"})
            session = app._state.session
            assert session is not None
            assert session.source.task == task
            config = await browser.read(session.source.beside["config.json"])
            assert config == f'{{"of": "{task}"}}'.encode()

    drive(script, engine=Engine())


def inputs_of(app: App) -> dict[str, Any]:
    """Return the inputs that were set, as they are saved."""
    assert app._state.session is not None
    return app._saved._value(app._state.session)


def test_a_program_that_got_another_name_keeps_its_inputs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS)
        await drop(app, File("mine.pte", SAMPLE))
        await app.receive({"act": "seed", "input": "0", "value": "77"})
        before = inputs_of(app)
        assert before
        await app.receive({"act": "library-keep"})
        assert "mine (2).pte" in browser.html["program"]
        await app.receive({"act": "close"})
        await app.receive({"act": "library-open", "address": "local:mine.pte"})
        await app.receive({"act": "seed", "input": "0", "value": "5"})
        await app.receive({"act": "library-open", "address": "local:mine (2).pte"})
        assert inputs_of(app) == before

    drive(script, engine=Engine())


def test_a_copy_that_another_tab_kept_meanwhile_stays() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        library, add = browser.library, browser.library.add

        async def beaten(file: Any, name: str, **options: Any) -> str:
            library.put("local:mine.pte", "mine.pte", OTHER, len(OTHER))
            library.add = add  # type: ignore[method-assign]
            return await add(file, name, **options)

        library.add = beaten  # type: ignore[method-assign]
        await drop(app, File("mine.pte", SAMPLE))
        await app.receive({"act": "library-keep"})
        assert "mine.pte is in the library already" in browser.html["error"]
        assert library.files["local:mine.pte"][1] == OTHER
        await app.receive({"act": "library-keep"})
        assert programs_of(browser) == ["local:mine.pte", "local:mine (2).pte"]
        assert browser.text["status"].startswith("Kept a copy as mine (2).pte")

    drive(script, engine=Engine())


@pytest.mark.parametrize(
    ("name", "taken", "free"),
    [
        ("model.pte", (), "model.pte"),
        ("model.pte", ("other.pte",), "model.pte"),
        ("model.pte", ("model.pte",), "model (2).pte"),
        ("model.pte", ("model.pte", "model (3).pte"), "model (2).pte"),
        ("model.pte", ("model.pte", "model (2).pte"), "model (3).pte"),
        ("a.b.bpte", ("a.b.bpte",), "a.b (2).bpte"),
        ("model (2).pte", ("model (2).pte",), "model (3).pte"),
        ("none", ("none",), "none (2)"),
    ],
)
def test_a_name_that_is_taken_gets_a_number(name: str, taken: tuple[str, ...], free: str) -> None:
    assert free_name(name, taken) == free


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


def test_a_deletion_that_fails_leaves_no_program_without_its_constants() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await keep_copies(app, CONSTANTS)
        await app.receive({"act": "close"})
        library = browser.library
        delete, deleted = library.delete, list[str]()

        async def failing(address: str) -> None:
            if deleted:
                raise SourceError(f"{address} is being written")
            deleted.append(address)
            await delete(address)

        library.delete = failing  # type: ignore[method-assign]
        await app.receive({"act": "library-delete", "address": "local:mine.pte", "sure": "yes"})
        assert "is being written" in browser.html["error"]
        assert programs_of(browser) == []
        assert len(library.files) == 1

    drive(script, engine=Engine())


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
