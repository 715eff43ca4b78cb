"""The watchdog: which processes count, their CPU time, and when it gives up on a page."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.harness import limits
from webpte_host.harness.watchdog import BrowserProcesses, Watchdog, alarm

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watch(
    clock: Clock, watchdog: Watchdog, seconds: int, *, moves: int = 0, busy: float = 0.0
) -> str | None:
    """Return the verdict within `seconds`, each with `moves` reports and `busy` CPU seconds."""
    total, work = 0, 0.0
    for _ in range(seconds):
        clock.now += 1
        total, work = total + moves, work + busy
        if said := watchdog.observe(total, work):
            return said
    return None


def test_an_idle_page_is_given_up(clock: Clock) -> None:
    watchdog = Watchdog(20, clock)
    assert watch(clock, watchdog, 60, busy=0.01) == "no progress and no CPU activity for 20 s"
    assert clock.now == 121  # one more for the first look, which has nothing to compare with


def test_a_page_that_reports_progress_is_waited_for(clock: Clock) -> None:
    assert watch(clock, Watchdog(20, clock), 1000, moves=1) is None


def test_rare_reports_are_enough(clock: Clock) -> None:
    watchdog = Watchdog(20, clock)
    for moves in range(20):
        clock.now += 19
        assert watchdog.observe(moves, 0.0) is None


@pytest.mark.parametrize("busy", [0.2, 1.0, 8.0])
def test_a_page_that_computes_is_waited_for_ten_times_as_long(clock: Clock, busy: float) -> None:
    watchdog = Watchdog(20, clock)
    assert watch(clock, watchdog, 199, busy=busy) is None
    said = "no progress for 200 s, though the browser is busy"
    assert watch(clock, watchdog, 2, busy=busy) == said


def test_a_page_of_unknown_activity_counts_as_busy(clock: Clock) -> None:
    watchdog = Watchdog(20, clock)
    for _ in range(199):
        clock.now += 1
        assert watchdog.observe(0, None) is None
    clock.now += 1
    assert watchdog.observe(0, None) is not None


def test_a_process_that_ends_is_no_activity(clock: Clock) -> None:
    watchdog = Watchdog(20, clock)
    clock.now += 1
    assert watchdog.observe(0, 50.0) is None
    for _ in range(19):
        clock.now += 1
        assert watchdog.observe(0, 3.0) is None
    clock.now += 1
    assert watchdog.observe(0, 3.0) == "no progress and no CPU activity for 20 s"


def write_process(
    proc: Path, pid: int, parent: int, command: str, ticks: int = 0, waited: int = 0
) -> None:
    tasks = proc / str(pid) / "task" / str(pid)
    tasks.mkdir(parents=True)
    rest = f"S {parent} " + "0 " * 9 + f"{ticks} {ticks} 0 0"
    (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) {rest}\n")
    (proc / str(pid) / "cmdline").write_text(command.replace(" ", "\0"))
    (tasks / "schedstat").write_text(f"1 {waited} 7\n")


def test_renderers_and_gpu_processes_below_this_one_count(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    write_process(tmp_path, 1, 0, "init", 10_000)
    write_process(tmp_path, 10, 1, "python", 10_000)
    write_process(tmp_path, 11, 10, "chromium --headless", 10_000)
    write_process(tmp_path, 12, 11, "chromium --type=renderer --lang=en", 100, 500_000_000)
    write_process(tmp_path, 13, 11, "chromium --type=gpu-process", 300, 0)
    write_process(tmp_path, 21, 1, "chromium --type=renderer", 10_000)  # another's
    processes = BrowserProcesses(10, tmp_path)
    assert processes.busy_seconds() == pytest.approx(2 * 400 * TICK + 0.5)
    assert BrowserProcesses(13, tmp_path).busy_seconds() == pytest.approx(2 * 300 * TICK)


def test_memory_of_a_browser_whose_page_crashed(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, "python")
    write_process(tmp_path, 11, 10, "chromium --headless")
    write_process(tmp_path, 12, 11, "chromium --type=gpu-process")
    write_process(tmp_path, 13, 1, "chromium --type=renderer")  # another's
    for pid, size in ((10, 90), (11, 200), (12, 1500), (13, 7)):
        status = f"Name:\tx\nVmPeak:\t 9 kB\nVmRSS:\t  {size} kB\n"
        (tmp_path / str(pid) / "status").write_text(status)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   123456 kB\n")
    (tmp_path / "vmstat").write_text("nr_free_pages 8\noom_kill 2\n")
    assert BrowserProcesses(11, tmp_path).memory_text() == (
        "processes: browser 200 kB, gpu-process 1500 kB; available memory: 123456 kB; "
        "killed for lack of memory since the machine started: 2"
    )
    nowhere = BrowserProcesses(11, tmp_path / "none").memory_text()
    assert nowhere.startswith("processes: none; available memory: not known")


def test_activity_is_unknown_without_a_browser_or_proc(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, "python", 10_000)
    assert BrowserProcesses(10, tmp_path).busy_seconds() is None
    assert BrowserProcesses(10, tmp_path / "none").busy_seconds() is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_a_real_process() -> None:
    """A process that computes and is then killed."""
    command = [sys.executable, "-c", "while True: pass", "--type=renderer"]
    process = subprocess.Popen(command)
    try:
        processes = BrowserProcesses()
        deadline = time.monotonic() + limits.PROCESS_SECONDS
        while (processes.busy_seconds() or 0) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (processes.busy_seconds() or 0) >= 0.2
        processes.kill_pages()
        assert process.wait(limits.PROCESS_SECONDS) < 0
    finally:
        process.kill()
        process.wait()


def test_an_alarm_rings_only_if_it_takes_too_long() -> None:
    late, never = threading.Event(), threading.Event()
    with alarm(0.01, late.set) as rang:
        assert late.wait(limits.PROCESS_SECONDS)
    assert rang.is_set()
    with alarm(limits.PROCESS_SECONDS, never.set) as rang:
        pass
    assert not rang.is_set()
    assert not never.is_set()
