"""What happens when: the page's controller, with the browser behind a small seam.

A message from the page names an act; the method `on_<act>` does it. Nothing here imports the
browser, so the whole page can be driven in CPython against the NumPy device.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

from page.compare import compare
from page.file_view import file_card
from page.gpu_view import adapter_banner, no_gpu_banner, waiting_banner
from page.input_view import (
    Timing,
    input_body,
    input_preview,
    inputs_card,
    run_card,
    timing_strip,
)
from page.inputs import Input, ScalarInput, TensorInput, inputs_of
from page.kernel_view import kernel_times, kernels_view
from page.markup import h
from page.npy import NpyError, read_npy, write_npy
from page.output_view import Output, comparison_view, outputs_card, stats_strip
from page.status_view import error_view, progress_view
from page.tensors import values_text
from page.units import ms_text, number_text, shape_text
from webpte import DeviceInfo, MethodInfo, Program, TensorInfo

Message = Mapping[str, Any]
Progress = Callable[[str, int, int], None]

_REDRAW_SECONDS = 0.08  # how often a running figure is drawn again
_ADAPTER_SECONDS = 15
_MOST_REPEATS = 10_000
_DEVICE_NAMES = {"webgpu": "WebGPU", "numpy": "NumPy (CPU)"}


@dataclass(frozen=True)
class Source:
    """A file: what it is called, how large it is, and what the engine takes it as."""

    name: str
    size: int
    data: Any
    extra: tuple[Any, ...] = ()  # the .ptd files that belong to it


class Browser(Protocol):
    """All that the page wants from the browser."""

    def show(self, **changes: object) -> None:
        """Change the page: html, text, hidden, state, reveal, copy or download."""

    async def adapter(self) -> DeviceInfo | str:
        """The adapter, or why there is none: "missing" or "no adapter"."""

    def source(self, file: Any) -> Source: ...

    async def fetch(self, url: str, progress: Progress) -> Source: ...

    async def read(self, file: Any) -> bytes: ...

    def download_url(self, data: bytes) -> str: ...


@dataclass
class Opened:
    """The file on the page, and the program made of it once that worked."""

    source: Source
    methods: Mapping[str, MethodInfo]
    program: Program | None = None
    constant_values: dict[str, str] = field(default_factory=dict)


class App:
    def __init__(self, browser: Browser, engine: Any) -> None:
        self._browser = browser
        self._engine = engine
        self._adapter: DeviceInfo | None = None
        self._device = "webgpu"
        self._opened: Opened | None = None
        self._method = ""
        self._inputs: list[Input] = []
        self._outputs: list[Output] = []
        self._ran_with: list[Any] = []
        self._timing = Timing()
        self._repeats = 20
        self._running: asyncio.Task[None] | None = None
        self._cancelled = False
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
        try:
            handler = getattr(self, f"on_{act.replace('-', '_')}", None)
            if handler is None:
                raise ValueError(f"the page sent {act!r}, which nothing handles")
            result = handler(message)
            if result is not None:
                await result
        except Exception as error:
            self._show_error(error, f"while doing “{act}”")

    async def on_hello(self, message: Message) -> None:
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

    async def on_device(self, message: Message) -> None:
        self._device = str(message["value"])
        await self.on_reload(message)

    async def on_close(self, message: Message) -> None:
        self._turn += 1
        await self._clear()
        self._browser.show(hidden={"welcome": False})
        self._tell("Closed")

    async def _clear(self) -> None:
        await self._stop()
        if self._opened is not None and self._opened.program is not None:
            self._opened.program.close()
        self._opened = None
        self._inputs, self._outputs, self._ran_with = [], [], []
        sections = (
            "error", "progress", "file", "inputs", "timing", "stats", "kernels", "outputs"
        )  # fmt: skip
        self._browser.show(html=dict.fromkeys(sections, ""), hidden={"run": True})

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
            source.data,
            data=source.extra,
            device=self._device,
            progress=progress,
            name=name,
        )
        if turn != self._turn:
            program.close()
            return
        opened.program = program
        spent = 1000 * (perf_counter() - started)
        self._timing = Timing(load=spent, stages=program.stats.load_ms)
        self._browser.show(html={"progress": ""})
        self._tell(f"{name} is loaded, {ms_text(spent)}")
        self._choose(self._method)
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

    # ---- method and inputs

    async def on_method(self, message: Message) -> None:
        await self._stop()
        self._choose(str(message["name"]))

    def _choose(self, method: str) -> None:
        opened = self._opened
        if opened is None:
            return
        self._method = method
        info = opened.methods.get(method)
        self._inputs = inputs_of(info.inputs) if info is not None else []
        self._outputs, self._ran_with = [], []
        self._timing = Timing(load=self._timing.load, stages=self._timing.stages)
        self._show_file()
        self._browser.show(
            html={
                "inputs": inputs_card(self._inputs) if info else "",
                "outputs": "",
                "kernels": "",
            },
            hidden={"run": False},
        )
        self._show_run()

    def _tensor(self, message: Message) -> TensorInput:
        state = self._inputs[int(message["input"])]
        if not isinstance(state, TensorInput):
            raise TypeError(f"input {state.index} is not a tensor")
        return state

    def on_fill(self, message: Message) -> None:
        state = self._tensor(message)
        if message["value"] == "file":
            state.error = "Choose a .npy file with “Load .npy”, or drop one onto this input."
            self._show_preview(state)
            return
        state.set_fill(str(message["value"]))
        self._show_input(state)

    def on_dim(self, message: Message) -> None:
        state = self._tensor(message)
        was_file = state.fill == "file"
        state.set_dim(int(message["dim"]), str(message["value"]))
        if was_file and state.fill != "file":
            self._show_input(state)
        else:
            self._show_preview(state)

    def on_below(self, message: Message) -> None:
        state = self._tensor(message)
        state.set_below(str(message["value"]))
        self._show_preview(state)

    def on_reroll(self, message: Message) -> None:
        state = self._tensor(message)
        state.reroll()
        self._show_preview(state)

    def on_scalar(self, message: Message) -> None:
        state = self._inputs[int(message["input"])]
        if isinstance(state, ScalarInput):
            state.set_value(str(message["value"]))
            self._show_preview(state)

    async def on_npy(self, message: Message) -> None:
        state = self._tensor(message)
        file = message["files"][0]
        try:
            state.take_file(await self._browser.read(file), self._browser.source(file).name)
        except NpyError as error:
            state.error = str(error)
            self._show_preview(state)
            return
        self._show_input(state)

    # ---- running

    async def on_run(self, message: Message) -> None:
        if self._running is not None or self._opened is None or self._opened.program is None:
            return
        try:
            wanted = int(message["fields"].get("repeats", self._repeats))
        except ValueError:
            wanted = self._repeats
        self._repeats = min(max(wanted, 0), _MOST_REPEATS)
        problem = next((state for state in self._inputs if state.error), None)
        if problem is not None:
            self._tell(f"{problem.name} is not ready: {problem.error}", "bad")
            self._browser.show(reveal=f"input-{problem.index}")
            return
        self._cancelled = False
        self._running = asyncio.ensure_future(self._run(self._opened.program))
        try:
            await self._running
        finally:
            self._running = None
            self._show_run()

    def on_cancel(self, message: Message) -> None:
        self._cancelled = True
        self._tell("Stopping after this run", "busy")

    async def _stop(self) -> None:
        """Ends a run, if there is one: it stops between two repeats."""
        self._cancelled = True
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _run(self, program: Program) -> None:
        known = self._timing
        self._timing = Timing(load=known.load, stages=known.stages, wanted=self._repeats)
        self._browser.show(html={"error": ""})
        self._tell("Running", "busy")
        self._show_run()
        arrays = [state.array() for state in self._inputs]
        method = self._method
        try:
            started = perf_counter()
            values = await program.run(method, *arrays)
            self._timing.first = 1000 * (perf_counter() - started)
        except Exception as error:
            self._show_error(error, f"running {method}")
            return
        self._ran_with = arrays
        self._show_outputs(method, values)
        await self._repeat(program, method, arrays)

    async def _repeat(self, program: Program, method: str, arrays: list[Any]) -> None:
        timing = self._timing
        drawn = 0.0
        for _ in range(self._repeats):
            # Lets messages in: on NumPy a run never waits for anything.
            await asyncio.sleep(0)
            if self._cancelled:
                break
            started = perf_counter()
            try:
                await program.run(method, *arrays)
            except Exception as error:
                self._show_error(error, f"repeating {method}")
                break
            now = perf_counter()
            timing.repeats.append(1000 * (now - started))
            if now - drawn > _REDRAW_SECONDS:
                drawn = now
                self._show_timing()
        told = [f"first run {ms_text(timing.first or 0)}"]
        if timing.median is not None:
            told.append(f"then {ms_text(timing.median)}, median of {len(timing.repeats)}")
        stopped = " (stopped early)" if len(timing.repeats) < self._repeats else ""
        self._tell(f"Done: {', '.join(told)}{stopped}")

    # ---- outputs

    def _output(self, message: Message) -> Output:
        return self._outputs[int(message["output"])]

    def on_copy(self, message: Message) -> None:
        output = self._output(message)
        self._browser.show(
            copy={"text": values_text(output.array), "done": f"{output.name} is copied"}
        )

    def on_download(self, message: Message) -> None:
        output = self._output(message)
        name = re.sub(r"[^\w.-]+", "_", output.name).strip("._") or f"output{output.index}"
        url = self._browser.download_url(write_npy(output.array))
        self._browser.show(download={"url": url, "name": f"{name}.npy"})

    async def on_compare(self, message: Message) -> None:
        output = self._output(message)
        file = message["files"][0]
        name = self._browser.source(file).name
        where = f"output-{output.index}-compare"
        try:
            expected = read_npy(await self._browser.read(file), name)
        except NpyError as error:
            self._browser.show(html={where: h("p", str(error), class_="notice notice-bad")})
            return
        self._browser.show(html={where: comparison_view(compare(output.array, expected, name))})

    async def on_check(self, message: Message) -> None:
        """The same inputs on the NumPy reference, and every output against it."""
        opened, method = self._opened, self._method
        if opened is None or not self._outputs or self._running is not None:
            return
        self._tell("Computing on NumPy", "busy")
        source = opened.source
        reference = await self._engine.load(source.data, data=source.extra, device="numpy")
        try:
            expected = await reference.run(method, *self._ran_with)
        finally:
            reference.close()
        if opened is not self._opened or method != self._method:
            return
        results = [
            compare(output.array, Output(0, "", value).array, "NumPy")
            for output, value in zip(self._outputs, expected, strict=True)
        ]
        wrong = sum(not result.agrees for result in results)
        told = (
            "Every output agrees with NumPy" if not wrong else f"{wrong} of {len(results)} differ"
        )
        self._browser.show(
            html={
                f"output-{output.index}-compare": comparison_view(result)
                for output, result in zip(self._outputs, results, strict=True)
            }
        )
        self._tell(told, "bad" if wrong else "good")

    # ---- drawing

    def _tell(self, line: str, mood: str = "good") -> None:
        """The one line that says what goes on; its dot is green, amber or red."""
        self._browser.show(text={"status": line}, mood=mood)

    async def on_profile(self, message: Message) -> None:
        opened, method = self._opened, self._method
        if opened is None or opened.program is None or self._running is not None:
            return
        self._tell("Timing the kernels", "busy")
        await opened.program.profile(method)  # once for nothing: the first has one-time costs
        timed = await opened.program.profile(method)
        if opened is self._opened and method == self._method:
            self._browser.show(html={"kernels": kernels_view(kernel_times(timed))})
            self._tell("Every kernel is timed")

    def on_dismiss(self, message: Message) -> None:
        self._browser.show(html={"error": ""})

    def _show_error(self, error: Exception, doing: str) -> None:
        lost = type(error).__name__ == "DeviceLostError"
        self._browser.show(
            html={"error": error_view(error, doing, can_reload=lost)},
            reveal="error",
        )
        self._tell(f"{type(error).__name__}: see the message", "bad")
        if self._opened is not None:
            self._show_run()

    def _show_file(self) -> None:
        opened = self._opened
        if opened is None:
            return
        card = file_card(
            opened.source.name,
            opened.source.size,
            opened.methods,
            self._method,
            self._adapter.limits if self._adapter else {},
            opened.constant_values,
            self._placed(),
        )
        self._browser.show(html={"file": card})

    def _placed(self) -> dict[str, str]:
        """Operator -> where it runs; the slowest place counts if there are several."""
        program = self._opened.program if self._opened is not None else None
        rank = {"alias": 0, "gpu": 1, "host": 2}
        placed: dict[str, str] = {}
        for row in program.report if program is not None else ():
            if row.method == self._method and rank[row.where] >= rank[placed.get(row.op, "alias")]:
                placed[row.op] = row.where
        return placed

    def _show_input(self, state: Input) -> None:
        self._browser.show(html={f"input-{state.index}": input_body(state)})

    def _show_preview(self, state: Input) -> None:
        self._browser.show(html={f"input-{state.index}-preview": input_preview(state)})

    def _show_run(self) -> None:
        opened = self._opened
        if opened is None:
            return
        why_not = "" if opened.program is not None else "The program is not loaded."
        if opened.program is not None and not self._method:
            why_not = "This file has constant methods only: there is nothing to run."
        controls = run_card(
            running=self._running is not None,
            ready=not why_not,
            why_not=why_not,
            repeats=self._repeats,
            devices=_DEVICE_NAMES if self._adapter is not None else {"numpy": "NumPy (CPU)"},
            device=self._device,
            has_outputs=bool(self._outputs),
            can_profile=self._device == "webgpu"
            and self._adapter is not None
            and "timestamp-query" in self._adapter.features,
        )
        self._browser.show(html={"run-controls": controls})
        self._show_timing()

    def _show_timing(self) -> None:
        if self._opened is None or self._opened.program is None:
            return
        program = self._opened.program
        strip = timing_strip(self._timing, self._running is not None)
        kind = _DEVICE_NAMES.get(program.device_info.kind, program.device_info.kind)
        self._browser.show(html={"timing": strip, "stats": stats_strip(program.stats, kind)})

    def _show_outputs(self, method: str, values: Any) -> None:
        opened = self._opened
        if opened is None:
            return
        infos = opened.methods[method].outputs
        names = [info.name for info in infos]
        self._outputs = [
            Output(index, names[index] if index < len(names) else f"output {index}", value)
            for index, value in enumerate(values)
        ]
        self._browser.show(html={"outputs": outputs_card(self._outputs)})
        self._show_timing()


def _value_text(value: Any) -> str:
    """The value of a constant method, short."""
    array = Output(0, "", value).array
    if array.size == 1:
        return number_text(array.reshape(-1)[0].item())
    return f"{array.dtype.name} · {shape_text(array.shape)}"
