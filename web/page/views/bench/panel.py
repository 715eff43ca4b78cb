"""The bench: measures this browser and GPU, and compares the figures with figures of others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import webpte
from page.browser import Message
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.empty import empty_view
from page.shared.html.markup import Html, h, labelled
from page.shared.html.tables import table
from page.views.bench.chart import shares_chart
from page.views.bench.measure import SAMPLES, measure_sample, measure_session
from page.views.view import METHOD, PROGRAM, Panel, View
from webpte.llm.gpu_figures.measure import measure_gpu
from webpte.llm.gpu_figures.result import (
    FRAGMENT,
    MAX_BYTES,
    BenchError,
    BenchResult,
    BenchRow,
    describe,
    read_result,
)

_MEASURING = "measuring"


class BenchPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._own: BenchResult | None = None
        self._other: BenchResult | None = None
        self._linked = False  # whether the link of the page's address was read

    # ---- the measurement

    async def on_measure(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        problem = next((state for state in session.inputs if state.error), None)
        if problem is not None:
            self.state.tell(f"{problem.name} is not ready, see Run: {problem.error}", "bad")
            return
        self.state.show(error="")
        await self.state.do(session, self._measure(session), _MEASURING, at_once=True)

    async def _measure(self, session: Session) -> None:
        rows: list[BenchRow] = []
        base = describe(session.program.device_info, self.state.agent, webpte.__version__)
        total = len(SAMPLES) + 1
        try:
            for number, name in enumerate((*SAMPLES, "")):
                told = name or session.source.name
                self.state.tell(f"Measuring {told}: {number + 1} of {total}", "busy")
                if name:
                    rows += await measure_sample(self.state, name, session.device)
                elif session.source.address not in _addresses():
                    rows += await measure_session(session)
                self._own = replace(base, rows=tuple(rows))
                self.draw()
        except asyncio.CancelledError:
            self.state.tell("Cancelled. Results so far are shown.")
            return
        self.state.tell("Measured")

    async def on_gpu(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        if session.device == "numpy":
            self.state.tell("There is no GPU to measure: the program runs on NumPy", "bad")
            return
        self.state.show(error="")
        await self.state.do(session, self._measure_gpu(session), _MEASURING, at_once=True)

    async def _measure_gpu(self, session: Session) -> None:
        """Measure the GPU by layers with made-up weights, beside its peaks."""
        base = describe(session.program.device_info, self.state.agent, webpte.__version__)
        rows: list[BenchRow] = []

        def tell(done: int, total: int, work: str) -> None:
            self.state.tell(f"Measuring {work}: {done + 1} of {total}", "busy")

        try:
            async for row in measure_gpu(session.device, tell):
                rows.append(row)
                self._own = replace(base, rows=tuple(rows))
                self.draw()
        except asyncio.CancelledError:
            self.state.tell("Cancelled. Results so far are shown.")
            return
        self.state.tell("Measured")

    # ---- the result

    def on_save(self, message: Message) -> None:
        if self._own is not None:
            url = self.state.browser.download_url(self._own.json().encode())
            self.state.browser.show(download={"url": url, "name": "webpte.llm.bench.json"})

    def on_copy(self, message: Message) -> None:
        if self._own is not None:
            done = "Copied"
            self.state.browser.show(copy={"text": self._own.json(), "done": done})

    def on_link(self, message: Message) -> None:
        if self._own is not None:
            link = self._own.link(self.state.base)
            self.state.browser.show(copy={"text": link, "done": "Link copied"})

    def on_compare(self, message: Message) -> None:
        self._compare(str(message["fields"]["other"]))

    def on_drop(self, message: Message) -> None:
        self._other = None
        self.draw()

    def accepts(self, name: str) -> bool:
        return name.lower().endswith(".bench.json")

    async def accept_files(self, files: Sequence[Any]) -> None:
        if self.state.browser.source(files[0]).size > MAX_BYTES:
            raise BenchError(f"a result has at most {MAX_BYTES:,} bytes")
        data = await self.state.browser.read(files[0])
        self._compare(data.decode("utf-8", "replace"))

    def _compare(self, text: str) -> None:
        self._other = read_result(text)
        self.state.tell("Results compared")
        self.draw()

    def _read_link(self) -> None:
        """Take the result of the page's address, once."""
        if not self._linked and self.state.hash.startswith(FRAGMENT):
            self._linked = True
            try:
                self._other = read_result(self.state.hash)
            except BenchError as error:
                self.state.tell(str(error), "bad")

    # ---- drawing

    def draw(self) -> None:
        self._read_link()
        session = self.state.session
        busy = session is not None and session.runner.busy
        own = self._own

        content: tuple[object, ...]
        cancel = h("button", "Cancel", type="button", data_act="cancel") if busy else None
        if own is None and self._other is None:
            text = "Times the samples and the open program on this device. Nothing is sent."
            start = h(
                "div",
                self._button("Start", "measure", busy, main=True),
                self._button("Measure this GPU", "gpu", busy),
                cancel,
                class_="controls",
            )
            content = (h("h2", "Benchmark"), empty_view("bench", text, start, self._form()))
        else:
            content = (
                h("h2", "Benchmark"),
                h(
                    "div",
                    self._button("Start", "measure", busy, main=True),
                    self._button("Measure this GPU", "gpu", busy),
                    cancel,
                    self._saving() if own is not None else None,
                    class_="controls",
                ),
                _table(own, self._other),
                self._form(),
            )
        self.show(h("section", *content, class_="card bench-card"))

    def _button(self, text: str, act: str, busy: bool = False, main: bool = False) -> Html:
        kind = "primary" if main else None
        return h("button", text, type="button", data_act=self.act(act), disabled=busy, class_=kind)

    def _saving(self) -> tuple[Html, ...]:
        """Return the buttons for the device's own figures."""
        acts = {"save": "Save JSON", "copy": "Copy JSON", "link": "Copy link"}
        return tuple(self._button(text, act) for act, text in acts.items())

    def _form(self) -> Html:
        """Return the field for another result."""
        field = h("input", type="text", name="other", autocomplete="off")
        return h(
            "form",
            labelled("Compare with a result (JSON or link)", field, "wide"),
            h("button", "Compare", type="submit"),
            self._button("Remove comparison", "drop") if self._other is not None else None,
            data_act=self.act("compare"),
            class_="url bench-compare",
        )


