"""The JavaScript of a compiled program: the runtime as one module, and the module that opens it.

The runtime consists of the ES modules in `runtime/`, and of scripts of the engine, each a single
expression, which webpte evaluates in the browser, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

RUNTIME, LANGUAGE, ENTRY = "webpte-run.js", "webpte-language.js", "index.js"
TASK, TEXT, VIEW = "webpte-task.js", "webpte-text.js", "webpte-view.js"
SENTENCES, SPEECH, LISTEN = "webpte-sentences.js", "webpte-speech.js", "webpte-listen.js"
PAGE, DEVICES = "index.html", "devices.json"
TYPES = "webpte-run.d.ts"
GPU = "webpte-gpu.js"  # is fetched when a call has inputs or outputs on the GPU
RANGES = "webpte-ranges.js"  # is fetched for large files
SELF_TEST = "webpte-self-test.js"  # is fetched for descriptions whose features can be faulty
_PACKAGE = Path(__file__).parents[1]
_MODULES = _PACKAGE / "compiling" / "runtime"

_IMPORT = re.compile(r'^import (\w+|\{[^{}\n]*\}) from "([^"\n]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:class|const|function) (\w+))", re.MULTILINE)
_AGAIN = re.compile(r'^export (\*|\{[^{}\n]*\}) from "([^"\n]+)";$', re.MULTILINE)
_NAMED = re.compile(r"^(?:export )?(?:async )?(?:class|const|function|let) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//[^\n]*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+|^\n", re.MULTILINE)

# The modules of tasks by the kind of their input, each with its entry; of other kinds TASK.
_TASKS = {
    "text": (TEXT, Path("text.js")),
    "sentences": (SENTENCES, Path("sentences.js")),
    "speech": (SPEECH, Path("speech.js")),
    "spoken": (LISTEN, Path("listen", ENTRY)),
    "": (TASK, Path("task", ENTRY)),
}

_NOTHING: Mapping[Path, str] = MappingProxyType({})

DeviceRow = dict[str, Any]  # file, software, features, limits

_TYPED = """\
// Types of the compiled program of this folder.
import type { OpenOptions, Program } from "./webpte-run.js";
export * from "./webpte-run.js";
export function open(options?: OpenOptions): Promise<Program>;
"""

_OPENS = """\
// Opens the compiled program of this folder: docs/use/compiled.md of webpte has the options.
export * from "./webpte-run.js";
import { open as openAt } from "./webpte-run.js";

const descriptions = %s;
const base = new URL("./", import.meta.url);
export const open = (options) => openAt(base, { descriptions, ...options });
"""


def runtime_files(
    devices: Sequence[DeviceRow], language: bool = False, task: str | None = None
) -> dict[str, str]:
    """Return the files by name.

    devices   the descriptions, and the devices that each is for; the first that suits is taken
    language  whether the program is a language model
    task      the kind of input of its task, which a page shows; None: it has no task
    """
    rows = json.dumps(devices)
    files = {DEVICES: rows, ENTRY: _OPENS % rows, "index.d.ts": _TYPED}
    files |= modules(language, () if task is None else (task,))
    if task is not None:
        files[PAGE] = (_MODULES / "view" / PAGE).read_text(encoding="utf-8")
    return files


def modules(language: bool = True, tasks: Collection[str] = tuple(_TASKS)) -> dict[str, str]:
    """Return the modules by name, and their types.

    language  whether to include the module of language models
    tasks     the kinds of input whose tasks are included
    """
    files = {RUNTIME: bundled(_MODULES / ENTRY)}
    files[TYPES] = (_MODULES / "types.d.ts").read_text(encoding="utf-8")
    shared = ("errors.js", "expressions.js", "values.js", "program.js")
    separate = {_MODULES / name: RUNTIME for name in shared}
    files[GPU] = bundled(_MODULES / "gpu.js", separate)
    files[RANGES] = bundled(_MODULES / "ranges.js", separate)
    files[SELF_TEST] = bundled(_MODULES / "self_test.js", separate)
    for kind in tasks:
        name, entry = _TASKS.get(kind, _TASKS[""])
        files[name] = bundled(_MODULES / entry, separate)
        files[VIEW] = bundled(_MODULES / "view" / ENTRY)
    if language:
        files[LANGUAGE] = bundled(_MODULES / "language.js", separate)
    return files


def bundled(entry: Path, outside: Mapping[Path, str] = _NOTHING) -> str:
    """Return an ES module and everything that it imports as one module, without comments.

    The names at the top of all its modules must be different.

    outside  modules that stay separate, and the names to import these by
    """
    parts: dict[Path, _Part] = {}
    _add(entry, "", parts, outside)
    names = [name for part in parts.values() for name in part.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"several modules of {entry.name} declare {', '.join(twice)}: rename one"
    exported = ", ".join(parts[entry].exported)
    taken = dict.fromkeys(one for part in parts.values() for one in part.taken)
    kept = [f'import {{ {name} }} from "./{file}";\n' for name, file in taken]
    return "".join([*kept, *(part.text for part in parts.values()), f"export {{ {exported} }};\n"])


@dataclass(frozen=True)
class _Part:
    """A module in a bundle: its text, the names at its top, and its exports.

    taken   names that it imports from modules outside of the bundle, and the files of these
    """

    text: str
    names: list[str]
    exported: list[str]
    taken: list[tuple[str, str]] = field(default_factory=list)


def _add(path: Path, name: str, parts: dict[Path, _Part], outside: Mapping[Path, str]) -> None:
    """Add a file after its imports; a script's value becomes a constant called `name`."""
    if path in parts:
        assert parts[path].names[:1] == [name] or not name, f"{path.name} has two names"
        return
    text = path.read_text(encoding="utf-8")
    names, exported = _NAMED.findall(text), _EXPORT.findall(text)
    text = _INDENT.sub("", _COMMENT.sub("", text))
    if name:
        parts[path] = _Part(f"const {name} = (\n{text.rstrip()}\n);\n", [name], [])
        return
    for again, place in _AGAIN.findall(text):
        _add(target := (path.parent / place).resolve(), "", parts, outside)
        exported += parts[target].exported if again == "*" else again.strip("{ }").split(", ")
    outer: list[tuple[str, str]] = []
    for taken, place in _IMPORT.findall(text):
        target = (path.parent / place).resolve()
        if target in outside:
            outer += [(one, outside[target]) for one in taken.strip("{ }").split(", ")]
        else:
            _add(target, "" if taken.startswith("{") else taken, parts, outside)
    body = _INDENT.sub("", _EXPORT.sub("", _AGAIN.sub("", _IMPORT.sub("", text))))
    parts[path] = _Part(body, names, exported, outer)
