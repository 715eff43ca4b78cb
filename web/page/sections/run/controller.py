"""The run section: runs, checks and timing of the program, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from page.browser import Message
from page.core.history import count_calls, follow
from page.core.interfaces import InputSection, OutputSection
from page.core.loaded_text import STAGES, loaded_text
from page.core.palette import Command
from page.core.session import DEVICE_NAMES, Held, Results, Session
from page.core.state import AppState, Change
from page.core.throttle import Throttle
from page.sections.run.commands import run_commands
from page.sections.run.kernel_view import kernel_times, kernels_view
from page.sections.run.live_runs import LiveRuns
from page.sections.run.view import further_work, run_card, stats_strip, timing_brief, timing_strip
from page.sections.run.waiting import Waiting, software_advice
from page.shared.html.markup import h
from page.shared.html.units import count_text
from webpte.errors import DeviceError, DeviceLostError, OutOfMemoryError

_MOST_REPEATS = 10_000
_BENCHMARK_SECONDS = 10
_RUNNING = "running"


class RunController:
    def __init__(
        self,
        state: AppState,
        draw_file: Callable[[], None],
        inputs: InputSection,
        outputs: OutputSection,
    ) -> None:
        self._state = state
        self._draw_file = draw_file
        self._inputs = inputs
        self._outputs = outputs
        self._repeats = 20
        state.rebuild = self._recover
        self._live = LiveRuns(state, self._run_live)
        self._live.ended.append(inputs.ask_for_frame)
        inputs.live = lambda: self._live.active
        state.follow(self._follow, Change.BUSY)
        state.follow(lambda change: self._live.follow(), Change.VIEW, Change.SESSION)
        state.commands.append(self._commands)

    def _commands(self) -> Iterator[Command]:
        session = self._state.session
        if session is not None and session.method:
            checks, profiles = self._can_check(session), self._can_profile(session)
            yield from run_commands(session, self._devices, checks=checks, profiles=profiles)

    # ---- acts

    async def on_run(self, message: Message) -> None:
        """Run once."""
        if self._state.session is None:
            self._tell_nothing_is_open()
            return
        await self._live.end()
        session = self._ready_session()
        if session is not None:
            self._state.show(error="")
            self._state.tell(f"Running{self._while_opening(session)}", "busy")
            await self._do_run(session)

    async def _run_live(self, session: Session) -> None:
        await self._do_run(session, live=True)

    async def _do_run(self, session: Session, live: bool = False) -> None:
        # Read all inputs now: changes during the run are for the next run.
        arrays, held = [state.array() for state in session.inputs], session.held()
        method = session.method

        def work() -> Coroutine[Any, Any, None]:
            return self._run(session, method, arrays, held, live)

        # State is gone with the GPU: whoever built it up has to decide how to go on.
        redo = None if session.stateful else work
        await self._state.do(session, work(), f"{_RUNNING} {method}", at_once=True, redo=redo)

    def _ready_session(self) -> Session | None:
        """Return the session if its program can run now; else say why not."""
        session = self._state.idle_session()
        if session is None or not session.method:
            return None
        problem = session.problem
        if problem is not None:
            self._state.tell(f"{problem.name} is not ready: {problem.error}", "bad")
            self._state.browser.show(reveal=f"input-{problem.index}")
            return None
        return session

    async def on_benchmark(self, message: Message) -> None:
        """Run many times with the same inputs, and show the median."""
        await self._live.end()
        session = self._ready_session()
        if session is None:
            return
        with contextlib.suppress(ValueError):
            wanted = int(message.get("fields", {}).get("repeats", self._repeats))
            self._repeats = min(max(wanted, 1), _MOST_REPEATS)
        arrays, held = [state.array() for state in session.inputs], session.held()
        self._state.show(error="")
        self._state.tell(f"Benchmark: {count_text(self._repeats)} runs", "busy")
        work = self._benchmark(session, session.method, arrays, held)
        await self._state.do(session, work, "running the benchmark", at_once=True)

    def on_live(self, message: Message) -> None:
        """Switch live runs on or off."""
        self._live.switch()
        self.draw()

    @property
    def answers_changes(self) -> bool:
        """Whether the inputs as they are now are run by themselves."""
        return self._live.is_due

    def inputs_changed(self) -> None:
        """Run for the new inputs, unless live runs are off."""
        self._live.follow()

    def on_cancel(self, message: Message) -> None:
        session = self._state.session
        if session is None or not session.runner.busy or not session.runner.can_stop:
            return
        if not session.runner.cancel():
            self._state.tell("Stopping after this run", "busy")

    async def on_check(self, message: Message) -> None:
        session = self._state.idle_session()
        if session is None or session.shown is None:
            return
        if session.shown.lost:
            self._outputs.tell_unknown_state(session.shown.lost)
            self._state.tell("Not compared: the program's state is unknown", "bad")
            return
        self._state.tell("Computing on NumPy", "busy")
        work = self._check(session, session.shown)
        await self._state.do(session, work, "comparing with NumPy", at_once=True)

    async def on_profile(self, message: Message) -> None:
        session = self._state.idle_session()
        if session is not None and session.runs[session.method]:
            self._state.tell("Profiling kernels", "busy")
            await self._state.do(session, self._profile(session), "timing the kernels", False)

    async def on_recover(self, message: Message) -> None:
        session = self._state.idle_session()
        if session is not None:
            self._state.show(error="")
            self._state.tell("Rebuilding the program", "busy")
            await self._state.do(session, self._recover(session), "rebuilding the program", False)

    # ---- the work

    async def _run(
        self, session: Session, method: str, arrays: Sequence[Any], held: Held, live: bool
    ) -> None:
        runner, first = session.runner, not session.runs[method]
        stream = session.stream()
        try:
            async with Waiting(
                self._state, session, lambda: self._tell_long_run(session, live)
            ) as waiting:
                progress = waiting.progress
                values = await runner.once(session.program, method, arrays, progress, stream)
        except asyncio.CancelledError:
            session.cancel_run(method)
            self._outputs.draw_age()
            if not self._live.wanted:
                self._state.tell("Cancelled")
            return
        except Exception as error:
            session.fail_run(method, error)
            self._outputs.draw_age()
            await self._inputs.explain_failure(session, method, arrays, error)
            if live and self._live.has_failed_alike(session, held, error):
                self._state.tell("Same error again", "bad")
                return
            raise
        session.finish_run(method, arrays, held, values)
        if stream is not None and len(stream.parts) > 1 and session.shown is not None:
            session.shown.lost = f"this took {count_text(len(stream.parts))} calls"
        if live and self._live.forget_failure():
            self._state.show(error="")
        self._outputs.draw()
        if not live:
            self._outputs.scroll_into_view()
        if (first or not live) and session.has_host_times:
            self._draw_file()
        self._state.announce(Change.RESULTS)
        loaded = f"; {loaded_text(session)}" if live and first else ""
        summary = runner.run_summary(self._outputs.answer())  # first: the line may be cut off
        self._state.tell(summary + loaded + self._while_opening(session, still=True))

    def _tell_long_run(self, session: Session, live: bool) -> None:
        """Show that a run takes long; a live one has not been told of before."""
        self.draw()
        if live:
            self._state.tell(f"Running{self._while_opening(session)}", "busy")

    async def _benchmark(
        self, session: Session, method: str, arrays: Sequence[Any], held: Held
    ) -> None:
        runner, throttle = session.runner, Throttle()

        def tick() -> None:
            session.count_run(method, arrays)
            if throttle.ready():
                self._draw_timing(session)

        runner.timing.repeats = []
        try:
            async with Waiting(self._state, session) as waiting:
                # Not counted: it has one-time costs, and its outputs are shown.
                values = await runner.once(session.program, method, arrays, waiting.progress)
            session.finish_run(method, arrays, held, values)
            self._outputs.draw()
            self._state.announce(Change.RESULTS)
            program, wanted = session.program, self._repeats
            await runner.repeat(program, method, arrays, wanted, tick, _BENCHMARK_SECONDS)
        except asyncio.CancelledError:
            session.cancel_run(method)
            self._outputs.draw_age()
        except Exception as error:
            session.fail_run(method, error)
            self._outputs.draw_age()
            await self._inputs.explain_failure(session, method, arrays, error)
            raise
        self._draw_file()
        self._state.tell(runner.benchmark_summary() + self._while_opening(session, still=True))

    def _tell_nothing_is_open(self) -> None:
        """Say that nothing is open; only the keyboard leads here."""
        if name := self._state.opening:
            self._state.tell(f"Still opening {name}: run it when it is loaded", "busy")
        else:
            self._state.tell("There is nothing to run: open a program first", "bad")

    def _while_opening(self, session: Session, still: bool = False) -> str:
        """Say which program runs while another is being opened."""
        name, coming = session.source.name, self._state.opening
        if not coming:
            return ""
        if still:
            return f". Still opening {coming}"
        return f" {name}, while {'it' if coming == name else coming} is opened"

    async def _check(self, session: Session, results: Results) -> None:
        """Repeat the calls on the NumPy reference and compare every output."""
        source, runner = session.source, session.runner
        total, throttle = count_calls(results.calls), Throttle()

        def tick(done: int) -> None:
            if total > 1 and throttle.ready():
                line = f"Computing on NumPy: {count_text(done)} of {count_text(total)} calls"
                self._state.tell(line, "busy")

        reference = await self._state.engine.load(
            source.data,
            data=source.extra,
            device="numpy",
            max_context=source.max_context,
            kv_cache=source.kv_cache,
        )
        try:
            expected = await follow(reference, results.calls, lambda: runner.stopping, tick)
        except asyncio.CancelledError:
            expected = None
        finally:
            reference.close()
        if expected is None:
            self._state.tell("Stopped: outputs not compared")
            return
        against = "NumPy" if total == 1 else f"NumPy after the same {count_text(total)} calls"
        compared = self._outputs.compare_all(expected, against)
        wrong = sum(not result.agrees for result in compared)
        if wrong:
            self._state.tell(f"{wrong} of {len(compared)} outputs do not match NumPy", "bad")
        else:
            self._state.tell("All outputs match NumPy")

    async def _profile(self, session: Session) -> None:
        program, method = session.program, session.method
        try:
            await program.profile(method)  # a warm-up: the first run has one-time costs
            trace = await program.trace(method)
        except (DeviceLostError, OutOfMemoryError):
            raise
        except DeviceError as error:
            self._state.show(kernels=h("p", str(error), class_="notice notice-warn"))
            self._state.tell("These kernels cannot be profiled", "bad")
            return
        self._state.show(kernels=kernels_view(kernel_times(trace.steps)))
        self._state.tell("Kernels profiled")

    async def _recover(self, session: Session) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            line = (
                f"Rebuilding the program: {STAGES[stage].lower()}, {100 * done // (total or 1)} %"
            )
            self._state.tell(line, "busy")

        await session.program.recover(progress=progress)
        session.start_over()
        self._outputs.draw()
        self._state.announce(Change.RESULTS)
        since = ", and its state was reset" if session.stateful else ""
        self._state.tell(f"The program is rebuilt{since}: run it again")

    # ---- drawing

    def _follow(self, change: Change) -> None:
        session = self._state.session
        begun = session is not None and session.runner.busy
        # The beginning of a live run is not shown: a short one moves nothing.
        if not (begun and self._live.running):
            self.draw()

    def draw(self) -> None:
        """Draw buttons and times; hide them without a session."""
        session = self._state.session
        self._state.browser.show(hidden={"run": session is None, "figures": session is None})
        if session is None:
            empty = ("run_controls", "run_advice", "run_more", "timing", "stats", "kernels")
            self._state.show(**dict.fromkeys(empty, ""))
            return
        controls = run_card(
            running=session.runner.busy,
            can_cancel=session.runner.busy and session.runner.can_stop,
            why_not="" if session.method else "Constant methods only: there is nothing to run.",
            live=self._live.on if self._live.can_follow(session) else None,
            devices=self._devices,
            device=session.device,
        )
        more = further_work(
            running=session.runner.busy,
            repeats=self._repeats,
            can_check=self._can_check(session) if self._checks(session) else None,
            can_profile=self._can_profile(session) if self._profiles(session) else None,
        )
        adapter = self._state.adapter
        slow = adapter is not None and adapter.software and session.device == "webgpu"
        advice = software_advice() if slow else ""
        self._state.show(run_controls=controls, run_advice=advice, run_more=more)
        self._state.browser.show(text={"outputs-none": self._live.invitation(session)})
        self._draw_timing(session)

    @property
    def _devices(self) -> dict[str, str]:
        known = self._state.adapter is not None
        return DEVICE_NAMES if known else {"numpy": DEVICE_NAMES["numpy"]}

    def _can_check(self, session: Session) -> bool:
        return session.shown is not None and session.shown.device != "numpy"

    def _checks(self, session: Session) -> bool:
        """Tell whether there is something to check, now or after a run."""
        return bool(session.method) and (session.device != "numpy" or self._can_check(session))

    def _can_profile(self, session: Session) -> bool:
        return self._profiles(session) and session.runs[session.method] > 0

    def _profiles(self, session: Session) -> bool:
        adapter = self._state.adapter
        timed = adapter is not None and "timestamp-query" in adapter.features
        return timed and session.device == "webgpu" and bool(session.method)

    def clear_kernels(self) -> None:
        """Remove the kernel times of another program or method."""
        self._state.show(kernels="")

    def _draw_timing(self, session: Session) -> None:
        strip = timing_strip(session.runner.timing, session.runner.busy)
        kind = session.program.device_info.kind
        stats = stats_strip(session.program.stats, DEVICE_NAMES.get(kind, kind))
        self._state.browser.show(text={"figures-brief": timing_brief(session.runner.timing)})
        self._state.show(timing=strip, stats=stats)
