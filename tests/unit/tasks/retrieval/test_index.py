"""The index: documents come and go, searches are exact, and a failure leaves it as before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import webpte
from support.devices.losable import Losable
from support.harness.embedders import open_retrieval
from support.write.pdf_writer import write_pdf
from webpte.engine.call.info import MethodInfo, TensorInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, DeviceLostError, DocumentError, InputError
from webpte.tasks.retrieval import Document, Index, Passage, encodes_texts
from webpte.tasks.retrieval import index as index_module

T = TypeVar("T")
DOGS = "The dog is lazy. It sleeps all day.\n\nThe fox is quick, and it jumps over the dog."
RAIN = "# Weather\nIt will rain later.\n## Wind\nNobody knows about the wind."
PAGES = [["The forecast says rain."], ["She laughed about the fox today."]]


def wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def text(name: str, content: str) -> Document:
    return Document.of_text(content, name)


@pytest.mark.parametrize("device", ["numpy", "gpu"])
def test_search_is_that_of_numpy(device: str) -> None:
    async def run() -> None:
        given = "numpy" if device == "numpy" else SimulatedDevice()
        async with await open_retrieval(given) as task:
            index = Index(task, most=12, overlap=3)
            assert await index.search("anything") == []
            await index.add(text("dogs.txt", DOGS))
            await index.add(Document.of_markdown(RAIN, "rain.md"))
            await index.add(write_pdf(PAGES), "pages.pdf")
            passages = [
                (entry.document, place) for entry in index.entries for place in entry.places
            ]
            texts = [document.text[one.start : one.end] for document, one in passages]
            vectors = await task.embed(texts)
            for query in ("The fox is quick.", texts[-1], ""):
                (vector,) = await task.embed([query])
                scores = vectors @ vector
                for count in (1, 3, 100):
                    found = await index.search(query, count)
                    assert len(found) == min(count, len(texts)) == min(count, len(index))
                    order = np.argsort(-scores, kind="stable")[:count]
                    got = np.array([one.score for one in found])
                    np.testing.assert_allclose(got, scores[order], atol=1e-5)
            (best,) = await index.search(texts[-1], 1)
            where = (best.document, best.page, best.heading)
            assert (best.text, *where) == (texts[-1], "pages.pdf", 2, "")
            assert index.documents["pages.pdf"].text[best.start : best.end] == best.text
            index.close()

    wait(run())


def test_encoders_are_known_by_their_inputs_and_outputs(root: Path) -> None:
    def methods(texts: Sequence[int], inputs: int, *dims: int) -> dict[str, MethodInfo]:
        given = [TensorInfo(str(n), tuple(texts), "int64", True) for n in range(inputs)]
        made = (TensorInfo("y", dims, "float32", True),)
        return {"forward": MethodInfo("forward", tuple(given), made, {}, {}, {}, (), False)}

    assert encodes_texts(methods((8, 512), 1, 8, 384))
    assert encodes_texts(methods((8, 512), 3, 8, 512, 384))
    assert not encodes_texts(methods((8, 512), 3, 8, 512, 9))  # labels of tokens
    assert not encodes_texts(methods((8, 512), 2, 8, 512, 30_522))  # words
    assert not encodes_texts(methods((8, 512), 4, 8, 512, 384))
    assert not encodes_texts(asyncio.run(webpte.inspect(root / "web/samples/stories.pte")))


def test_ties_come_in_the_order_of_adding() -> None:
    async def run() -> list[Passage]:
        async with await open_retrieval() as task:
            for name in ("b", "a", "c"):
                await task.add({"name": name, "text": "The dog is lazy."})
            found: list[Passage] = await task.index.search("The dog is lazy.", 3)
            return found

    found = wait(run())
    assert [one.document for one in found] == ["b", "a", "c"]
    assert found[0].score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("device", ["numpy", "gpu"])
def test_documents_are_replaced_and_removed(device: str) -> None:
    async def run() -> None:
        given = "numpy" if device == "numpy" else SimulatedDevice()
        async with await open_retrieval(given) as task:
            index = Index(task, most=30, overlap=0)
            for name, content in (("a", DOGS), ("b", "Quick."), ("c", "Money is said to talk.")):
                await index.add(text(name, content))
            await index.add(text("a", "The cache keeps what has been said."))
            assert list(index.documents) == ["b", "c", "a"]
            assert len(index) == 3
            for query, name in (("Quick.", "b"), ("The cache keeps what has been said.", "a")):
                (found,) = await index.search(query, 1)
                assert found.document == name
                assert found.score == pytest.approx(1, abs=1e-5)
            await index.remove("c")
            with pytest.raises(InputError, match="no document 'c'"):
                await index.remove("c")
            assert {one.document for one in await index.search("Money", 9)} == {"a", "b"}
            await index.remove("a")
            await index.remove("b")
            assert await index.search("Quick.") == []
            await index.add(text("d", "Quick."))
            assert [one.document for one in await index.search("Quick.")] == ["d"]
            index.close()
            with pytest.raises(ClosedError):
                await index.search("Quick.")

    wait(run())


def test_failures_and_cancelling_leave_it_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_BATCH", 2)

    async def run() -> None:
        async with await open_retrieval() as task:
            index = Index(task, most=9, overlap=0)
            await index.add(text("a", "Quick."))
            plain, calls = task.embed, 0

            async def failing(texts: Sequence[str]) -> np.ndarray:
                nonlocal calls
                calls += 1
                if calls == 2:
                    raise ClosedError("by accident")
                return await plain(texts)

            monkeypatch.setattr(task, "embed", failing)
            with pytest.raises(ClosedError, match="by accident"):
                await index.add(text("b", DOGS))
            monkeypatch.setattr(task, "embed", plain)
            steps: list[tuple[int, int]] = []

            def cancel(done: int, total: int) -> None:
                steps.append((done, total))
                if done:
                    adding.cancel()

            adding = asyncio.ensure_future(index.add(text("a", DOGS), progress=cancel))
            with pytest.raises(asyncio.CancelledError):
                await adding
            assert (steps[0][0], steps[1][0]) == (0, 2)
            assert steps[0][1] == steps[1][1] > 2
            assert list(index.documents) == ["a"]
            (found,) = await index.search("Quick.", 9)
            assert found.score == pytest.approx(1, abs=1e-5)
            both = index.add(text("b", DOGS)), index.add(text("c", RAIN))
            _, searched, _ = await asyncio.gather(both[0], index.search("Quick."), both[1])
            assert searched[0].document == "a"
            assert list(index.documents) == ["a", "b", "c"]
            assert len(await index.search("fox", 100)) == len(index)

    wait(run())


def test_lost_device() -> None:
    async def run() -> None:
        device = Losable()
        task = await open_retrieval(device)
        await task.add({"name": "a", "text": "Quick."})
        await task.add({"name": "b", "text": DOGS})
        device.lost = True
        with pytest.raises(webpte.errors.DeviceError):
            await task("Quick.")
        await task.program.recover(SimulatedDevice())
        with pytest.raises(DeviceLostError, match="rebuild"):
            await task("Quick.")
        steps: list[tuple[int, int]] = []
        await task.index.rebuild(progress=lambda *step: steps.append(step))
        assert steps[-1] == (len(task.index), len(task.index))
        (found,) = await task("Quick.", top_k=1)
        assert found["document"] == "a"
        task.close()

    wait(run())


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with await open_retrieval() as task:
            for count in (0, 1025, True, 2.5):
                with pytest.raises(InputError, match="top_k"):
                    await task.index.search("a", count)  # type: ignore[arg-type]
            with pytest.raises(DocumentError, match="no text to search"):
                await task.add({"name": "a", "text": " \n"})
            with pytest.raises(InputError, match="has name and text"):
                await task.add({"name": "a", "content": "x"})
            with pytest.raises(InputError, match="a text is a str"):
                await task(5)
            for most, overlap in ((63, 0), (5, 5), (5, -1), (0, 0)):
                with pytest.raises(InputError, match="in common"):
                    Index(task, most=most, overlap=overlap)
            with pytest.raises(InputError, match="pooling is"):
                task.pooling = "max"
            task.pooling = "cls"
            await task.add({"name": "a", "text": "Quick."})
            with pytest.raises(InputError, match="were added with pooling='cls'"):
                task.pooling = "mean"
            monkeypatch.setattr(index_module, "MOST_PASSAGES", 2)
            with pytest.raises(InputError, match="an index holds 2"):
                await Index(task, most=6, overlap=0).add(text("b", DOGS))

    wait(run())
