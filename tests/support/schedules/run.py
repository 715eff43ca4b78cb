"""Runs a schedule on a given device."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import webpte
from support.decoders.argmax import run_argmax
from support.schedules.check_history import UNKNOWN, Event, History, check_history
from support.schedules.generate import (
    Call,
    Cancel,
    Close,
    Destroy,
    Inject,
    Read,
    Recover,
    Schedule,
    Settle,
    Step,
    Talk,
)
from support.schedules.kinds import KINDS
from support.schedules.talk import Conversation
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceError, DeviceLostError, OutOfMemoryError, WebpteError
from webpte.llm.decode.decoder import decoder_of

ERRORS = {"error": DeviceError, "memory": OutOfMemoryError, "loss": DeviceLostError}
MOST_TURNS = 3000  # of the loop, for everything to end; usually a few dozen are enough
FEW_PLANS = 2  # so that plans are evicted within a schedule

MakeDevice = Callable[[], Awaitable[Any]]


class World:
    """The programs of one schedule while it runs."""

    def __init__(
        self, schedule: Schedule, make_device: MakeDevice, seconds: float | None = None
    ) -> None:
        """Prepare a schedule; `seconds` is the time limit on devices with real time."""
        self.schedule = schedule
        self._seconds = seconds
        self.history = History([KINDS[name] for name in schedule.programs])
        self.programs: list[webpte.Program] = []
        self.devices: list[Any] = []
        self.calls: list[Event] = []
        self.tasks: dict[Event, asyncio.Task[None]] = {}
        self.conversations: dict[tuple[int, int], Conversation] = {}
        self._make_device = make_device
        self._clock = 0

    def tick(self) -> int:
        self._clock += 1
        return self._clock

    async def new_device(self) -> Any:
        if self.schedule.device == "numpy":
            return "numpy"
        device = await self._make_device()
        if device not in self.devices:
            self.devices.append(device)
        return device

    async def run(self) -> list[str]:
        device = await self.new_device()
        for kind in self.history.kinds:
            self.programs.append(
                await webpte.load(kind.file, device=device, strict=kind.strict, name=kind.name)
            )
        for step in self.schedule.steps:
            self._do(step)
            if isinstance(step, Settle):
                await self._settle()
            for _ in range(step.turns):
                await asyncio.sleep(0)
        await self._settle()
        self._close_all()
        for _ in range(3):
            await asyncio.sleep(0)
        for _ in range(MOST_TURNS):  # pipelined steps of a language model that nobody awaits
            if not self._left():
                break
            await asyncio.sleep(0)
        return check_history(self.history) + self._left()

    def _do(self, step: Step) -> None:
        match step:
            case Call():
                self._begin_call(step)
            case Talk():
                self._begin_talk(step)
            case Recover():
                self._begin(self._event(step, step.program), lambda: self._recover(step))
            case Cancel(call=number) if number < len(self.calls):
                task = self.tasks[self.calls[number]]
                self.calls[number].cancelled |= not task.done()
                task.cancel()
            case Close(program=number):
                self._close(number)
            case Destroy(call=number) if number < len(self.calls):
                for tensor in self.calls[number].tensors:
                    self._destroy(tensor)
            case Read(call=number) if number < len(self.calls):
                self._begin_read(step, self.calls[number])
            case Inject(program=number):
                self._inject(step, self._device_of(number))

    def _device_of(self, program: int) -> Any:
        try:
            return self.programs[program].device
        except DeviceError:
            return None

    def _inject(self, step: Inject, device: Any) -> None:
        if not isinstance(device, SimulatedDevice):
            assert step.error == "loss", "nothing else can be ordered from a GPU"
            device.destroy()
            return
        error = ERRORS[step.error]
        device.inject(error, after=step.after, method=step.method, at_result=step.at_result)

    # Steps that take time

    def _event(self, step: Step, program: int, number: int = -1) -> Event:
        event = Event(number, step, program, self.tick(), device=self._device_of(program))
        self.history.events.append(event)
        return event

    def _begin(self, event: Event, work: Callable[[], Awaitable[Any]]) -> None:
        self.tasks[event] = asyncio.ensure_future(self._watched(event, work))

    async def _watched(self, event: Event, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            event.result = await work()
        except asyncio.CancelledError:
            if not event.cancelled:
                self.history.problems.append(f"{event}: cancelled, but not by us")
        except BaseException as error:
            event.error = error
        event.ended = self.tick()
        if event.adopted is not None:
            event.adopted.destroy()

    async def _recover(self, step: Recover) -> str:
        device = await self.new_device() if step.fresh else None
        await self.programs[step.program].recover(device)
        return "recovered"

    def _begin_call(self, step: Call) -> None:
        event = self._event(step, step.program, len(self.calls))
        self.calls.append(event)
        entry = KINDS[self.schedule.programs[step.program]].entries[step.method]
        handed = self._handed(step)
        event.handed, value = handed if handed else (None, None)
        event.arrays = entry.make(step.spec, value)
        given: list[Any] = spoiled(event.arrays, step.bad)
        if event.handed is not None:
            given[0] = self._adopted(event) if step.native else event.handed
        self._begin(event, lambda: self._call(event, step, given))

    def _begin_talk(self, step: Talk) -> None:
        event = self._event(step, step.program, len(self.calls))
        self.calls.append(event)
        key = step.program, step.generator
        if key not in self.conversations:
            program = self.programs[step.program]
            self.conversations[key] = Conversation(program, self.history, self.tick)
        self._begin(event, lambda: self.conversations[key].run(event, step))

    def _handed(self, step: Call) -> tuple[Any, np.ndarray] | None:
        """Return a tensor on the GPU and its value, if both are known by now."""
        if step.handed is None or step.handed[0] >= len(self.calls):
            return None
        event, at = self.calls[step.handed[0]], step.handed[1]
        if len(event.tensors) <= at or event.result in (None, UNKNOWN):
            return None
        value = event.result[at]
        return None if value is UNKNOWN else (event.tensors[at], value)

    def _adopted(self, event: Event) -> Any:
        """Return a tensor's buffer, like one of other code; the tensor, if the buffer is gone."""
        tensor = event.handed
        try:
            adopted = webpte.GpuTensor.from_buffer(
                tensor.buffer, tensor.dtype, tensor.shape, tensor.device
            )
        except WebpteError:
            return tensor
        event.adopted = adopted
        return adopted

    async def _call(self, event: Event, step: Call, given: list[Any]) -> Any:
        program = self.programs[step.program]
        if step.how == "unread":
            await decoder_of(program, step.method).run_unread(given)
            return []
        if step.how in ("profile", "again"):
            return await program.profile(step.method, *(given if step.how == "profile" else ()))
        if step.how == "tune":
            return await program.tune(step.method, *given)
        if step.how == "argmax":
            return [await run_argmax(program, step.method, *given)]
        output = "gpu" if step.how == "gpu" else "numpy"
        results = await program.run(step.method, *given, output=output)
        if step.how == "run":
            return list(results)
        event.ended = self.tick()  # reading is not a part of the call
        event.tensors = list(results)
        if step.program in self.history.closed:
            self._check_destroyed(event)
        return [await self._value(tensor) for tensor in results]

    def _check_destroyed(self, event: Event) -> None:
        if not all(tensor.destroyed for tensor in event.tensors):
            self.history.problems.append(f"{event}: its GPU tensors outlive its program")

    async def _value(self, tensor: Any) -> Any:
        try:
            return await tensor.numpy()
        except WebpteError:
            return UNKNOWN

    def _begin_read(self, step: Read, made: Event) -> None:
        if made.tensors and isinstance(made.result, list):
            event = self._event(step, made.program)
            event.handed = made.tensors[0]
            self._begin(event, lambda: self._read(made))

    async def _read(self, made: Event) -> None:
        for tensor, value in zip(made.tensors, list(made.result), strict=True):
            again = await tensor.numpy()
            if value is not UNKNOWN and not np.array_equal(again, value):
                self.history.problems.append(f"{made}: its GPU tensor has changed to {again}")

    # The end

    def _destroy(self, tensor: Any) -> None:
        self.history.destroyed.setdefault(id(tensor), self.tick())
        tensor.destroy()

    def _close(self, number: int) -> None:
        self.history.closed.setdefault(number, self.tick())
        for event in self.calls:
            if event.program == number:
                for tensor in event.tensors:
                    self.history.destroyed.setdefault(id(tensor), self.tick())
        self.programs[number].close()

    async def _settle(self) -> None:
        if self._seconds is not None and self.tasks:
            await asyncio.wait(self.tasks.values(), timeout=self._seconds)
        for _ in range(MOST_TURNS):
            if all(task.done() for task in self.tasks.values()):
                return
            await asyncio.sleep(0)
        for event, task in self.tasks.items():
            if not task.done():
                self.history.problems.append(f"{event}: does not end")
                event.cancelled = True
                task.cancel()

    def _close_all(self) -> None:
        for number in range(len(self.programs)):
            try:
                self._close(number)
            except Exception as error:
                self.history.problems.append(f"closing program {number}: {error!r}")
        for event in self.calls:
            self._check_destroyed(event)
            for tensor in (*event.tensors, event.adopted):
                if tensor is not None:
                    tensor.destroy()

    def _left(self) -> list[str]:
        problems = []
        for number, device in enumerate(self.devices):
            left = {name: n for name, n in device.counts().items() if n and name != "pipelines"}
            if left and not device.lost:
                problems.append(f"left on device {number}: {left}")
        return problems


def spoiled(arrays: list[np.ndarray], bad: str) -> list[Any]:
    """Return inputs of which the first is wrong."""
    if bad == "count":
        return list(arrays[1:])
    if bad == "shape":
        return [np.zeros((99, *arrays[0].shape[1:]), arrays[0].dtype), *arrays[1:]]
    if bad == "dtype":
        return [arrays[0].astype(np.complex64), *arrays[1:]]
    return list(arrays)


@contextmanager
def in_runtime(name: str, value: Any) -> Iterator[None]:
    """A patch: `name` has another value in all modules of the runtime."""
    packages = ("webpte.engine.", "webpte.program", "webpte.loading", "webpte.llm.decode.")
    modules = [m for key, m in sys.modules.items() if key.startswith(packages)]
    users = [module for module in modules if hasattr(module, name)]
    assert users, name
    with ExitStack() as stack:
        for module in users:
            stack.enter_context(patch.object(module, name, value))
        yield
