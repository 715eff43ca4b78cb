"""The outputs section: the last results, and what can be done with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from page.browser import Browser, Message
from page.compare import Comparison, compare
from page.markup import h
from page.npy import NpyError, read_npy, write_npy
from page.output_view import Output, comparison_view, outputs_card
from page.tensors import values_text
from webpte import ScalarInfo, TensorInfo


class OutputDesk:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._outputs: list[Output] = []

    def __bool__(self) -> bool:
        return bool(self._outputs)

    def clear(self) -> None:
        self._outputs = []
        self._browser.show(html={"outputs": ""})

    def take(self, infos: Sequence[TensorInfo | ScalarInfo], values: Sequence[Any]) -> None:
        self._outputs = [
            Output(index, info.name, value)
            for index, (info, value) in enumerate(zip(infos, values, strict=True))
        ]
        self._browser.show(html={"outputs": outputs_card(self._outputs)})

    def compare_all(self, expected: Sequence[Any], against: str) -> list[Comparison]:
        results = [
            compare(output.array, Output(0, "", value).array, against)
            for output, value in zip(self._outputs, expected, strict=True)
        ]
        for output, result in zip(self._outputs, results, strict=True):
            self._browser.show(html={_verdict(output): comparison_view(result)})
        return results

    def on_copy(self, message: Message) -> None:
        output = self._output(message)
        self._browser.show(
            copy={"text": values_text(output.array), "done": f"{output.name} is copied"}
        )

    def on_download(self, message: Message) -> None:
        output = self._output(message)
        name = re.sub(r"[^\w.-]+", "_", output.name).strip("._") or f"output{output.index}"
        url = self._browser.download_url(write_npy(output.array))
        self._browser.show(download={"url": url, "name": f"{name}.npy"})

    async def on_compare(self, message: Message) -> None:
        output = self._output(message)
        file = message["files"][0]
        name = self._browser.source(file).name
        try:
            expected = read_npy(await self._browser.read(file), name)
        except NpyError as error:
            shown = h("p", str(error), class_="notice notice-bad")
        else:
            shown = comparison_view(compare(output.array, expected, name))
        self._browser.show(html={_verdict(output): shown})

    def _output(self, message: Message) -> Output:
        return self._outputs[int(message["output"])]


def _verdict(output: Output) -> str:
    return f"output-{output.index}-compare"
