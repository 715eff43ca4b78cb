"""A watchdog for pages: it gives up on a hanging page, but not on a computing page.

A page may compile or compute for minutes on a slow machine; a page that waits for an event that
never comes hangs. The CPU time of the browser's processes distinguishes the two: Linux lists in
`/proc` how long each process ran, or waited for a busy processor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# A page may compute without reporting progress this many times longer than it may idle.
BUSY_FACTOR = 10
# CPU time, as a share of elapsed time, that counts as activity. The timers of an idle page use
# about 0.01, a busy page 1.
_BUSY_SHARE = 0.1
# The processes that run pages and shaders; activity of other processes does not count. Firefox runs
# shaders in the browser's own process on Linux.
_PAGES = b"--type=renderer"
_FIREFOX = (b"-contentproc", b"--remote-debugging-port=0")
_WORKING = (_PAGES, b"--type=gpu-process", *_FIREFOX)


class BrowserProcesses:
    """The processes of all browsers that this process has started."""

    def __init__(self, root: int | None = None, proc: Path = Path("/proc")) -> None:
        self._root = root or os.getpid()
        self._proc = proc

    def busy_seconds(self) -> float | None:
        """Return the CPU time that the processes used or waited for; None on other systems."""
        pids = self.find(*_WORKING)
        return sum(map(self._busy, pids)) if pids else None

    def kill_pages(self) -> None:
        for pid in self.find(_PAGES):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def memory_text(self) -> str:
        """Describe the living processes, their memory, and the machine's free memory.

        The text explains a crash of a page: a process is missing, or memory ran out.
        """
        living = [
            f"{self._kind(pid)} {size}"
            for pid in self._family()
            if (size := self._status("VmRSS", f"{pid}/status"))
        ]
        left = self._status("MemAvailable", "meminfo")
        killed = self._status("oom_kill", "vmstat")
        return (
            f"processes: {', '.join(living) or 'none'}; "
            f"available memory: {left or 'not known'}; "
            f"killed for lack of memory since the machine started: {killed or 'not known'}"
        )

    def _status(self, name: str, path: str) -> str:
        """Read the value of a `name: value` or `name value` line of a file below /proc."""
        with contextlib.suppress(OSError):
            for line in (self._proc / path).read_text(errors="replace").splitlines():
                key, _, value = line.replace(":", " ", 1).partition(" ")
                if key == name:
                    return " ".join(value.split())
        return ""

    def _kind(self, pid: int) -> str:
        kinds = [word for word in self._command(pid) if word.startswith(b"--type=")]
        return kinds[0].removeprefix(b"--type=").decode() if kinds else "browser"

    def find(self, *words: bytes) -> list[int]:
        """Find the processes with any of the words in their command line."""
        return [pid for pid in self._family() if not self._command(pid).isdisjoint(words)]

    def _family(self) -> list[int]:
        """List all processes that this process has started, directly or through others."""
        parents = {}
        for entry in self._proc.glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int(self._stat(int(entry.name))[1])
        return [pid for pid in parents if self._is_ours(pid, parents)]

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid != self._root:
            pid = parents[pid]
        return pid == self._root

    def _command(self, pid: int) -> set[bytes]:
        with contextlib.suppress(OSError):
            # Chromium's own processes have blanks in place of zeros.
            text = (self._proc / str(pid) / "cmdline").read_bytes()
            return set(text.replace(b" ", b"\0").split(b"\0"))
        return set()

    def _stat(self, pid: int) -> list[bytes]:
        """Return the fields from the third on: the second is a name, which may contain blanks."""
        text = (self._proc / str(pid) / "stat").read_bytes()
        return text[text.rindex(b")") + 1 :].split()

    def _busy(self, pid: int) -> float:
        seconds = 0.0
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = self._stat(pid)
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for task in (self._proc / str(pid) / "task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                seconds += int(task.read_text().split()[1]) / 1e9  # waited for a processor
        return seconds


class Watchdog:
    """The decision, from repeated observations of a page, whether to wait longer."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Give up after `seconds` with neither progress nor CPU activity."""
        self._seconds = seconds
        self._enough = _BUSY_SHARE * seconds
        self._clock = clock
        self._moves = 0
        self._busy: float | None = None
        self._moved = self._active = clock()

    def observe(self, moves: int, busy: float | None) -> str | None:
        """Return the reason to give up, or None.

        moves  reports of progress so far
        busy   seconds of CPU activity of the browser so far, or None if not known
        """
        now = self._clock()
        if moves != self._moves:
            self._moves, self._moved = moves, now
            self._active, self._busy = now, busy
        elif busy is None or self._busy is None or busy - self._busy >= self._enough:
            self._active, self._busy = now, busy
        elif busy < self._busy:  # a thread has ended, so its time is no longer counted
            self._busy = busy
        if now - self._active >= self._seconds:
            return f"no progress and no CPU activity for {self._seconds:g} s"
        if now - self._moved >= BUSY_FACTOR * self._seconds:
            return f"no progress for {BUSY_FACTOR * self._seconds:g} s, though the browser is busy"
        return None


@contextmanager
def alarm(seconds: float, action: Callable[[], None]) -> Iterator[threading.Event]:
    """Call `action` in another thread if the body takes longer; the event is set then."""
    rang = threading.Event()

    def ring() -> None:
        rang.set()
        action()

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield rang
    finally:
        timer.cancel()
