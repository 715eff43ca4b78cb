"""Headless Firefox with WebGPU, and its pages, which are driven like a user's.

`FirefoxPage` implements the part of Playwright's page API that `Harness` uses, so that both
browsers share the harness:

    with open_firefox() as firefox:
        harness = Harness.open(cast(Browser, firefox), site)
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError
from webpte_host.harness.bidi import BidiError, BidiSession
from webpte_host.setup import firefox

ENTER = "Enter"  # a key for `press`
_KEYS = {ENTER: "\ue007", "Escape": "\ue00c"}  # WebDriver's names
_START_SECONDS = 300.0
_END_SECONDS = 60.0
_EXPECT_SECONDS = 300.0
_LABEL_SECONDS = 60.0  # for an element with a label: ten times the need of a busy machine
_ADDRESS_FILE = "WebDriverBiDiServer.json"  # in the profile, once the driver's port is open

# Calls a function with an argument and returns its result, both as JSON.
_CALL = """async (argument) => {
    const result = await (%s)(JSON.parse(argument));
    return JSON.stringify(result ?? null);
}"""

# Returns null if an element has a label, else the labels of the elements that match the selector.
_LABELS = """([selector, text]) => {
    const labels = [...document.querySelectorAll(selector)].flatMap((one) => [one.innerText.trim(),
        one.getAttribute("aria-label"), one.labels?.[0]?.innerText.trim()]).filter(Boolean);
    return labels.includes(text) ? null : labels;
}"""

# Finds an element, scrolls it into view, and returns its place once it rests there for two frames;
# null if it is missing or covered. With `aim`, a click that lands elsewhere, because the page moved
# in between, only sets `missed`.
_PLACE = """async ([selector, text, aim]) => {
    const matches = (one) => text === null || one.innerText.trim() === text
        || one.getAttribute("aria-label") === text || one.labels?.[0]?.innerText.trim() === text;
    const found = [...document.querySelectorAll(selector)].find(
        (one) => matches(one) && !one.disabled && one.checkVisibility());
    if (!found) return null;
    found.scrollIntoView({ block: "center", behavior: "instant" });
    const before = found.getBoundingClientRect();
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    await frame();
    await frame();
    const { left, top, width, height } = found.getBoundingClientRect();
    if (left !== before.left || top !== before.top) return null;
    const belongs = (hit) => found.contains(hit) || hit?.closest?.("label")?.contains(found);
    if (!belongs(document.elementFromPoint(left + width / 2, top + height / 2))) return null;
    const place = { left, top, width, height };
    if (!aim) return place;
    window.aimed = new AbortController();
    window.missed = false;
    const judge = (event) => {
        if (event.type === "pointerdown") window.missed = !belongs(event.target);
        if (!window.missed) return;
        event.preventDefault();
        event.stopImmediatePropagation();
    };
    for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) {
        addEventListener(type, judge, { capture: true, signal: window.aimed.signal });
    }
    return place;
}"""

_MISSED = "() => { window.aimed?.abort(); return window.missed; }"

_FOCUS = """(selector) => {
    const field = document.querySelector(selector);
    field.focus();
    field.select?.();
}"""


@dataclass(frozen=True)
class _ConsoleMessage:
    """A line of the console, with the interface of Playwright's."""

    type: str
    text: str

    @property
    def location(self) -> dict[str, str]:
        return {"url": ""}  # is part of the text


