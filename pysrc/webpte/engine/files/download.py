"""Limits of downloads, and a handle to pause them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Protocol

from webpte.errors import InputError

Progress = Callable[[str, int, int], None]  # stage, done, total


class Control(Protocol):
    """The browser's side of a download."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Download:
    """Limits of a download, and a handle to pause it.

        download = webpte.Download(stall=10)
        loading = asyncio.ensure_future(webpte.load(url, keep=True, download=download))
        download.pause()
        download.resume()
        loading.cancel()  # at once; the next load with `keep` continues from here

    A request that fails is made again from the byte where it stopped, after a pause that grows from
    half a second to 20 seconds. After `attempts` failures without a byte in between, the download
    fails.

    attempts  tries of a request, at least 1
    stall     seconds without a byte, after which a request counts as failed
    offline   seconds to wait for a network, or for a server that asks to come back later
    """

    def __init__(self, *, attempts: int = 8, stall: float = 30, offline: float = 300) -> None:
        if attempts < 1:
            raise InputError(f"a download needs at least 1 attempt, not {attempts}")
        for name, seconds in (("stall", stall), ("offline", offline)):
            if not (seconds > 0 and math.isfinite(seconds)):
                raise InputError(f"{name} must be a number of seconds above 0, not {seconds}")
        self.attempts = attempts
        self.stall = stall
        self.offline = offline
        self._controls: list[Control] = []
        self._paused = False

    @property
    def paused(self) -> bool:
        """Whether the download is paused."""
        return self._paused

    def pause(self) -> None:
        """End the current requests; `resume` continues them where they stopped."""
        self._paused = True
        for control in self._controls:
            control.pause()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._paused = False
        for control in self._controls:
            control.resume()

    def attach(self, control: Control) -> None:
        """Attach the control of a file; it is paused if this download is."""
        self._controls.append(control)
        if self._paused:
            control.pause()

    def limits(self) -> str:
        """Return the limits as JSON, for the browser."""
        return json.dumps({"attempts": self.attempts, "stall": self.stall, "offline": self.offline})
