"""The profile: a timeline and tables of a run's time, GPU memory, and files to download."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from page.browser import Message
from page.core.palette import Command
from page.core.session import Held, Session
from page.core.state import AppState, Change
from page.shared.html.empty import empty_view
from page.shared.html.markup import Html, choice, h
from page.shared.html.units import us_text
from page.views.profile.memory import memory_view
from page.views.profile.pair import TracedRun, pair_view, runs_view, stacked
from page.views.profile.shorter import Shorter, traced_inputs
from page.views.profile.timeline import (
    BY,
    RUNS,
    clock_notes,
    rows_view,
    stages_table,
    timeline_view,
)
from page.views.view import METHOD, PROGRAM, Panel, View
from webpte.errors import WebpteError
from webpte.inspection.kernel_rates import rates_of
from webpte.inspection.report import MemoryReport, Rates, Trace

_OUTDATED = "Inputs changed since this trace. Record it again."
MOST_PINNED = 5
_MEASURED = ("webgpu", "native")  # devices with measurable peak rates


@dataclass(frozen=True)
class Profile:
    """Two runs of a method in a row; the first one does the work for new shapes."""

    held: Held  # by the inputs
    first: Trace
    again: Trace | None = None  # None: it was stopped
    note: str = ""  # how the inputs were shortened, if they were

    @property
    def runs(self) -> dict[str, Trace]:
        return {"first": self.first} | ({} if self.again is None else {"again": self.again})


@dataclass(frozen=True)
class FoundMemory:
    """A memory report and the state it is valid for. `problem`: why it is absent."""

    found_for: tuple[object, ...]
    report: MemoryReport | None
    ops: tuple[str, ...] = ()
    problem: str = ""


_ZOOMS = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("fit", "Fit", "Fit the whole run"))


class ProfilePanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._profiles: dict[str, Profile] = {}  # by method
        self._memory: FoundMemory | None = None
        self._by = "kernel"
        self._run = "again"
        self._pinned: list[TracedRun] = []  # they outlive their programs
        self._baseline: Trace | None = None  # of the pinned runs; None: the newest
        self._best: dict[str, Rates | None] = {}  # by adapter; None: it could not be measured

    def forget(self) -> None:
        self._profiles.clear()
        self._memory = None

    # ---- acts

    async def on_trace(self, message: Message) -> None:
        session = self.state.idle_session()
        if session is None or not session.method:
            return
        problem = next((state for state in session.inputs if state.error), None)
        if problem is not None:
            self.state.tell(f"{problem.name} is not ready: {problem.error}", "bad")
            return
        traced, held = traced_inputs(self.state, session), session.held()
        self.state.show(error="")
        self.state.tell("Recording a trace", "busy")
        work = self._trace(session, session.method, traced, held)
        await self.state.do(session, work, f"tracing {session.method}")

    async def _trace(self, session: Session, method: str, traced: Shorter, held: Held) -> None:
        """Trace twice; the first trace stays if the second is stopped or fails."""
        arrays = [state.array() for state in traced.inputs]
        first = await session.program.trace(method, *arrays)
        self._profiles[method], self._run = Profile(held, first, note=traced.note), "again"
        session.traces[method] = first
        await asyncio.sleep(0)  # handles messages: on NumPy a run never awaits
        if session.runner.stopping:
            self.state.tell("Stopped after the first run")
            return
        again = await session.program.trace(method, *arrays)
        self._profiles[method] = Profile(held, first, again, traced.note)
        session.traces[method] = again
        taken = us_text(first.microseconds), us_text(again.microseconds)
        told = f"Traced: first run {taken[0]}, second {taken[1]}"
        if again.timed and again.device in _MEASURED:
            await self._measure(session, told)
        self.state.tell(told)

    async def _measure(self, session: Session, told: str) -> None:
        """Measure the peak rates of the adapter, once; the trace is shown meanwhile."""
        adapter = _adapter(session)
        if adapter in self._best or session.runner.stopping:
            return
        self.state.tell(f"{told}; measuring the peak rates of this adapter", "busy")
        self.draw()
        try:
            self._best[adapter] = await rates_of(session.program.device)
        except WebpteError:  # too little memory, for example: then the column is left out
            self._best[adapter] = None

    def on_by(self, message: Message) -> None:
        if message["value"] in BY:
            self._by = str(message["value"])
            self.draw()

    def on_run(self, message: Message) -> None:
        """Choose which of the two runs is shown."""
        self._run = str(message["value"])
        self.draw()

    def on_keep(self, message: Message) -> None:
        """Pin the run that is shown, so that later runs are compared with it."""
        shown = self._shown_run()
        if shown is None or any(one.trace is shown.trace for one in self._pinned):
            return
        if len(self._pinned) == MOST_PINNED:
            self.state.tell(f"{MOST_PINNED} runs are pinned: unpin one first", "bad")
            return
        self._pinned.append(shown)
        self.draw()
        self.state.tell("Pinned: choose or trace another run, program or device to compare")

    def on_unkeep(self, message: Message) -> None:
        """Unpin one of the runs, or all."""
        at = int(message["at"]) if "at" in message else None
        self._pinned = [] if at is None else self._pinned[:at] + self._pinned[at + 1 :]
        self.draw()

    def on_baseline(self, message: Message) -> None:
        """Choose the pinned run that the tables compare with."""
        shown = self._shown_run()
        runs = stacked(self._pinned, shown) if shown is not None else {}
        if str(message["value"]) in runs:
            self._baseline = runs[str(message["value"])].trace
            self.draw()

    def on_perfetto(self, message: Message) -> None:
        trace = self._shown()
        if trace is not None:
            self._download(trace.perfetto(), "perfetto")

    def on_open_perfetto(self, message: Message) -> None:
        """Send the trace to the Perfetto tab that the script has opened."""
        trace, session = self._shown(), self.state.session
        if trace is not None and session is not None:
            name = f"{PurePath(session.source.name).stem}.{session.method}.perfetto.json"
            title = f"{trace.program}, {trace.method} on {trace.device}"
            self.tell_script(perfetto={"text": trace.perfetto(), "title": title, "name": name})

    def on_perfetto_sent(self, message: Message) -> None:
        """Say how the trace came to Perfetto, or that it was downloaded instead."""
        if message.get("sent"):
            self.state.tell("Opened in Perfetto, in another tab")
        else:
            self.state.tell("The trace is downloaded: drop the file onto the tab of Perfetto")

    def on_json(self, message: Message) -> None:
        trace = self._shown()
        if trace is not None:
            self._download(trace.json(), "trace")

    def on_memory_json(self, message: Message) -> None:
        if self._memory is not None and self._memory.report is not None:
            self._download(self._memory.report.json(), "memory")

    def _download(self, text: str, what: str) -> None:
        session = self.state.session
        assert session is not None  # as PROGRAM says
        name = f"{PurePath(session.source.name).stem}.{session.method}.{what}.json"
        url = self.state.browser.download_url(text.encode())
        self.state.browser.show(download={"url": url, "name": name})

    # ---- drawing

    def _shown(self) -> Trace | None:
        shown = self._shown_run()
        return None if shown is None else shown.trace

    def _shown_run(self) -> TracedRun | None:
        session = self.state.session
        profile = self._profiles.get(session.method) if session is not None else None
        if profile is None:
            return None
        name = self._run if self._run in profile.runs else "first"
        return TracedRun(profile.runs[name], name)

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        self.show(
            h(
                "div",
                h("section", self._time(session), class_="card profile-part"),
                h("section", self._space(session), class_="card profile-part"),
                class_="profile",
            )
        )
        self.tell_script()

    def _time(self, session: Session) -> list[object]:
        profile, shown = self._profiles.get(session.method), self._shown_run()
        head = h("div", h("h2", "Timeline"), class_="card-head")
        if profile is None or shown is None:
            text = f"Runs {session.method} twice, and shows where the time goes."
            note = traced_inputs(self.state, session).note
            told = h("p", note, class_="note") if note else None
            return [head, empty_view("profile", text, self._controls(session, None), told)]
        stale, trace = profile.held != session.held(), shown.trace
        runs = stacked(self._pinned, shown)
        return [
            head,
            self._controls(session, profile),
            h("p", _OUTDATED, class_="notice notice-warn") if stale else None,
            h("p", profile.note, class_="note") if profile.note else None,
            clock_notes(trace),
            runs_view(runs, self.act) if len(runs) > 1 else None,
            timeline_view({letter: one.trace for letter, one in runs.items()}),
            rows_view(trace, self._by, self.act, self._best.get(_adapter(session))),
            pair_view(runs, self._baseline_of(runs), self._by, self.act) if len(runs) > 1 else None,
            stages_table(profile.first, profile.again),
            h(
                "p",
                "Work that new shapes need once is in the first run.",
                class_="note",
            ),
        ]

    def _baseline_of(self, runs: Mapping[str, TracedRun]) -> str:
        """Return the letter of the baseline: the chosen run, else the run pinned last."""
        *pinned, _ = runs
        found = [one for one in pinned if runs[one].trace is self._baseline]
        return found[0] if found else pinned[-1]

    def _controls(self, session: Session, profile: Profile | None) -> Html:
        busy = session.runner.busy
        stops = busy and session.runner.can_stop
        return h(
            "div",
            h(
                "button",
                "Record a trace",
                type="button",
                class_="primary",
                data_act=self.act("trace"),
                aria_disabled="true" if busy else None,
            ),
            h("button", "Cancel", type="button", data_act="cancel") if stops else None,
            self._trace_controls(profile) if profile is not None else None,
            class_="controls",
        )

    def _trace_controls(self, profile: Profile) -> list[Html]:
        runs, shown = {name: RUNS[name] for name in profile.runs}, self._shown_run()
        assert shown is not None  # there is a profile
        pinned = any(one.trace is shown.trace for one in self._pinned)
        return [
            choice("run", runs, shown.run, "inline", data_act=self.act("run"), name="run"),
            *(
                h("button", text, type="button", data_zoom=name, aria_label=label, title=label)
                for name, text, label in _ZOOMS
            ),
            self._button("Pin this run", "keep", pinned, title="Compare other runs with this one"),
            *([self._button("Unpin all", "unkeep")] if self._pinned else []),
            h(
                "button",
                "Open in Perfetto",
                type="button",
                data_perfetto=True,
                title="Sends the trace to ui.perfetto.dev, which keeps it in its tab",
            ),
            self._button("Save for Perfetto", "perfetto", title="Opens in ui.perfetto.dev"),
            self._button("Save JSON", "json"),
        ]

    def _button(self, text: str, act: str, disabled: bool = False, **more: object) -> Html:
        """Return a button; a disabled one keeps the focus."""
        away = "true" if disabled else None
        return h("button", text, type="button", data_act=self.act(act), aria_disabled=away, **more)

    def _space(self, session: Session) -> list[object]:
        memory = self._found_memory(session)
        report = memory.report if memory is not None else None
        save = report is not None and self._button("Download memory as JSON", "memory_json")
        head = h("div", h("h2", "GPU memory"), save, class_="card-head")
        if memory is None:
            text = f"Still {session.runner.doing}: memory is shown afterwards."
            return [head, h("p", text, class_="note")]
        if report is None:
            return [head, h("p", memory.problem, class_="notice notice-warn")]
        return [head, memory_view(report, memory.ops)]

    def _found_memory(self, session: Session) -> FoundMemory | None:
        """Return the memory report; None while the program is busy and there is no older one."""
        program, method = session.program, session.method
        key = (method, program.generation, program.stats.executions)
        known = self._memory if self._memory and self._memory.found_for[0] == method else None
        if session.runner.busy:
            return known
        if known is None or known.found_for != key:
            try:
                report = program.memory(method)
                ops = tuple(node.op for node in program.graph(method).nodes)
                known = FoundMemory(key, report, ops)
            except WebpteError as error:
                known = FoundMemory(key, None, problem=str(error))
            self._memory = known
        return known


def _adapter(session: Session) -> str:
    info = session.program.device_info
    return " ".join((info.kind, info.vendor, info.architecture, info.description))


VIEW = View(
    "profile",
    "Profile",
    order=30,
    also="perf performance speed time slow",
    make=ProfilePanel,
    needs=(PROGRAM, METHOD),
    follows=(Change.SESSION, Change.METHOD, Change.INPUTS, Change.RESULTS, Change.BUSY),
    style=True,
    commands=(Command("Record a trace", "trace", also="perf speed profile"),),
)