class FirefoxPage:
    """A tab."""

    def __init__(self, session: BidiSession) -> None:
        self._session = session
        self._context: str = session.call("browsingContext.create", type="tab")["context"]
        self._closed = False
        self._on_console: list[Callable[[_ConsoleMessage], None]] = []
        self._on_error: list[Callable[[str], None]] = []
        session.listen("log.entryAdded", self._logged)

    def _logged(self, entry: dict[str, Any]) -> None:
        if entry["source"].get("context") != self._context:
            return
        text = str(entry["text"])
        if entry["type"] == "javascript":
            for on_error in self._on_error:
                on_error(text)
        for on_console in self._on_console:
            on_console(_ConsoleMessage(entry["level"], text))

    def on(self, event: str, listener: Callable[[Any], None]) -> None:
        """Listen to `pageerror` and `console`; a crash shows as a failing call."""
        if event == "console":
            self._on_console.append(listener)
        elif event == "pageerror":
            self._on_error.append(listener)

    def _call(self, method: str, **parameters: Any) -> Any:
        return self._session.call(method, context=self._context, **parameters)

    def goto(self, url: str, **_: object) -> None:
        """Open an address and wait until the document and its scripts are loaded."""
        self._call("browsingContext.navigate", url=url, wait="complete")

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function with an argument and await its result."""
        reply = self._session.call(
            "script.callFunction",
            functionDeclaration=_CALL % function,
            arguments=[{"type": "string", "value": json.dumps(argument)}],
            awaitPromise=True,
            target={"context": self._context},
        )
        if reply["type"] == "exception":
            raise BidiError(reply["exceptionDetails"]["text"])
        return json.loads(reply["result"]["value"])

    def add_init_script(self, function: str) -> None:
        """Call a function in every later document, before its own scripts."""
        contexts = [self._context]
        self._session.call(
            "script.addPreloadScript", functionDeclaration=function, contexts=contexts
        )

    def set_viewport(self, width: int, height: int) -> None:
        self._call("browsingContext.setViewport", viewport={"width": width, "height": height})

    def picture(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the window, or of the whole page."""
        origin = "document" if whole else "viewport"
        data: str = self._call("browsingContext.captureScreenshot", origin=origin)["data"]
        return base64.b64decode(data)

    def wait_for(self, function: str, argument: Any = None) -> Any:
        """Call a function until its result is true; raises BidiError after minutes."""
        end = time.monotonic() + _EXPECT_SECONDS
        while not (found := self.evaluate(function, argument)):
            if time.monotonic() > end:
                shown = self.evaluate("() => document.querySelector('#status')?.innerText")
                raise BidiError(
                    f"not so within {_EXPECT_SECONDS:g} s: {function} with {argument!r}; "
                    f"the page's status is {shown!r}"
                )
            time.sleep(0.05)
        return found

    def text(self, selector: str) -> str:
        """Return the text of an element; waits until it is there."""
        found = self.wait_for(
            "(selector) => [document.querySelector(selector)?.innerText]"
            ".filter((text) => text !== undefined)",
            selector,
        )
        return str(found[0])

    def wait_for_text(self, selector: str, text: str) -> None:
        """Wait until an element contains a text."""
        self.wait_for(
            "([selector, text]) => document.querySelector(selector)?.innerText.includes(text)",
            [selector, text],
        )

    def click(self, selector: str, text: str | None = None) -> None:
        """Click the first visible element that matches a selector and contains a text or label."""
        if text is not None:
            self._find_label(selector, text)
        missed = True
        while missed:
            box = self.wait_for(_PLACE, [selector, text, True])
            x, y = box["left"] + box["width"] / 2, box["top"] + box["height"] / 2
            self._point(_move(x, y), {"type": "pointerDown", "button": 0}, _UP)
            missed = self.evaluate(_MISSED)

    def _find_label(self, selector: str, text: str) -> None:
        """Wait until an element has a label; raises BidiError with the labels that are there."""
        end = time.monotonic() + _LABEL_SECONDS
        while (labels := self.evaluate(_LABELS, [selector, text])) is not None:
            if time.monotonic() > end:
                raise BidiError(
                    f"no {selector} is labelled {text!r} within {_LABEL_SECONDS:g} s; there are "
                    f"{', '.join(map(repr, labels)) or 'no labels'}"
                )
            time.sleep(0.05)

    def draw(self, selector: str, line: Sequence[tuple[float, float]]) -> None:
        """Draw a line with the pointer, between points in shares of an element's size."""
        box = self.wait_for(_PLACE, [selector, None, False])
        moves = [
            _move(box["left"] + x * box["width"], box["top"] + y * box["height"]) for x, y in line
        ]
        self._point(moves[0], {"type": "pointerDown", "button": 0}, *moves[1:], _UP)

    def _point(self, *actions: dict[str, Any]) -> None:
        pointer = {"type": "pointer", "id": "pointer", "actions": list(actions)}
        self._call("input.performActions", actions=[pointer])

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, replacing its content."""
        self.wait_for(_PLACE, [selector, None, False])
        self.evaluate(_FOCUS, selector)
        self.press(*text)

    def press(self, *keys: str) -> None:
        """Press keys in order: letters, `ENTER` or "Escape"."""
        values = [_KEYS.get(key, key) for key in keys]
        kinds = ("keyDown", "keyUp")
        actions = [{"type": kind, "value": value} for value in values for kind in kinds]
        self._call(
            "input.performActions", actions=[{"type": "key", "id": "keys", "actions": actions}]
        )

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._call("browsingContext.close")


_UP = {"type": "pointerUp", "button": 0}


def _move(x: float, y: float) -> dict[str, Any]:
    return {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 30}


class FirefoxBrowser:
    """A Firefox with a new profile."""

    def __init__(self, session: BidiSession) -> None:
        self._session = session

    def new_page(self) -> FirefoxPage:
        return FirefoxPage(self._session)


@contextmanager
def open_firefox() -> Iterator[FirefoxBrowser]:
    """Open a headless Firefox with WebGPU; raises HostError without Firefox."""
    path = firefox.find()
    if path is None:
        raise HostError(firefox.MISSING)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        firefox.write_preferences(profile)
        options = ["--headless", "--no-remote", "--remote-debugging-port=0"]
        process = subprocess.Popen(
            [path, *options, "--profile", folder, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with BidiSession(_address(profile, process)) as session:
                yield FirefoxBrowser(session)
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait until the driver's port is open; returns its address."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        try:
            found = json.loads((profile / _ADDRESS_FILE).read_text(encoding="utf-8"))
            return f"ws://{found['ws_host']}:{found['ws_port']}"
        except (OSError, ValueError):
            if process.poll() is not None:
                raise HostError(f"Firefox ended with {process.returncode} at its start.") from None
        time.sleep(0.05)
    raise HostError(f"Firefox opened no port for its driver within {_START_SECONDS:g} s.")
