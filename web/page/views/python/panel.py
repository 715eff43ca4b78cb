"""The Python view: a console with the open program at hand, and the session as code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import webpte
from page.browser import Message
from page.core.abilities import is_language_model, is_sentence_encoder
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState, Change
from page.shared.html.markup import Html, h, render
from page.views.python.code import as_python
from page.views.python.console import Cell, CellResult, Console
from page.views.python.javascript import READS, folder_of
from page.views.python.languages import COMPILED, LANGUAGES, PYTHON, Language, languages_of
from page.views.view import METHOD, PROGRAM, Panel, View
from webpte.compiling import compile_zip

_FIELD, _OPTIONS = "python-cell", "python-options"
_MOST_CELLS = 20
_FIRST = "outputs = await program.run(method, *inputs)\noutputs[0]"
_RUNNING = "running code"
_COMPILING = "compiling the program"
_MEGABYTE = 1 << 20


class PythonPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._console = Console(state.browser.interruptible)
        self._source = _FIRST
        self._cells: list[Cell] = []  # that ran, the newest last
        self._language = PYTHON

    def forget(self) -> None:
        self._console.forget()
        self._cells = []

    def draw(self) -> None:
        session = self.state.session
        if session is None:
            return
        self.show(h("div", self._cell(session), self._code(session), class_="python"))
        self.tell_script(history=[cell.source for cell in self._cells])

    def _cell(self, session: Session) -> Html:
        busy = session.runner.busy
        running = busy and session.runner.doing == _RUNNING
        return h(
            "section",
            h("h2", "Console"),
            h(
                "p",
                "Ready to use: the open program as ",
                h("code", "program"),
                ", with ",
                h("code", "method"),
                ", ",
                h("code", "inputs"),
                ", ",
                h("code", "outputs"),
                " of the last run, ",
                h("code", "np"),
                " and ",
                h("code", "webpte"),
                ". Variables persist between runs.",
                class_="note",
            ),
            h(
                "form",
                # A textarea drops the first line break of its markup.
                h(
                    "textarea",
                    "\n" + self._source,
                    name="source",
                    id=_FIELD,
                    rows=5,
                    aria_label="Code",
                    spellcheck="false",
                    autocomplete="off",
                    autocapitalize="off",
                ),
                h(
                    "div",
                    h(
                        "button",
                        "Run ",
                        h("kbd", "Ctrl Enter"),
                        type="submit",
                        class_="primary",
                        aria_disabled="true" if busy else None,
                    ),
                    h("button", "Cancel", type="button", data_act="cancel") if running else None,
                    class_="controls",
                ),
                data_act=self.act("run"),
                class_="python-form",
            ),
            h(
                "p",
                "Tab completes (Esc, then Tab leaves the field), Arrow up brings earlier code.",
                class_="note",
            ),
            h("div", id=_OPTIONS, class_="python-options", role="status"),
            h(
                "div",
                _shown(self._cells[-1].result) if self._cells else None,
                class_="python-result",
                role="status",
            ),
            self._earlier(),
            class_="card",
        )

    def _earlier(self) -> Html | None:
        """Return the cells before the last one, the newest first."""
        if len(self._cells) < 2:
            return None
        rows = [
            h("li", h("pre", h("code", cell.source), tabindex="0"), _shown(cell.result))
            for cell in reversed(self._cells[:-1])
        ]
        return h(
            "details",
            h("summary", f"Earlier cells ({len(rows)})"),
            h("ol", rows, class_="python-earlier"),
            id="python-earlier",
            open=True,
        )

    def on_complete(self, message: Message) -> None:
        """Complete the name before the cursor."""
        session = self.state.session
        if session is not None:
            text = str(message["text"])
            more, options = self._console.complete(text, _names(session))
            listed = " ".join(one.rpartition(".")[2] for one in options) if len(options) > 1 else ""
            self.state.show(**{_OPTIONS: listed})
            self.tell_script(completed={"text": text, "more": more})

    def _code(self, session: Session) -> Html:
        languages = languages_of(session)
        chosen = self._language if self._language in languages else PYTHON
        code = languages[chosen].write(session)
        # Saved inputs, and programs without an address, are not files that the page could read.
        reads_inputs = any(one in code for one in ("np.load(", "np.fromfile(", READS))
        reads_files = reads_inputs or not session.source.address
        here = h("button", "Run here", type="button", class_="quiet", data_act=self.act("try"),
                 title="Puts this code into the console and runs it")  # fmt: skip
        return h(
            "section",
            h(
                "div",
                h("h2", "Code"),
                h(
                    "div",
                    h(
                        "button",
                        "Share link",
                        type="button",
                        class_="quiet",
                        data_act="share",
                        title="Copies a link that brings back the program, its inputs and the view",
                    ),
                    None if reads_files or chosen != PYTHON else here,
                    h(
                        "button",
                        "Copy",
                        type="button",
                        class_="quiet",
                        data_act=self.act("copy"),
                        data_value=chosen,
                    ),
                ),
                class_="card-head",
            ),
            self._languages(languages, chosen),
            self._folder(session) if chosen == COMPILED else None,
            h("pre", h("code", code), tabindex="0", class_="listing"),
            h(
                "p",
                _where(session) if chosen == PYTHON else _NOTES[chosen],
                " “Save .npy” in Run saves the files that it reads." if reads_inputs else None,
                class_="note",
            ),
            class_="card",
        )

    def _languages(self, languages: Mapping[str, Language], chosen: str) -> Html:
        buttons = [
            h(
                "button",
                one.label,
                type="button",
                data_act=self.act("language"),
                data_value=key,
                aria_pressed="true" if key == chosen else "false",
            )
            for key, one in languages.items()
        ]
        return h("div", buttons, class_="tabs", role="group", aria_label="Language")

    def _folder(self, session: Session) -> Html:
        """Return the button that makes the folder."""
        compiling = session.runner.busy and session.runner.doing == _COMPILING
        return h(
            "div",
            h(
                "button",
                "Download folder",
                type="button",
                class_="primary",
                data_act=self.act("compile"),
                data_idle=True,
                title="Compiles the program, and saves its folder as a .zip",
            ),
            h("button", "Cancel", type="button", data_act="cancel") if compiling else None,
            class_="controls",
        )

    def on_language(self, message: Message) -> None:
        """Show the session in another language."""
        if message["value"] in LANGUAGES:
            self._language = str(message["value"])
            self.draw()

    async def on_compile(self, message: Message) -> None:
        """Compile the program, and save its folder."""
        session = self.state.idle_session()
        if session is not None:
            self.state.show(error="")
            self.state.tell("Compiling", "busy")
            await self.state.do(session, self._compile(session), _COMPILING, at_once=True)
            self.draw()

    async def _compile(self, session: Session) -> None:
        source, name = session.source, folder_of(session)
        # For the inputs at hand; a language model takes prompts of any length.
        given = [state.array() for state in session.inputs]
        fixed = not session.problem and not session.can(is_language_model)
        examples = {session.method: [given]} if fixed else {}
        # The card of a sample says how its inputs are made; texts need files that no page has.
        card = source.card if fixed and not session.can(is_sentence_encoder) else None

        def progress(stage: str, done: int, total: int) -> None:
            if stage == "compile":
                self.state.tell(f"Compiling: {done + 1} of {total} kinds of devices", "busy")
            else:
                share = f"{done / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB"
                self.state.tell(f"Packing: {share}", "busy")

        data = await compile_zip(
            source.data,
            data=source.extra,
            examples=examples,
            name=name,
            task=None if card is None else card.raw,
            labels=next(iter(session.labels.values()), ()),
            progress=progress,
        )
        if session is self.state.session:
            url = self.state.browser.download_url(data)
            self.state.browser.show(download={"url": url, "name": f"{name}.zip"})
            self.state.tell(f"{name}.zip saved")

    async def on_run(self, message: Message) -> None:
        self._source = str(message["fields"]["source"])
        session = self.state.idle_session()
        if session is None or not self._source.strip():
            return
        self.state.show(error="")
        self.state.tell("Running code", "busy")
        session.lose_state("code in the Python view may have changed it")
        await self.state.do(session, self._run(session), _RUNNING, at_once=True)
        self.draw()

    async def on_try(self, message: Message) -> None:
        """Put the session's code into the console, and run it."""
        session = self.state.idle_session()
        if session is not None:
            source = as_python(session)
            self.state.browser.show(value={_FIELD: source}, reveal=_FIELD)
            await self.on_run({"fields": {"source": source}})

    async def _run(self, session: Session) -> None:
        source = self._source
        result = await self._console.run(source, _names(session))
        if session is self.state.session:
            self._cells = [*self._cells, Cell(source, result)][-_MOST_CELLS:]
            if result.interrupted:
                self.state.tell("Cancelled")
            elif result.error:
                self.state.tell("The code failed", "bad")
            else:
                self.state.tell("Done")

    def on_copy(self, message: Message) -> None:
        if self.state.session is not None:
            known = languages_of(self.state.session)
            chosen = str(message.get("value") or PYTHON)  # a command means Python
            text = known.get(chosen, known[PYTHON]).write(self.state.session)
            self.state.browser.show(copy={"text": text, "done": "Code copied"})


