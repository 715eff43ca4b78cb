"""The bench: figures of this device, their JSON and link, and figures of strangers."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from page.app import App
from page.views.bench import panel as bench_view
from page.views.bench.chart import shares_chart
from support.page.fake_page import GPU, Engine, FakeBrowser, File, drive, drop, open_sample
from webpte import DeviceInfo
from webpte.errors import ExecutionError
from webpte.llm.gpu_figures.result import (
    FRAGMENT,
    MAX_BYTES,
    MAX_ROWS,
    BenchError,
    BenchResult,
    BenchRow,
    describe,
    read_result,
)

RESULT = BenchResult(
    "acme <b>x</b>",
    "Browser 1",
    "0.1.0",
    "2026-01-02",
    features=("shader-f16",),
    limits={"maxBufferSize": 5},
    rows=(BenchRow("digits: one call", 1.25, "ms"), BenchRow("a: decode", 1234.0, "tokens/s")),
)


def raw(**changes: Any) -> str:
    return json.dumps({**json.loads(RESULT.json()), **changes})


def link_of(data: bytes) -> str:
    return "http://site/" + FRAGMENT + base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_result_survives_json_and_link() -> None:
    assert read_result(RESULT.json()) == RESULT
    link = RESULT.link("http://site/page?model=a#old")
    assert link.startswith("http://site/page?model=a#bench=")
    assert read_result(link) == RESULT
    assert read_result(FRAGMENT + link.partition(FRAGMENT)[2]) == RESULT


def test_a_result_names_adapter_and_limits() -> None:
    info = DeviceInfo("webgpu", "acme", "one", limits={"maxBufferSize": 7, "other": 3})
    found = describe(info, "Browser 2", "0.1.0")
    assert (found.adapter, found.browser) == ("acme one", "Browser 2")
    assert found.limits == {"maxBufferSize": 7}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "paste the JSON"),
        ("{", "not JSON"),
        ("[]", "must be a table"),
        ("{}", "no result of a benchmark"),
        (raw(format="other"), "no result of a benchmark"),
        (raw(adapter=5), "adapter must be a text"),
        (raw(rows=[5]), "must be a table"),
        (raw(rows=[{"name": "a", "value": -1, "unit": "ms"}]), "positive number"),
        (raw(rows=[{"name": "a", "value": 1, "unit": "km"}]), "positive number"),
        (raw(rows=[{"name": "a", "value": "1", "unit": "ms"}]), "value must be a number"),
        (raw(rows=[{"name": "a", "value": 1, "unit": "ms"}] * (MAX_ROWS + 1)), "at most 100 rows"),
        (raw(browser="x" * MAX_BYTES), "at most 65,536 bytes"),
        ("[" * 5000, "nested deeper"),
        ("http://site/#bench=!!!", "holds no result"),
        (link_of(b"no zlib"), "holds no result"),
        (link_of(zlib.compress(RESULT.json().encode())[:-20]), "cut off"),
        (link_of(zlib.compress(b"x" * 10_000_000)), "at most 65,536 bytes"),
        ("http://site/#bench=" + "A" * 20_000, "at most 16,384 characters"),
    ],
)
def test_results_of_strangers_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read_result(text)


def test_a_link_that_is_too_long_is_refused() -> None:
    noise = "".join(chr(33 + (i * i * 7919 + i * 31) % 90) for i in range(280))
    names = [noise[i % 200 :] + noise[: i * 7 % 150] + str(i**5) for i in range(400)]
    rows = tuple(BenchRow(name, 1.0, "ms") for name in names)
    with pytest.raises(BenchError, match="save the file"):
        BenchResult("a", "b", "c", "d", rows=rows * 3).link("http://site/")


async def open_bench(app: App) -> None:
    await open_sample(app, "add.pte")
    await app.receive({"act": "view", "name": "bench"})


def test_it_measures_samples_and_the_open_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_view, "SAMPLES", ("digits",))

    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "agent": "Browser 3", "base": "http://site/"})
        await open_bench(app)
        await app.receive({"act": "bench:measure"})
        assert browser.text["status"] == "Measured"
        html = browser.html["view-bench"]
        assert "digits: one call of 1 × 1 × 28 × 28 (ms)" in html
        assert "add.pte: one call of 37 × 41, 37 × 41 (ms)" in html
        assert all(file.kept for file in browser.opened), "a file is open as long as the tab"
        await app.receive({"act": "bench:save"})
        saved = read_result(browser.links[-1].decode())
        names = [row.name.partition(" of ")[0] for row in saved.rows]
        assert names == ["digits: one call", "add.pte: one call"]
        assert all(row.value > 0 for row in saved.rows)
        assert saved.browser == "Browser 3"
        await app.receive({"act": "bench:copy"})
        assert read_result(browser.other["copy"]["text"]) == saved
        await app.receive({"act": "bench:link"})
        link = browser.other["copy"]["text"]
        assert read_result(link) == saved
        await app.receive({"act": "bench:compare", "fields": {"other": RESULT.json()}})
        html = browser.html["view-bench"]
        assert "acme &lt;b&gt;x&lt;/b&gt;" in html
        assert "a: decode (tokens/s)" in html
        await app.receive({"act": "bench:drop"})
        assert "acme" not in browser.html["view-bench"]

    drive(script)


def test_results_come_from_files_and_from_the_address() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        link = RESULT.link("http://site/")
        await app.receive({"act": "hello", "hash": "#" + link.partition("#")[2]})
        await open_bench(app)
        assert "a: decode (tokens/s)" in browser.html["view-bench"]
        await app.receive({"act": "bench:drop"})
        await drop(app, File("theirs.bench.json", RESULT.json().encode()))
        assert not browser.html.get("error"), browser.html["error"]
        assert "a: decode (tokens/s)" in browser.html["view-bench"]
        await app.receive({"act": "bench:compare", "fields": {"other": "{}"}})
        assert "no result of a benchmark" in browser.html["error"]

    drive(script)


def test_a_cancelled_measurement_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = asyncio.Event()

    async def sample(state: Any, name: str, device: str) -> list[BenchRow]:
        if name == "first":
            return [BenchRow("first: one call", 2.0, "ms")]
        reached.set()
        await asyncio.sleep(1000)
        return []

    monkeypatch.setattr(bench_view, "SAMPLES", ("first", "second"))
    monkeypatch.setattr(bench_view, "measure_sample", sample)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_bench(app)
        measuring = app.receive({"act": "bench:measure"})
        await reached.wait()
        await app.receive({"act": "cancel"})
        await measuring
        assert "Cancelled" in browser.text["status"]
        assert "first: one call (ms)" in browser.html["view-bench"]

    drive(script)


def test_a_cancelled_measurement_of_the_gpu_keeps_its_peaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = asyncio.Event()

    async def measure(
        device: str, tell: Callable[[int, int, str], None]
    ) -> AsyncIterator[BenchRow]:
        tell(0, 4, f"peaks of {device}")
        yield BenchRow("peak: memory", 3.0, "GB/s")
        reached.set()
        await asyncio.sleep(1000)

    monkeypatch.setattr(bench_view, "measure_gpu", measure)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_bench(app)
        measuring = app.receive({"act": "bench:gpu"})
        await reached.wait()
        assert browser.text["status"] == "Measuring peaks of webgpu: 1 of 4"
        await app.receive({"act": "cancel"})
        await measuring
        assert "Cancelled" in browser.text["status"]
        assert "peak: memory (GB/s)" in browser.html["view-bench"]

    drive(script, GPU, Engine())


def test_a_sample_that_fails_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_view, "SAMPLES", ("digits",))
    engine = Engine()

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_bench(app)
        engine.failure = ExecutionError("no memory")
        await app.receive({"act": "bench:measure"})
        assert "no memory" in browser.html["error"]
        assert [file.name for file in browser.opened if file.stopped] == ["digits.pte"]

    drive(script, engine=engine)


def test_numpy_is_no_gpu_to_measure() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_bench(app)
        await app.receive({"act": "bench:gpu"})
        assert "There is no GPU to measure" in browser.text["status"]

    drive(script)


def test_shares_of_the_peak_are_bars() -> None:
    rows = (BenchRow("<a>: decode", 5.0, "tokens/s", share=0.25), BenchRow("b", 1.0, "ms"))
    drawn = shares_chart([BenchResult("acme", "b", "c", "d", rows=rows)])
    assert drawn is not None
    assert "<dl><dt>&lt;a&gt;: decode</dt><dd><span" in drawn
    assert 'value="0.2500" aria-label="acme: 25 %"' in drawn
    assert shares_chart([RESULT]) is None


def test_without_figures_there_is_one_action_and_a_sketch() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_bench(app)
        html = browser.html["view-bench"]
        assert html.count('class="primary"') == 1
        assert "<svg" in html
        assert "disabled" not in html
        for later in ("Save JSON", "Copy link", "Cancel", "Remove comparison"):
            assert later not in html
        await app.receive({"act": "bench:compare", "fields": {"other": RESULT.json()}})
        html = browser.html["view-bench"]
        assert "Remove comparison" in html
        assert "Save JSON" not in html  # nothing of this device

    drive(script)
