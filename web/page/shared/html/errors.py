"""The box of an error: what failed, why, and what to do about it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping

from page.shared.html.markup import Html, h

# By class name, so that nothing here has to import the engine. The most derived name wins.
_WAYS_OUT = {
    "FormatError": "Check that the file is a complete .pte written by ExecuTorch.",
    "OtherFileError": "",  # its message says what to do with such a file
    "NoCardError": "Choose a sample, or install the model and reload the page.",
    "CardError": "Correct the model's card; docs/inside/extending.md lists its fields.",
    "UnsupportedOpError": "What the file contains is listed below. Export the model without "
    "these operators, or add them to webpte.",
    "ForeignDelegateError": "Take the model's file for XNNPACK or Vulkan, or export again.",
    "NoWebGPUError": "See the note on top of the page for browsers and flags, or run on NumPy.",
    "DeviceLostError": "The browser took the GPU away: a driver reset, a crash or too much memory. "
    "Rebuild the program, or open the file again; close other tabs that use the GPU if it happens "
    "again.",
    "FaultyDeviceError": "Programs still run on NumPy, on the CPU.",
    "OutOfMemoryError": "Close other tabs that use the GPU, or export a smaller or quantized "
    "model.",
    "ShaderError": "This is a bug in webpte. The details below say which kernel it is.",
    "InputError": "Set the inputs to the shapes and types of the signature.",
    "ResizeError": "Set the inputs to sizes within the bounds of the signature.",
    "FileChangedError": "Open it again: that reads the new version.",
    "DigestError": "Open it again. If the hashes differ again, the file and its manifest do not "
    "belong together.",
    "DocumentError": "Other documents can be added all the same.",
    "SourceError": "Check the address or the file, and that its server lets other pages read it "
    "(CORS).",
    "ClosedError": "Open the file again.",
    "ConstantError": "Drop the .ptd file with the program's constants onto the page, or choose it "
    "together with the .pte.",
    "GraphError": "The file contradicts itself. Export the model again.",
    "NpyError": "Save an array that fits with numpy.save(path, array), and drop it again.",
    "TakenError": "",
    "MemoryError": "This tab has no memory left. Close what is open, or reload the page.",
}

# Advice about the inputs of Run, for tasks on these inputs: elsewhere an input is a text, a sound
# or a setting, and the message names the problem.
_ABOUT_INPUTS = ("InputError", "ResizeError")
_WITH_INPUTS = ("running", "checking", "timing", "tracing", "comparing", "measuring")

_VERBS = {
    "opening": "open",
    "running": "run",
    "checking": "check",
    "timing": "time",
    "rebuilding": "rebuild",
    "assigning": "assign",
    "drawing": "draw",
    "keeping": "keep",
    "measuring": "measure",
    "comparing": "compare",
    "answering": "answer",
    "doing": "do",
    "reading": "read",
    "loading": "load",
    "saving": "save",
    "adding": "add",
    "using": "use",
    "copying": "copy",
    "sharing": "share",
    "showing": "show",
    "choosing": "choose",
    "closing": "close",
    "going": "go",
    "deleting": "delete",
    "listing": "list",
    "tracing": "trace",
    "transcribing": "transcribe",
    "searching": "search",
}

_ANSWERED = re.compile(r"the server answered (\d{3})")
_ANSWERS = {
    "401": "its server asks for a password",
    "403": "its server refuses access",
    "404": "there is no such file at its address",
    "410": "it is no longer at its address",
    "429": "its server got too many requests; try again later",
}


def unfetched_text(error: BaseException, name: str) -> str:
    """Explain an error of a server that answered without a file; "" for other errors."""
    answers = (_ANSWERED.search(str(cause)) for cause in causes(error))
    code = next((found[1] for found in answers if found), "")
    if not code:
        return ""
    other = (
        "its server has an internal error" if code.startswith("5") else "its server refuses access"
    )
    return f"{name} cannot be opened: {_ANSWERS.get(code, other)} ({code})"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def way_out(error: BaseException, doing: str = "") -> str:
    """Return what to do about an error; "" where its message says all. `doing` is that of
    `error_view`."""
    with_inputs = doing.partition(" ")[0] in _WITH_INPUTS
    for cause in causes(error):
        if _ANSWERED.search(str(cause)):
            return "Check the address."  # there was an answer, so CORS is not the reason
        names = [base.__name__ for base in type(cause).__mro__]
        if "GraphError" in names and cause is not error:
            continue  # inside of a call: its sizes do not go together, and the file is fine
        for name in names:
            if name in _WAYS_OUT and (with_inputs or name not in _ABOUT_INPUTS):
                return _WAYS_OUT[name]
    return ""


def failure_text(doing: str) -> str:
    """Say what failed: "opening model.pte" becomes "Could not open model.pte"."""
    verb, _, rest = doing.partition(" ")
    plain = _VERBS.get(verb)
    return f"Could not {plain} {rest}".rstrip() if plain else f"Failed: {doing}"


def _told_below(error: BaseException, doing: str) -> str:
    """Return the message of an error, without the file that `failure_text` above it names."""
    return str(error).removeprefix(f"{doing.partition(' ')[2]}: ")


def error_view(
    error: BaseException,
    doing: str,
    actions: Mapping[str, str] | None = None,
    note: str = "",
    more: Html | None = None,
) -> Html:
    """Return the box of an error. `doing` names the failed task, such as "opening model.pte";
    actions: act -> button; `note` names the unchanged things; `more` comes below."""
    told = "".join(traceback.format_exception(error))
    hint = way_out(error, doing)
    return h(
        "div",
        h(
            "div",
            h("p", h("strong", failure_text(doing))),
            h("button", "Dismiss", type="button", class_="quiet", data_act="dismiss"),
            class_="card-head",
        ),
        h("p", _told_below(error, doing) or "no message", class_="error-message"),
        h("p", hint, class_="error-hint") if hint else None,
        h("p", note, class_="error-hint") if note else None,
        [h("button", label, type="button", data_act=act) for act, label in (actions or {}).items()],
        more,
        h("details", h("summary", "Details"), h("pre", told, tabindex="0")),
        class_="error",
    )
