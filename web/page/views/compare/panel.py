"""The comparison with NumPy, call by call, and with files of expected outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from page.browser import Message
from page.core.session import DEVICE_NAMES, Held, Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.shared.html.empty import empty_view
from page.shared.html.errors import causes
from page.shared.html.markup import h, render
from page.views.compare import markup
from page.views.compare.calls import PAGE, Listing, calls_card
from page.views.compare.expected import Expected, assign, is_expected_file
from page.views.compare.settings import CompareSettings
from page.views.view import METHOD, PROGRAM, Panel, View
from webpte.inspection.report import Comparison

_COMPARING = "comparing"
_EMPTY = "Shows which call is wrong first, and how far each is from NumPy."


class _ComparisonStoppedError(Exception):
    """The comparison was stopped; raised inside it, since it has no other way to end."""


@dataclass(frozen=True)
class _FoundFiles:
    """A comparison, the inputs that it was made with, and the expected files by output."""

    comparison: Comparison
    held: Held
    files: dict[str, str]


class ComparePanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._settings = CompareSettings()
        self._listing = Listing()
        self._file = ""  # the address or name of the program that outputs are expected of
        self._expected: dict[str, list[Expected]] = {}  # by method
        self._found: dict[str, _FoundFiles] = {}
        self._progress = (0, 0)

    def forget(self) -> None:
        """Drop results; expected outputs stay if the same file is opened again."""
        self._found.clear()
        self._listing = Listing()
        session = self.state.session
        if session is None:
            return  # the program may be opened again
        file = session.source.key
        if file != self._file:
            self._file = file
            self._expected.clear()

    # ---- the comparison

    async def on_compare(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None:
            return
        self._settings.take(message["fields"])
        try:
            tolerances = self._settings.tolerances()
        except ValueError as error:
            self.state.tell(str(error), "bad")
            return
        problem = next((state for state in session.inputs if state.error), None)
        if problem is not None:
            self.state.tell(f"{problem.name} is not ready, see Run: {problem.error}", "bad")
            return
        self.state.show(error="")
        self.state.tell("Comparing", "busy")
        self._progress = (0, 0)
        work = self._compare(session, *tolerances)
        await self.state.do(session, work, _COMPARING, can_stop=session.device != "numpy")

    async def _compare(self, session: Session, rtol: float, atol: float) -> None:
        method, held = session.method, session.held()
        expected = self._expected.get(method, [])
        try:
            found = await session.program.compare(
                method,
                *(state.array() for state in session.inputs),
                rtol=rtol,
                atol=atol,
                expected={one.output: one.array for one in expected} if expected else None,
                drift=self._settings.drift,
                progress=self._watch(session),
            )
        except Exception as error:  # the run may have wrapped it
            if not any(isinstance(cause, _ComparisonStoppedError) for cause in causes(error)):
                raise
            self.state.tell("Stopped: nothing was compared")
            return
        self._found[method] = _FoundFiles(found, held, {one.output: one.file for one in expected})
        self._listing.rows = PAGE
        self._tell(found)

    def _watch(self, session: Session) -> Any:
        throttle = Throttle()

        def progress(_stage: str, done: int, total: int) -> None:
            if session.runner.stopping:
                raise _ComparisonStoppedError
            self._progress = (done, total)
            if throttle.ready():
                bar = markup.progress_view(done, total)
                self.state.browser.show(html={markup.PROGRESS: bar})

        return progress

    def _tell(self, found: Comparison) -> None:
        if found.first is not None:
            self.state.tell(f"Compared: {found.first.call.op} is the first mismatched call", "bad")
        elif not found.agrees and not found.is_empty:
            self.state.tell("Compared: some outputs are not as expected", "bad")
        elif found.first_nan is not None or found.first_infinity is not None:
            self.state.tell("Compared: some values are NaN or infinite", "bad")
        elif found.is_empty:
            self.state.tell("Nothing to compare: all of it ran in NumPy", "bad")
        else:
            self.state.tell("Compared: no mismatches")

    def on_stop(self, message: Message) -> None:
        session = self.state.session
        if session is not None and session.runner.busy and session.runner.doing == _COMPARING:
            session.runner.cancel()
            self.state.tell("Stopping", "busy")

    # ---- expected outputs

    def accepts(self, name: str) -> bool:
        return is_expected_file(name)

    async def accept_files(self, files: Sequence[Any]) -> None:
        await self.on_expected({"files": files})

    async def on_expected(self, message: Message) -> None:
        session, browser = self.state.session, self.state.browser
        if session is None or not session.method:
            return
        method = session.method
        files = [(browser.source(file).name, await browser.read(file)) for file in message["files"]]
        names = [output.name for output in session.methods[method].outputs]
        expected = assign(files, names)
        if session is self.state.session:
            self._expected[method] = expected
            self.draw()
            self.state.tell(f"{', '.join(one.output for one in expected)} will be compared")

    def on_unexpect(self, message: Message) -> None:
        if self.state.session is not None:
            self._expected.pop(self.state.session.method, None)
            self.draw()

    # ---- results

    def on_sort(self, message: Message) -> None:
        self._listing.worst_first = not self._listing.worst_first
        self.draw()

    def on_filter(self, message: Message) -> None:
        self._listing.only_off = not self._listing.only_off
        self.draw()

    def on_more(self, message: Message) -> None:
        self._listing.rows += PAGE
        self.draw()

    def on_save(self, message: Message) -> None:
        session = self.state.session
        known = self._found.get(session.method) if session is not None else None
        if session is not None and known is not None:
            url = self.state.browser.download_url(known.comparison.json().encode())
            name = f"{session.source.name.removesuffix('.pte')}.{session.method}.compare.json"
            self.state.browser.show(download={"url": url, "name": name})

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        busy = session.runner.busy
        comparing = busy and session.runner.doing == _COMPARING
        form = markup.form_card(
            self._settings,
            self._expected.get(session.method, []),
            self.act,
            busy=busy,
            comparing=comparing,
            on_numpy=session.device == "numpy",
            progress=markup.progress_view(*self._progress) if comparing else None,
        )
        known = self._found.get(session.method)
        waits = known is None and not comparing
        empty = h("div", empty_view("compare", _EMPTY), class_="card") if waits else None
        self.show(render((form, self._cards(session, known) if known is not None else empty)))

    def _cards(self, session: Session, known: _FoundFiles) -> list[str]:
        found, device = known.comparison, DEVICE_NAMES[session.device]
        age = "" if known.held == session.held() else "Inputs changed: compare again."
        cards = [markup.verdict_card(found, device, age, self.act)]
        if found.first is not None:
            cards.append(markup.mismatch_card(found.first, found.tolerance, device))
        cards += [
            markup.output_card(one, known.files[one.name], found.tolerance, device)
            for one in found.outputs
        ]
        return [*cards, calls_card(found, self._listing, self.act)]


VIEW = View(
    "compare",
    "Compare",
    order=40,
    also="check verify difference",
    make=ComparePanel,
    needs=(PROGRAM, METHOD),
    follows=(Change.SESSION, Change.METHOD, Change.INPUTS, Change.BUSY),
    style=True,
)
