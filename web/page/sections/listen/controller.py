"""The microphone as a stream: each part of the sound is answered, and a curve scrolls with it.

`listen.js` holds the device and draws the curve. It sends the samples that came when Python asks
for more, so however slow the program is, nothing queues up here.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

import numpy as np

from page.browser import Message
from page.core.session import Session
from page.core.sound_stream import feeds_of
from page.core.state import AppState
from page.core.throttle import Throttle
from page.sections.listen.live_sound import LiveSound, curve_output
from page.shared.html.units import plural
from page.shared.inputs.inputs import TensorInput


class ListenController:
    def __init__(self, state: AppState) -> None:
        self._state = state
        self._parts: asyncio.Queue[np.ndarray | None] | None = None  # None ends the stream

    async def on_listen_open(self, message: Message) -> None:
        """Answer the microphone of an input until it is closed."""
        index = int(message["input"])
        session = self._state.idle_session()
        state = session.inputs[index] if session and index < len(session.inputs) else None
        problem = session.problem if session is not None else None
        if session is None or not isinstance(state, TensorInput) or state.sound is None:
            self._stop(index)
            return
        if problem is not None and problem is not state:
            self._state.tell(f"{problem.name} is not ready: {problem.error}", "bad")
            self._stop(index)
            return
        card = session.source.card
        feeds = feeds_of(session.inputs, card.outputs if card is not None else ())
        live = LiveSound(state, [one.array() for one in session.inputs], feeds)
        self._parts = asyncio.Queue()
        self._state.show(error="")
        self._state.tell("Listening", "busy")
        work = self._listen(session, live, self._parts)
        try:
            await self._state.do(session, work, "listening", at_once=True)
        finally:
            self._parts = None
            self._stop(index)

    def on_listen_part(self, message: Message) -> None:
        """Take the samples that came since the last part."""
        if self._parts is not None:
            self._parts.put_nowait(np.frombuffer(bytes(message["samples"]), np.float32))

    def on_listen_close(self, message: Message) -> None:
        if self._parts is not None:
            self._parts.put_nowait(None)

    def _stop(self, index: int) -> None:
        self._state.browser.show(listen={"input": index, "ends": True})

    async def _listen(
        self, session: Session, live: LiveSound, parts: asyncio.Queue[np.ndarray | None]
    ) -> None:
        method, rate = session.method, live.state.sound_settings.rate
        infos, card = session.methods[method].outputs, session.source.card
        told = card.outputs if card is not None else ()
        output = curve_output(live, [one.hidden for one in told], len(infos))
        named = told[output].name if output < len(told) else ""
        name, labels = named or infos[output].name, session.labels.get(output, ())
        ask = {"input": live.state.index, "name": name, "wanted": live.wanted}
        self._state.browser.show(listen=ask)
        frames, began, throttle = 0, perf_counter(), Throttle()
        try:
            while (part := await parts.get()) is not None:
                live.add(part)
                values = []
                while (arrays := live.next_call()) is not None:
                    outputs = await session.program.run(method, *arrays)
                    session.count_run(method, arrays)
                    values += live.answers(outputs, labels, output, rate)
                    await asyncio.sleep(0)  # handles messages: on NumPy a run never awaits
                frames += len(values)
                speed = frames / max(perf_counter() - began, 1e-3)
                self._state.browser.show(
                    listen={
                        **ask,
                        "wanted": live.wanted,
                        "values": [[one.seconds, one.value] for one in values],
                        "text": values[-1].text if values else "",
                        "speed": speed,
                    }
                )
                if values and throttle.ready():
                    line = f"Listening: {name} {values[-1].text}, {speed:.1f} frames/s"
                    self._state.tell(line, "busy")
        except asyncio.CancelledError:
            pass
        seconds = perf_counter() - began
        self._state.tell(f"Listened: {plural(frames, 'frame')} in {seconds:.1f} s")
