"""Files of an index: a saved index is found again, and an invalid file is refused."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.harness.embedders import open_retrieval
from support.write.pdf_writer import write_pdf
from webpte.engine.format.safetensors import LENGTH
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError, SourceError, WebpteError
from webpte.tasks.retrieval import Document, saved
from webpte.tasks.retrieval.retrieval_task import Retrieval

PAGES = [["The forecast says rain."], ["She laughed about the fox today."]]
MARKDOWN = "# Weather\nIt will rain later.\n## Wind\nNobody knows about the wind."


async def filled(device: Any = "numpy") -> Retrieval:
    task = await open_retrieval(device)
    await task.index.add(write_pdf(PAGES), "pages.pdf")
    await task.index.add(Document.of_markdown(MARKDOWN, "notes.md"))
    return task


async def bytes_of(task: Retrieval) -> bytes:
    return b"".join([chunk async for chunk in task.index.chunks()])


@pytest.mark.parametrize("device", ["numpy", "gpu"])
def test_what_is_saved_is_found_again(device: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"

    def made() -> Any:
        return "numpy" if device == "numpy" else SimulatedDevice()

    async def run() -> None:
        async with await filled(made()) as first, await open_retrieval(made()) as second:
            await first.index.save(path)
            await second.add({"name": "old", "text": "It is replaced."})
            await second.index.load(path)
            assert second.index.entries == first.index.entries
            for query in ("Nobody knows about the wind.", "fox"):
                assert await second(query) == await first(query)
            await second.index.remove("pages.pdf")
            assert (await second("fox"))[0]["document"] == "notes.md"

    asyncio.run(run())
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    data = path.read_bytes()
    (length,) = LENGTH.unpack(data[: LENGTH.size])
    head = json.loads(data[LENGTH.size : LENGTH.size + length])
    count, width = head["vectors"]["shape"]
    rows = np.frombuffer(data, "<f4", count * width, LENGTH.size + length).reshape(count, width)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_an_empty_index() -> None:
    async def run() -> None:
        async with await open_retrieval() as task:
            await task.index.load(await bytes_of(task))
            assert await task("fox") == []

    asyncio.run(run())


def changed(data: bytes, change: Any) -> bytes:
    """Return the file with another head and other documents."""
    (length,) = LENGTH.unpack(data[: LENGTH.size])
    head = json.loads(data[LENGTH.size : LENGTH.size + length])
    rest = data[LENGTH.size + length :]
    begin = head["documents"]["data_offsets"][0]
    vectors, listed = rest[:begin], json.loads(rest[begin:])
    change(head, listed)
    text = json.dumps(listed).encode()
    if "documents" in head:
        head["documents"] |= {"shape": [len(text)], "data_offsets": [begin, begin + len(text)]}
    written = json.dumps(head).encode()
    return LENGTH.pack(len(written)) + written + vectors + text


CHANGES = {
    "another safetensors file": lambda head, listed: head.pop("__metadata__"),
    "has version '2'": lambda head, listed: head["__metadata__"].update(version="2"),
    "another program": lambda head, listed: head["__metadata__"].update(model="x"),
    "lacks the vectors": lambda head, listed: head.pop("documents"),
    "vectors of F32 .* the file is damaged": lambda head, listed: listed.pop(),
    "must be a table": lambda head, listed: listed.append(5),
    "lacks 'text'": lambda head, listed: listed[0].pop("text"),
    "the name of another one": lambda head, listed: listed[1].update(name="pages.pdf"),
    "has no passages": lambda head, listed: listed[0].update(places=[]),
    "not in its section": lambda head, listed: listed[0]["places"][0].__setitem__(1, 900),
    "a place must be": lambda head, listed: listed[0]["places"][0].__setitem__(2, 9),
    "a section must be": lambda head, listed: listed[0]["sections"][0].__setitem__(3, 1),
    "not in order": lambda head, listed: listed[0]["sections"].reverse(),
    "of a length that is not allowed": lambda head, listed: listed[0].update(name=""),
}


@pytest.mark.parametrize("why", CHANGES)
def test_files_that_are_not_valid(why: str) -> None:
    async def run() -> None:
        async with await filled() as task:
            before = task.index.entries
            with pytest.raises(InputError, match=why):
                await task.index.load(changed(await bytes_of(task), CHANGES[why]))
            assert task.index.entries == before
            assert (await task("fox"))[0]["score"] > 0

    asyncio.run(run())


def test_other_pooling_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with await filled() as task, await open_retrieval() as other:
            data = await bytes_of(task)
            other.pooling = "cls"
            with pytest.raises(InputError, match="another program"):
                await other.index.load(data)
            with pytest.raises(SourceError):
                await task.index.save("/nowhere/there/is/mine.safetensors")
            monkeypatch.setattr(saved, "MOST_TEXT", 20)
            with pytest.raises(InputError, match="at most 20 are read"):
                await task.index.load(data)
            with pytest.raises(InputError, match="too large to save"):
                await bytes_of(task)

    asyncio.run(run())


def test_damaged_files() -> None:
    async def run() -> None:
        chance = random.Random(7)
        async with await filled() as task:
            data = await bytes_of(task)
            for _ in range(150):
                damaged = bytearray(data)
                for _ in range(chance.randint(1, 4)):
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
                try:
                    await task.index.load(bytes(damaged[: chance.choice([len(data), 300, 9])]))
                    await task("fox")
                except WebpteError:
                    pass
            await task.index.load(data)
            assert len(await task("fox", top_k=100)) == len(task.index)

    asyncio.run(run())
