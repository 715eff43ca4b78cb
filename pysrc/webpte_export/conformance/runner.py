"""Runs each case in a forked child of this process, which has already imported everything.

A child that takes too long or dies costs only its own case. A case with a record from an earlier
run does not run again.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte_export.conformance.capture import CapturedProgram, Recorder
from webpte_export.conformance.parts import Case
from webpte_export.suite_writer import entry_of

# Relative to the largest number in the expected output.
SHARE = 1e-3
# The same where ExecuTorch's runtime gives the output, and PyTorch's is further away.
MAX_SHARE = 0.02


@dataclass(frozen=True)
class Folder:
    """A suite in the making: its programs, and a record per case."""

    path: Path

    def record(self, case: Case) -> Path:
        return self.path / "records" / f"{case.id}.json"

    def write_manifest(self) -> tuple[int, int]:
        """Write the suite's manifest and the list of refusals; return the number of each."""
        entries: list[Any] = []
        refused: list[Any] = []
        for file in sorted((self.path / "records").glob("*.json")):
            record = json.loads(file.read_text(encoding="utf-8"))
            entries += record["entries"]
            if record["refused"] is not None and not record["entries"]:
                refused.append({"case": file.stem, "why": record["refused"]})
        _write(self.path / "manifest.json", entries)
        _write(self.path / "refused.json", refused)
        return len(entries), len(refused)


def export_cases(
    cases: Iterable[Case], folder: Folder, recorder: Recorder, *, jobs: int, seconds: float
) -> None:
    """Export every case without a record, `jobs` at a time, each for at most `seconds`."""
    waiting = list(cases)
    (folder.path / "records").mkdir(parents=True, exist_ok=True)
    todo = [case for case in waiting if not folder.record(case).exists()]
    print(f"{folder.path.name}: {len(waiting)} cases, {len(todo)} to export", flush=True)
    running: dict[int, tuple[Case, float]] = {}
    done = len(waiting) - len(todo)
    while todo or running:
        while todo and len(running) < jobs:
            case = todo.pop(0)
            running[_fork(case, folder, recorder)] = (case, time.monotonic() + seconds)
        for pid, (case, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() < deadline:
                continue
            if not ended:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                _refuse(folder, case, f"took longer than {seconds:g} s")
            elif not folder.record(case).exists():
                _refuse(folder, case, f"the exporter died (status {status})")
            del running[pid]
            done += 1
            _tell(folder, case, done, len(waiting))
        time.sleep(0.02)
    entries, refused = folder.write_manifest()
    print(f"{folder.path.name}: {entries} programs, {refused} cases refused", flush=True)


def _tell(folder: Folder, case: Case, done: int, total: int) -> None:
    record = json.loads(folder.record(case).read_text(encoding="utf-8"))
    count, why = len(record["entries"]), record["refused"]
    message = f"{count} program{'' if count == 1 else 's'}" if count else "lowers no program"
    if why is not None:
        message += f"; refused: {why}"
    print(f"[{done}/{total}] {case.id}: {message[:160]}", flush=True)


def _fork(case: Case, folder: Folder, recorder: Recorder) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        with open(folder.path / "log.txt", "a", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            print(f"=== {case.id}", flush=True)
            export_case(case, folder, recorder)
    finally:
        os._exit(0)  # the parent's resources must not be cleaned up twice
    raise AssertionError("unreachable")


def export_case(case: Case, folder: Folder, recorder: Recorder) -> None:
    """Run a case, and write its programs and its record."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    recorder.start(case.most)
    refused: str | None = None
    try:
        case.run()
    except Exception as error:
        refused = _first_line(error)
    except Recorder.Enough:
        pass
    entries = []
    for number, captured in enumerate(recorder.captured):
        try:
            entries.append(_write_program(folder.path, case, number, captured))
        except Exception as error:  # PyTorch itself does not run it
            refused = refused or _first_line(error)
    _write(folder.record(case), {"entries": entries, "refused": refused})


def _write_program(
    folder: Path, case: Case, number: int, captured: CapturedProgram
) -> dict[str, Any]:
    captured.call_with_example()
    name = case.id if not number else f"{case.id}_{number}"
    (folder / f"{name}.pte").write_bytes(captured.program)
    op, _, rest = name.partition("__")
    share = min(max(SHARE, captured.difference), MAX_SHARE)
    entry = entry_of(folder, f"{name}.pte", op, rest, captured.calls, share)
    entry |= {"equal_nan": True, "expected_from": captured.expected_from}
    if captured.fault is not None:
        entry["runtime"] = captured.fault
    return entry | ({"difference": captured.difference} if captured.difference else {})


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def _refuse(folder: Folder, case: Case, why: str) -> None:
    # Of its programs the second and later have a number; other cases may begin with its id, too.
    own = re.compile(rf"{re.escape(case.id)}(_\d+)?\.\d+\.[a-z]+\d+\.bin")
    for file in folder.path.glob(f"{case.id}*.bin"):
        if own.fullmatch(file.name):
            file.unlink(missing_ok=True)
    _write(folder.record(case), {"entries": [], "refused": why})


def _write(path: Path, content: Any) -> None:
    """Write a file completely or not at all, so that an interrupted run can resume."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    shutil.move(draft, path)