def _addresses() -> tuple[str, ...]:
    return tuple(f"samples/{name}.pte" for name in SAMPLES)


def _table(own: BenchResult | None, other: BenchResult | None) -> Html:
    """Return both results side by side, by row."""
    found = [one for one in (own, other) if one is not None]
    keys = dict.fromkeys(row.key for one in found for row in one.rows)
    values = [{row.key: row for row in one.rows} for one in found]
    rows = [
        [f"{name} ({unit})", *(_told(each.get((name, unit))) for each in values)]
        for name, unit in keys
    ]
    headings = ["metric", *(f"{one.adapter}, {one.date}" for one in found)]
    notes = [
        h("p", f"{one.adapter} · {one.browser} · webpte {one.webpte}", class_="note")
        for one in found
    ]
    parts = table("Results", headings, rows), shares_chart(found), *notes
    return h("div", *parts, class_="bench-figures")


def _told(row: BenchRow | None) -> str:
    if row is None:
        return ""
    digits = 3 if row.value < 1 else 2 if row.value < 100 else 0
    return f"{row.value:,.{digits}f}" + (f" ({row.note})" if row.note else "")


VIEW = View(
    "bench",
    "Benchmark",
    order=60,
    also="perf speed time",
    make=BenchPanel,
    needs=(PROGRAM, METHOD),
    follows=(Change.SESSION, Change.METHOD, Change.BUSY),
    style=True,
    commands=(
        Command("Start benchmark", "measure", also="perf speed"),
        Command("Measure this GPU", "gpu", also="perf speed peak"),
    ),
)
