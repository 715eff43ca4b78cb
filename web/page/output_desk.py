"""The outputs section: the last results, whether they are of what is set now, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from page.browser import Message
from page.compare import Comparison, compare
from page.markup import Html, h
from page.npy import NpyError, read_npy, write_npy
from page.output_view import Output, age_view, comparison_view, outputs_card, unknown_state_view
from page.stage import Stage
from page.tensors import values_text
from webpte import TensorInfo


class OutputDesk:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def _outputs(self) -> list[Output]:
        session = self._stage.session
        return session.shown.outputs if session is not None and session.shown is not None else []

    def draw(self) -> None:
        session = self._stage.session
        if session is None or session.shown is None:
            self._stage.show(outputs="")
            return
        card = session.source.card
        meanings = [value.told for value in card.outputs] if card is not None else []
        shown = outputs_card(session.shown.outputs, session.labels, meanings)
        self._stage.show(outputs=shown)
        for index, verdict in session.shown.verdicts.items():
            self._show_verdict(index, verdict)
        self.draw_age()

    def draw_age(self) -> None:
        """Only the line that says what the results are of: the pictures take long to draw."""
        session = self._stage.session
        if session is not None and session.shown is not None:
            self._stage.show(outputs_age=age_view(session.age()))

    async def take_labels(self, file: Any) -> None:
        """A text file with a name per line, for the outputs whose last dim has as many."""
        session, browser = self._stage.session, self._stage.browser
        name = browser.source(file).name
        if session is None or not session.method:
            raise ValueError(f"{name} may have labels for outputs: open a program first")
        data = await browser.read(file)
        try:
            lines = data.decode("utf-8").removesuffix("\n").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is no text in UTF-8: {error}") from error
        outputs = session.methods[session.method].outputs
        last = [
            one.shape[-1] if isinstance(one, TensorInfo) and one.shape else 0 for one in outputs
        ]
        fits = [index for index, size in enumerate(last) if size == len(lines)]
        if not fits:
            sizes = ", ".join(map(str, last))
            raise ValueError(
                f"{name} has {len(lines)} lines, but labels are one per line for the last dim of "
                f"an output ({sizes})"
            )
        session.labels |= dict.fromkeys(fits, tuple(lines))
        self.draw()
        self._stage.tell(f"{name} has the labels of {', '.join(outputs[i].name for i in fits)}")

    def compare_all(self, expected: Sequence[Any], against: str) -> list[Comparison]:
        compared = [
            compare(output.array, Output(0, "", value).array, against)
            for output, value in zip(self._outputs, expected, strict=True)
        ]
        for output, result in zip(self._outputs, compared, strict=True):
            self._keep_verdict(output, comparison_view(result))
        return compared

    def tell_unknown_state(self, reason: str) -> None:
        """Instead of a comparison that would be with another state."""
        for output in self._outputs:
            self._show_verdict(output.index, unknown_state_view(reason))

    def on_copy(self, message: Message) -> None:
        output = self._output(message)
        self._stage.browser.show(
            copy={"text": values_text(output.array), "done": f"{output.name} is copied"}
        )

    def on_download(self, message: Message) -> None:
        output = self._output(message)
        name = re.sub(r"[^\w.-]+", "_", output.name).strip("._") or f"output{output.index}"
        url = self._stage.browser.download_url(write_npy(output.array))
        self._stage.browser.show(download={"url": url, "name": f"{name}.npy"})

    async def on_compare(self, message: Message) -> None:
        output = self._output(message)
        file = message["files"][0]
        name = self._stage.browser.source(file).name
        try:
            expected = read_npy(await self._stage.browser.read(file), name)
        except NpyError as error:
            shown = h("p", str(error), class_="notice notice-bad")
        else:
            shown = comparison_view(compare(output.array, expected, name))
        if output in self._outputs:  # which other results may have replaced meanwhile
            self._keep_verdict(output, shown)

    def _output(self, message: Message) -> Output:
        index = int(message["output"])
        if index >= len(self._outputs):
            raise ValueError("these results are not on the page any more: run the program again")
        return self._outputs[index]

    def _keep_verdict(self, output: Output, verdict: Html) -> None:
        """It goes with the results, wherever they are shown again."""
        session = self._stage.session
        if session is not None and session.shown is not None:
            session.shown.verdicts[output.index] = verdict
        self._show_verdict(output.index, verdict)

    def _show_verdict(self, index: int, verdict: Html) -> None:
        self._stage.browser.show(html={f"output-{index}-compare": verdict})
