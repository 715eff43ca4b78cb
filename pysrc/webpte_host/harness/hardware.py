"""Checks for `--adapter hardware` that the browser has this machine's GPU.

Run as a module it prints the GPU's name, or the missing part.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from webpte_host.base.errors import HostError

_NO_GPU = """--adapter hardware: Chromium finds no GPU here{instead}.
On Linux it needs the GPU's Vulkan driver and the loader (libvulkan1); docs/use/native.md explains
how to set them up on a machine without a screen. Without --adapter, WebGPU runs on the CPU."""


def check_hardware(adapter: Mapping[str, str] | None) -> str:
    """Return the GPU's name; raises HostError for no adapter or a software adapter."""
    from webpte.engine.gpu.device_info import is_software

    if adapter is None:
        raise HostError(_NO_GPU.format(instead=""))
    words = " ".join(adapter[key] for key in ("vendor", "architecture", "description")).strip()
    if is_software(*adapter.values()):
        raise HostError(_NO_GPU.format(instead=f", only {words}, which is a CPU"))
    return words


def main() -> int:
    from webpte_host.harness.browser import Harness, open_browser
    from webpte_host.serving.server import Site

    try:
        with Site() as site, open_browser("hardware") as browser:
            harness = Harness(browser.new_page())
            harness.page.goto(f"{site.url}harness.html", wait_until="commit")
            print(f"adapter: {check_hardware(harness.adapter())}", flush=True)
    except HostError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
