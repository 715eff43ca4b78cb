"""`serve.py devices`: lists this machine's GPUs, for `--device native:WHICH`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from webpte_host.base.descriptions import described
from webpte_host.base.errors import HostError
from webpte_host.setup import environment, native_environment

if TYPE_CHECKING:
    from webpte import AdapterInfo

_HEADINGS = ("device", "name", "PCI id", "vendor", "backend", "memory", "driver")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="serve.py devices", description=described(__doc__))
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    options = parser.parse_args(arguments)
    if not native_environment.inside():
        return environment.rerun_with(native_environment.ensure(), ["devices", *arguments])
    import webpte

    try:
        adapters = webpte.native_adapters()
    except webpte.WebpteError as error:
        raise HostError(str(error)) from error
    if options.json:
        print(json.dumps([asdict(adapter) for adapter in adapters], indent=1))
    else:
        print(table_of(adapters))
    return 0


def table_of(adapters: Sequence[AdapterInfo]) -> str:
    """Return the adapters as a table, with marks on adapters that compute on the CPU."""
    if not adapters:
        return "no GPU: docs/use/native.md says which driver device='native' needs"
    rows = [_HEADINGS, *map(_cells, adapters)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    notes = [
        f"native:{one.index} computes on the CPU: {one.software}"
        for one in adapters
        if one.software
    ]
    return "\n".join([*lines, *notes])


def _cells(one: AdapterInfo) -> tuple[str, ...]:
    memory = "" if one.memory is None else f"{one.memory / 2**30:.1f} GiB"
    return (
        f"native:{one.index}",
        one.name,
        one.pci_id,
        one.vendor,
        one.backend,
        memory,
        one.driver,
    )
