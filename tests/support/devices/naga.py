"""Pipelines compiled by naga, Firefox's compiler, through wgpu on any adapter.

naga may panic, which ends the process, or never come back. So a process of its own makes the
pipelines and names each before it begins; if it ends too early, another is started for the rest.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Spec = dict[str, Any]  # label, code, bindings and overrides, as JSON has them

PROCESSES = 2
SECONDS = 60.0  # for one pipeline, or to find an adapter; the slowest takes 1 s on an idle machine
READY, BEGUN, MADE, REFUSED, LEFT_OUT = "ready", "begun", "made", "refused", "left out"
_TYPES = {"read": "read-only-storage", "write": "storage", "uniform": "uniform"}


class NoAdapterError(Exception):
    """No adapter for which wgpu can compile pipelines."""


@dataclass
class Outcome:
    """Counts of compiled specs and, by reason, of skipped ones; failures with their messages."""

    made: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def note(self, word: str, spec: Spec, text: str) -> None:
        if word == MADE:
            self.made += 1
        elif word == LEFT_OUT:
            self.left_out[text] += 1
        elif word == REFUSED:
            self.fail(spec, text)

    def fail(self, spec: Spec, reason: str) -> None:
        self.failed.append(f"{spec['label']} with {dict(spec['overrides'])}: {reason}")


def make_all(specs: Sequence[Spec], seconds: float = SECONDS) -> Outcome:
    """Compile all specs in several processes; raises NoAdapterError."""
    with TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as threads:
        path = Path(folder, "specs.json")
        path.write_text(json.dumps(specs), encoding="utf-8")
        codes = {code: i for i, code in enumerate(dict.fromkeys(spec["code"] for spec in specs))}
        shares: list[list[int]] = [[] for _ in range(PROCESSES)]
        for number, spec in enumerate(specs):  # specs of one module go to one process
            shares[codes[spec["code"]] % PROCESSES].append(number)
        outcomes = threads.map(lambda share: _make_share(path, specs, share, seconds), shares)
        total = Outcome()
        for outcome in outcomes:
            total.made += outcome.made
            total.failed += outcome.failed
            total.left_out += outcome.left_out
        return total


def _make_share(path: Path, specs: Sequence[Spec], share: list[int], seconds: float) -> Outcome:
    outcome = Outcome()
    while share:
        with _Child(path, share, seconds) as child:
            for word, number, text in child.reports():
                outcome.note(word, specs[number], text)
                share = share[share.index(number) + (word != BEGUN) :]
            if share:  # it ended early
                outcome.fail(specs[share[0]], child.why_ended())
                share = share[1:]
    return outcome


class _Child:
    """A process that compiles pipelines, as long as each takes less than `seconds`."""

    def __init__(self, path: Path, share: Iterable[int], seconds: float) -> None:
        self._seconds = seconds
        self._late = self._ready = False
        self._errors = path.with_name(f"errors {time.monotonic_ns()}")
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(path), ",".join(map(str, share))],
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def reports(self) -> Iterable[tuple[str, int, str]]:
        """Yield its answer for each pipeline, until it ends or is late."""
        pipe, rest = self._process.stdout, b""
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while True:
                if not selector.select(self._seconds):
                    self._late = True
                    return
                data = pipe.read1(1 << 16)  # type: ignore[attr-defined]
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for word, number, text in map(json.loads, lines):
                    if word == READY:
                        self._ready = True
                    else:
                        yield word, number, text
        if not self._ready:
            raise NoAdapterError(self._last_words())

    def why_ended(self) -> str:
        if self._late:
            return f"not made within {self._seconds:.0f} s"
        return f"the compiler gave up ({self._process.wait()}): {self._last_words()}"

    def _last_words(self) -> str:
        """Read its standard error, without the stack."""
        text = self._errors.read_text(encoding="utf-8", errors="replace")
        return text.partition("stack backtrace")[0].strip()


def _main(path: str, numbers: str) -> None:
    import wgpu

    specs = json.loads(Path(path).read_text(encoding="utf-8"))
    adapter = wgpu.gpu.request_adapter_sync()
    if adapter.info["backend_type"] == "OpenGL":  # browsers do not use it for WebGPU
        sys.exit("wgpu finds no adapter but OpenGL's; Debian's mesa-vulkan-drivers has one")
    names = ("max-storage-buffers-per-shader-stage", "max-compute-workgroup-storage-size")
    device = adapter.request_device_sync(
        required_features=sorted({"shader-f16"} & adapter.features),
        required_limits={name: adapter.limits[name] for name in names},
    )
    module_of = cache(lambda code: device.create_shader_module(code=code))
    _say(READY, 0)
    for number in map(int, numbers.split(",")):
        if why := _why_not(specs[number], adapter.features):
            _say(LEFT_OUT, number, why)
            continue
        _say(BEGUN, number)
        try:
            _make(device, specs[number], module_of)
        except wgpu.GPUError as error:
            _say(REFUSED, number, str(error))
        else:
            _say(MADE, number)


def _why_not(spec: Spec, features: set[str]) -> str | None:
    if "enable subgroups;" in spec["code"]:
        return "naga has no subgroups"
    if "enable f16;" in spec["code"] and "shader-f16" not in features:
        return "the adapter has no shader-f16"
    return None


def _make(device: Any, spec: Spec, module_of: Callable[[str], Any]) -> None:
    entries = [
        {"binding": binding, "visibility": "COMPUTE", "buffer": {"type": _TYPES[use]}}
        for binding, use in enumerate(spec["bindings"])
    ]
    group = device.create_bind_group_layout(entries=entries)
    stage = {
        "module": module_of(spec["code"]),
        "entry_point": "main",
        "constants": {name: float(value) for name, value in spec["overrides"]},
    }
    layout = device.create_pipeline_layout(bind_group_layouts=[group])
    device.create_compute_pipeline(layout=layout, compute=stage)


def _say(word: str, number: int, text: str = "") -> None:
    print(json.dumps([word, number, text]), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
