"""Loads a file: fetches, reads and builds it, as a `Program`."""

from __future__ import annotations

import contextlib
from asyncio import Future
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from webpte.engine.call.call import Clock
from webpte.engine.call.options import Options, applied_to
from webpte.engine.files.detached import detach
from webpte.engine.files.download import Download, Progress
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.devices import NAMES, SHARED, kind_of, shared_device
from webpte.engine.load.join_programs import read_programs
from webpte.engine.load.program_file import Prepare
from webpte.engine.load.supported import check_supported
from webpte.engine.open.hub_name import is_hub
from webpte.engine.open.open_source import keeping
from webpte.engine.run.build import Build
from webpte.errors import DeviceError, WebpteError
from webpte.hub.program_files import open_program_files
from webpte.inspection.forecast import forecast_contents
from webpte.inspection.report.forecast import MemoryForecast
from webpte.program import Program


async def load(
    source: Any,
    *,
    device: str | Device = "webgpu",
    data: Sequence[Any] = (),
    strict: bool = False,
    name: str | None = None,
    progress: Progress | None = None,
    options: Options | None = None,
    keep: bool = False,
    download: Download | None = None,
    on_forecast: Callable[[MemoryForecast], None] | None = None,
    prepare: Prepare | None = None,
    optional: Collection[str] = (),
) -> Program:
    """Open a `.pte`, or the program in a `.bpte`, and make it ready to run.

    source    bytes, a path, or in the browser also a URL (str), a Blob or a file of `library.open`.
              A path or URL of a `.json` is a manifest: its files are opened and checked. Of
              "hf:OWNER/NAME" in the Hugging Face Hub the file that suits is fetched, see `hub`
    device    "webgpu" (in the browser), "native" (the GPU, from CPython: see docs/use/native.md; of
              several "native:1", by index, name or PCI id), "numpy" (the references, anywhere), or
              a Device to share
    data      the `.ptd` files that belong to the program, each given like `source`; and programs
              that are other parts of its model, whose methods this program then has, too: a
              method `forward` under the name of its file
    strict    refuse a program with operators that have no kernel, instead of running these on the
              host and reporting them
    progress  called as progress(stage, done, total); stages: fetch, read, compile, constants
    options   how it runs on the device, see `webpte.Options`
    keep      in the browser: take a URL from `webpte.library` if the newest file is there, else
              keep it there, while it is loaded; without room for it there, it is loaded all the
              same. A load that is interrupted goes on where it stopped the next time
    download  limits of a download, and a handle to pause it
    on_forecast  called with the GPU memory that the program will need, before weights are read;
              an error that it raises ends the load
    prepare   called with the file that was read, returns the file to build: `webpte.llm.load` makes
              caches shorter or smaller by it, and room for LoRAs
    optional  methods to read that are left out by default, such as "learn", by which
              `webpte.training` trains
    """
    if isinstance(device, str) and kind_of(device) not in NAMES:
        known = ", ".join(map(repr, NAMES))
        raise DeviceError(f"no device is called {device!r}; there are {known}")
    clock = Clock()
    shared = device if isinstance(device, str) and kind_of(device) in SHARED else None
    # A GPU takes a while to open; its errors matter only once there is something to run.
    opening = None if shared is None else detach(shared_device(shared))
    with keeping(keep) as files:
        fetch: dict[str, Any] = {"progress": progress, "keep": keep, "download": download}
        half = partial(_has_half, opening, device)
        named = await open_program_files(source, data, into=files, has_half=half, **fetch)
        clock.lap("fetch")
        contents = await read_programs(files, optional, name or named)
        if prepare is not None:
            contents = prepare(contents)
        if progress is not None:
            progress("read", 1, 1)
        clock.lap("read")
        check_supported(contents)
        if opening is not None:
            device = await opening
            await device.measure_waiting()  # after the download, because it blocks the event loop
            clock.lap("device")
        chosen = options or Options()
        if on_forecast is not None and not isinstance(device, str):
            info = applied_to(chosen, device.info)
            on_forecast(forecast_contents(contents, info, chosen.fuse))
        build = await Build.create(contents, device, strict, progress, chosen)
        clock.lap("build")
    program = Program(contents, build, clock, strict, shared)
    is_file = isinstance(source, str | Path) and not is_hub(source)
    program.origin = str(source) if is_file else ""
    return program


async def _has_half(opening: Future[Device] | None, device: str | Device) -> bool:
    """Return whether a device has 16-bit floats; True if it is not known."""
    with contextlib.suppress(WebpteError):  # raised once there is something to run
        device = await opening if opening is not None else device
    return isinstance(device, str) or device.info.has_f16
