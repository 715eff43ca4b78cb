"""What happens when: the page's controller.

A message from the page names an act; the method `on_<act>` of this class or of a desk does it.
Nothing here imports the browser, so the whole page can be driven in CPython.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from page.browser import Browser, Message, Progress, Source, tell
from page.file_view import Placed, file_card
from page.gpu_view import adapter_banner, no_gpu_banner, waiting_banner
from page.input_desk import InputDesk
from page.input_view import Timing, run_card, timing_strip
from page.kernel_view import kernel_times, kernels_view
from page.markup import h
from page.output_desk import OutputDesk
from page.output_view import Output, stats_strip
from page.runner import Runner
from page.status_view import causes, error_view, progress_view
from page.units import ms_text, number_text, shape_text
from webpte import DeviceInfo, MethodInfo, Program, TensorInfo
from webpte.errors import DeviceError, DeviceLostError

_REDRAW_SECONDS = 0.08  # how often a running figure is drawn again
_ADAPTER_SECONDS = 15
_MOST_REPEATS = 10_000
_DEVICE_NAMES = {"webgpu": "WebGPU", "numpy": "NumPy (CPU)"}
_SECTIONS = ("error", "progress", "file", "timing", "stats", "kernels")  # without the desks'


@dataclass
class Opened:
    """The file on the page, and the program made of it once that worked."""

    source: Source
    methods: Mapping[str, MethodInfo]
    program: Program | None = None
    constant_values: dict[str, str] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)  # by method


class App:
    def __init__(self, browser: Browser, engine: Any) -> None:
        self._browser = browser
        self._engine = engine
        self._inputs = InputDesk(browser)
        self._outputs = OutputDesk(browser)
        self._runner = Runner()
        self._adapter: DeviceInfo | None = None
        self._device = "webgpu"
        self._narrow = False  # a small screen, where long lists start folded
        self._opened: Opened | None = None
        self._method = ""
        self._ran_with: list[Any] = []
        self._repeats = 20
        self._turn = 0  # of the newest opening: an older one that is still under way gives up
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- messages

    def receive(self, message: Message) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._act(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _act(self, message: Message) -> None:
        act = str(message.get("act"))
        opened = self._opened
        try:
            result = self._handler(act)(message)
            if result is not None:
                await result
        except Exception as error:
            # What was closed meanwhile has nothing to tell any more.
            if opened is None or opened is self._opened:
                self._show_error(error, f"while doing “{act}”")

    def _handler(self, act: str) -> Any:
        name = f"on_{act.replace('-', '_')}"
        for desk in (self, self._inputs, self._outputs):
            if hasattr(desk, name):
                return getattr(desk, name)
        raise ValueError(f"the page sent {act!r}, which nothing handles")

    async def on_hello(self, message: Message) -> None:
        self._narrow = bool(message.get("narrow"))
        asking = asyncio.ensure_future(self._browser.adapter())
        await asyncio.wait({asking}, timeout=_ADAPTER_SECONDS)
        if not asking.done():
            # Files can be inspected meanwhile; the answer is shown whenever it comes.
            self._browser.show(html={"gpu": waiting_banner()}, state="ready")
            self._tell("Ready")
        found = await asking
        if isinstance(found, DeviceInfo):
            self._adapter = found
            banner = adapter_banner(found)
        else:
            self._device = "numpy"
            banner = no_gpu_banner(found, runs_on_numpy=True)
        self._browser.show(html={"gpu": banner}, state="ready")
        self._tell("Ready")

    # ---- opening and closing

    async def on_open_file(self, message: Message) -> None:
        """A program, with the `.ptd` files that were chosen with it; or those alone, for it."""
        sources = [self._browser.source(file) for file in message["files"]]
        extra = tuple(one.data for one in sources if one.name.lower().endswith(".ptd"))
        programs = [one for one in sources if not one.name.lower().endswith(".ptd")]
        if programs:
            await self._open(replace(programs[0], extra=extra))
        elif self._opened is not None:
            await self._open(replace(self._opened.source, extra=extra))
        else:
            raise ValueError(
                "a .ptd file holds only the constants of a program: choose its .pte with it"
            )

    async def on_open_url(self, message: Message) -> None:
        await self._open(str(message["fields"]["url"]).strip())

    async def on_sample(self, message: Message) -> None:
        await self._open(str(message["url"]))

    async def on_reload(self, message: Message) -> None:
        if self._opened is not None:
            await self._open(self._opened.source)

    async def on_recover(self, message: Message) -> None:
        opened = self._opened
        if opened is not None and opened.program is not None and not self._runner.busy:
            self._browser.show(html={"error": ""})
            self._tell("Rebuilding the program", "busy")
            await self._do(self._recover(opened, opened.program), "rebuilding the program")

    async def _recover(self, opened: Opened, program: Program) -> None:
        try:
            await program.recover(progress=self._progress(opened.source.name, self._turn))
        finally:
            self._browser.show(html={"progress": ""})
        opened.runs.clear()
        self._tell("The program is rebuilt: run it again")

    async def on_device(self, message: Message) -> None:
        self._device = str(message["value"])
        await self.on_reload(message)

    async def on_close(self, message: Message) -> None:
        self._turn += 1
        await self._clear()
        self._browser.show(hidden={"welcome": False})
        self._tell("Closed")

    async def _clear(self) -> None:
        await self._runner.stop()
        if self._opened is not None and self._opened.program is not None:
            self._opened.program.close()
        self._opened = None
        self._inputs.clear()
        self._outputs.clear()
        self._browser.show(html=dict.fromkeys(_SECTIONS, ""), hidden={"run": True})

    async def _open(self, wanted: Source | str) -> None:
        self._turn += 1
        turn = self._turn
        name = wanted.name if isinstance(wanted, Source) else wanted.rsplit("/", 1)[-1] or wanted
        await self._clear()
        self._tell(f"Opening {name}", "busy")
        try:
            await self._load(wanted, name, turn)
        except Exception as error:
            if turn == self._turn:
                self._browser.show(html={"progress": ""})
                self._show_error(error, f"opening {name}")
        if turn == self._turn and self._opened is None:
            self._browser.show(hidden={"welcome": False})

    async def _load(self, wanted: Source | str, name: str, turn: int) -> None:
        progress = self._progress(name, turn)
        if isinstance(wanted, str):
            progress("fetch", 0, 0)
            source = await self._browser.fetch(wanted, progress)
        else:
            source = wanted
        progress("read", 0, 0)
        methods = await self._engine.inspect(source.data, data=source.extra)
        if turn != self._turn:
            return
        opened = self._opened = Opened(source, methods)
        runnable = [info.name for info in methods.values() if not info.is_constant]
        self._method = "forward" if "forward" in runnable else next(iter(runnable), "")
        self._browser.show(hidden={"welcome": True})
        self._show_file()
        started = perf_counter()
        program = await self._engine.load(
            source.data, data=source.extra, device=self._device, progress=progress, name=name
        )
        if turn != self._turn:
            program.close()
            return
        opened.program = program
        spent = 1000 * (perf_counter() - started)
        self._runner.reset(Timing(load=spent, stages=program.stats.load_ms))
        self._browser.show(html={"progress": ""})
        self._choose(opened, self._method)
        self._tell(f"{name} is loaded, {ms_text(spent)}")
        await self._read_constant_methods(opened, program)

    def _progress(self, name: str, turn: int) -> Progress:
        """Draws the stages, but not more often than anybody can see."""
        amounts: dict[str, tuple[int, int]] = {}
        drawn = 0.0

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal drawn
            new = stage not in amounts
            amounts[stage] = (int(done), int(total))
            now = perf_counter()
            if turn != self._turn or not (new or now - drawn > _REDRAW_SECONDS):
                return
            drawn = now
            self._browser.show(html={"progress": progress_view(name, amounts)})

        return progress

    async def _read_constant_methods(self, opened: Opened, program: Program) -> None:
        """Constants that are tensors: unlike plain values, the description does not hold them."""
        for info in opened.methods.values():
            if info.is_constant and any(isinstance(out, TensorInfo) for out in info.outputs):
                try:
                    values = await program.run(info.name)
                except Exception as error:
                    opened.constant_values[info.name] = f"could not be read: {error}"
                else:
                    opened.constant_values[info.name] = ", ".join(map(_value_text, values))
        if opened.constant_values and opened is self._opened:
            self._show_file()

    # ---- running

    async def on_method(self, message: Message) -> None:
        await self._runner.stop()
        if self._opened is not None:
            self._choose(self._opened, str(message["name"]))

    def _choose(self, opened: Opened, method: str) -> None:
        self._method = method
        self._outputs.clear()
        self._runner.reset()
        self._show_file()
        if method:
            self._inputs.choose(opened.methods[method].inputs)
        self._browser.show(html={"kernels": ""}, hidden={"run": False})
        self._show_run()

    async def on_run(self, message: Message) -> None:
        opened = self._opened
        if self._runner.busy or opened is None or opened.program is None or not self._method:
            return
        try:
            wanted = int(message["fields"].get("repeats", self._repeats))
        except ValueError:
            wanted = self._repeats
        self._repeats = min(max(wanted, 0), _MOST_REPEATS)
        problem = self._inputs.problem
        if problem is not None:
            self._tell(f"{problem.name} is not ready: {problem.error}", "bad")
            self._browser.show(reveal=f"input-{problem.index}")
            return
        self._browser.show(html={"error": ""})
        self._tell("Running", "busy")
        await self._do(self._run(opened, opened.program), f"running {self._method}")

    def on_cancel(self, message: Message) -> None:
        self._runner.cancel()
        self._tell("Stopping after this run", "busy")

    async def _do(self, work: Coroutine[Any, Any, None], doing: str) -> None:
        """Work on the program, with the buttons locked meanwhile."""
        task = self._runner.start(work)
        self._show_run()
        try:
            await task
        except Exception as error:
            self._show_error(error, doing)
        finally:
            self._show_run()

    async def _run(self, opened: Opened, program: Program) -> None:
        runner, method = self._runner, self._method
        drawn = 0.0

        def tick() -> None:
            nonlocal drawn
            if perf_counter() - drawn > _REDRAW_SECONDS:
                drawn = perf_counter()
                self._show_timing()

        runner.reset()
        arrays = self._inputs.arrays()
        values = await runner.first(program, method, arrays)
        opened.runs[method] += 1
        self._ran_with = arrays
        self._outputs.take(opened.methods[method].outputs, values)
        await runner.repeat(program, method, arrays, self._repeats, tick)
        opened.runs[method] += len(runner.timing.repeats)
        self._show_file()
        self._tell(runner.summary())

    async def on_check(self, message: Message) -> None:
        if self._opened is not None and self._outputs and not self._runner.busy:
            self._tell("Computing on NumPy", "busy")
            await self._do(self._check(self._opened.source), "computing on NumPy")

    async def _check(self, source: Source) -> None:
        """The same inputs on the NumPy reference, and every output against it."""
        reference = await self._engine.load(source.data, data=source.extra, device="numpy")
        try:
            expected = await reference.run(self._method, *self._ran_with)
        finally:
            reference.close()
        results = self._outputs.compare_all(expected, "NumPy")
        wrong = sum(not result.agrees for result in results)
        if wrong:
            self._tell(f"{wrong} of {len(results)} outputs differ from NumPy", "bad")
        else:
            self._tell("Every output agrees with NumPy")

    async def on_profile(self, message: Message) -> None:
        opened = self._opened
        if opened is not None and opened.program is not None and not self._runner.busy:
            self._tell("Timing the kernels", "busy")
            await self._do(self._profile(opened.program), "timing the kernels")

    async def _profile(self, program: Program) -> None:
        try:
            await program.profile(self._method)  # once for nothing: the first has one-time costs
            timed = await program.profile(self._method)
        except DeviceLostError:
            raise
        except DeviceError as error:
            self._browser.show(html={"kernels": h("p", str(error), class_="notice notice-warn")})
            self._tell("The kernels of this method cannot be timed", "bad")
            return
        self._browser.show(html={"kernels": kernels_view(kernel_times(timed))})
        self._tell("Every kernel is timed")

    # ---- drawing

    def _tell(self, line: str, mood: str = "good") -> None:
        tell(self._browser, line, mood)

    def on_dismiss(self, message: Message) -> None:
        self._browser.show(html={"error": ""})

    def _show_error(self, error: Exception, doing: str) -> None:
        actions = {}
        if any(isinstance(cause, DeviceLostError) for cause in causes(error)):
            loaded = self._opened is not None and self._opened.program is not None
            actions = {"recover": "Rebuild the program"} if loaded else {"reload": "Open it again"}
        box = error_view(error, doing, actions)
        self._browser.show(html={"error": box}, reveal="error")
        self._tell(f"{type(error).__name__}: see the message", "bad")

    def _show_file(self) -> None:
        opened = self._opened
        if opened is None:
            return
        limits = self._adapter.limits if self._adapter is not None else {}
        card = file_card(
            opened.source.name,
            opened.source.size,
            opened.methods,
            self._method,
            limits,
            opened.constant_values,
            self._placed(opened),
            folded=self._narrow,
        )
        self._browser.show(html={"file": card})

    def _placed(self, opened: Opened) -> dict[str, Placed]:
        """Operator -> where it runs; the slowest place counts if there are several."""
        rank = {"alias": 0, "gpu": 1, "host": 2}
        runs = max(opened.runs[self._method], 1)
        placed: dict[str, Placed] = {}
        for row in opened.program.report if opened.program is not None else ():
            known = placed.get(row.op, Placed("alias"))
            if row.method == self._method and rank[row.where] >= rank[known.where]:
                placed[row.op] = Placed(row.where, row.host_ms / runs)
        return placed

    def _show_run(self) -> None:
        if self._opened is None or self._opened.program is None:
            return
        adapter = self._adapter
        controls = run_card(
            running=self._runner.busy,
            why_not="" if self._method else "This file has constant methods only: nothing to run.",
            repeats=self._repeats,
            devices=_DEVICE_NAMES if adapter is not None else {"numpy": _DEVICE_NAMES["numpy"]},
            device=self._device,
            has_outputs=bool(self._outputs),
            can_profile=self._device == "webgpu"
            and adapter is not None
            and "timestamp-query" in adapter.features,
        )
        self._browser.show(html={"run-controls": controls})
        self._show_timing()

    def _show_timing(self) -> None:
        if self._opened is None or self._opened.program is None:
            return
        program = self._opened.program
        strip = timing_strip(self._runner.timing, self._runner.busy)
        kind = _DEVICE_NAMES.get(program.device_info.kind, program.device_info.kind)
        self._browser.show(html={"timing": strip, "stats": stats_strip(program.stats, kind)})


def _value_text(value: Any) -> str:
    """The value of a constant method, short."""
    array = Output(0, "", value).array
    if array.size == 1:
        return number_text(array.reshape(-1)[0].item())
    return f"{array.dtype.name} · {shape_text(array.shape)}"