def _shown(result: CellResult) -> list[Html]:
    printed = h("pre", h("code", result.printed), tabindex="0") if result.printed else None
    error = (
        h("pre", h("code", result.error), tabindex="0", class_="python-error")
        if result.error
        else None
    )
    ended = h("p", "Cancelled.", class_="soft") if result.interrupted else None
    return [one for one in (printed, result.value, error, ended) if one is not None]


_NOTES = {
    "javascript": "With the package webpte for npm. Addresses are relative to your page.",
    COMPILED: "Runs in a page without Python. Unzip the folder next to your page.",
    "curl": "OpenAI's API, of a server with this file on your machine.",
}


def _where(session: Session) -> Html:
    """Say where the code runs."""
    if session.device == "numpy":
        return render(("For a notebook, PyScript, Pyodide or CPython, on NumPy. For WebGPU, omit ",
                       h("code", 'device="numpy"'), "."))  # fmt: skip
    return render(("For a notebook, PyScript or Pyodide, on WebGPU. In CPython, add ",
                   h("code", 'device="native"'), " or ", h("code", 'device="numpy"'),
                   "."))  # fmt: skip


def _names(session: Session) -> dict[str, Any]:
    """Return the names that a cell can use; inputs that are not ready are left out."""
    ready = not any(state.error for state in session.inputs)
    shown = session.shown
    names: dict[str, Any] = {
        "np": np,
        "webpte": webpte,
        "program": session.program,
        "method": session.method,
    }
    if ready:
        names["inputs"] = [state.array() for state in session.inputs]
    if shown is not None:
        names["outputs"] = [output.array for output in shown.outputs]
    return names


VIEW = View(
    "python",
    "Python",
    order=90,
    also="code console script",
    make=PythonPanel,
    needs=(PROGRAM, METHOD),
    follows=(Change.SESSION, Change.METHOD, Change.INPUTS, Change.RESULTS, Change.BUSY),
    style=True,
    commands=(Command("Copy as Python", "copy"),),
)
