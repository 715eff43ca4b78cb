"""Opens programs for the page: with options of language models where those are given."""

from __future__ import annotations

from typing import Any

import webpte
from webpte.inspection.report.forecast import MemoryForecast
from webpte.llm.open_program import open_program
from webpte.program import Program


class PageEngine:
    """The functions of webpte by which the page opens programs; tests replace them."""

    async def load(self, source: Any, **options: Any) -> Program:
        """Load a program, with the options of `webpte.load` and `webpte.llm.load`."""
        return await open_program(source, **options)

    async def inspect(self, source: Any, **options: Any) -> dict[str, webpte.MethodInfo]:
        """Describe the methods of a file."""
        return await webpte.inspect(source, **options)

    async def forecast(self, source: Any, **options: Any) -> MemoryForecast:
        """Forecast the GPU memory of a language model."""
        return await webpte.llm.forecast(source, **options)

    async def shared_device(self) -> webpte.Device:
        """Return the device that programs share."""
        return await webpte.shared_device()
