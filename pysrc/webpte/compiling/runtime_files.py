"""The JavaScript of a compiled program: the runtime as one module, and the module that opens it.

The runtime consists of the ES modules in `runtime/`, and of scripts of the engine, each a single
expression, which webpte evaluates in the browser, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from webpte.engine.gpu.device_info import DeviceInfo

RUNTIME, LANGUAGE, ENTRY = "webpte-run.js", "webpte-language.js", "index.js"
_PACKAGE = Path(__file__).parents[1]
_MODULES = _PACKAGE / "compiling" / "runtime"

_IMPORT = re.compile(r'^import (\w+|\{[^{}\n]*\}) from "([^"\n]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:class|const|function) (\w+))", re.MULTILINE)
_AGAIN = re.compile(r'^export (\*|\{[^{}\n]*\}) from "([^"\n]+)";$', re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//[^\n]*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+|^\n", re.MULTILINE)

_NOTHING: Mapping[Path, str] = MappingProxyType({})

_OPENS = """\
// Opens the compiled program of this folder: docs/use/compiled.md of webpte has the options.
export * from "./webpte-run.js";
import { open as openAt } from "./webpte-run.js";

const descriptions = %s;
const base = new URL("./", import.meta.url);
export const open = (options) => openAt(base, { descriptions, ...options });
"""


def runtime_files(descriptions: Mapping[str, DeviceInfo], language: bool = False) -> dict[str, str]:
    """Return the files by name.

    descriptions  the devices that each description is for; the first that suits is taken
    language      whether the program is a language model
    """
    rows = [
        {"file": name, "software": info.software, "features": list(info.features)}
        for name, info in descriptions.items()
    ]
    files = {RUNTIME: bundled(_MODULES / ENTRY), ENTRY: _OPENS % json.dumps(rows)}
    if language:
        files[LANGUAGE] = bundled(_MODULES / "language.js", {_MODULES / "errors.js": RUNTIME})
    return files


def bundled(entry: Path, outside: Mapping[Path, str] = _NOTHING) -> str:
    """Return an ES module and everything that it imports as one module, without comments.

    outside  modules that stay separate, and the names to import these by
    """
    parts: dict[Path, tuple[str, list[str]]] = {}  # by file: its text, and the names it exports
    for path, name in outside.items():
        exported = _EXPORT.findall(path.read_text(encoding="utf-8"))
        parts[path] = f'import * as {_variable(path)} from "./{name}";\n', exported
    _add(entry, parts)
    names = ", ".join(parts[entry][1])
    texts = [text for text, _ in parts.values()]
    return "".join([*texts, f"export const {{ {names} }} = {_variable(entry)};\n"])


def _add(path: Path, parts: dict[Path, tuple[str, list[str]]]) -> list[str]:
    """Add a file after the files that it imports; return the names that it exports."""
    if path in parts:
        return parts[path][1]
    text = _INDENT.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8")))
    if not (exported := _EXPORT.findall(text)) and not _AGAIN.search(text):
        parts[path] = f"const {_variable(path)} = (\n{text.rstrip()}\n);\n", []
        return []
    for what, place in _AGAIN.findall(text):
        names = _add((path.parent / place).resolve(), parts)
        exported += names if what == "*" else what.strip("{ }").split(", ")
    for _, place in _IMPORT.findall(text):
        _add((path.parent / place).resolve(), parts)

    def value_of(found: re.Match[str]) -> str:
        target = (path.parent / found[2]).resolve()
        taken = f"{{ {', '.join(parts[target][1])} }}" if found[1] == "*" else found[1]
        return f"const {taken} = {_variable(target)};"

    body = _EXPORT.sub("", _AGAIN.sub(value_of, _IMPORT.sub(value_of, text)))
    values = ", ".join(exported)
    made = f"const {_variable(path)} = (() => {{\n{body}return {{ {values} }};\n}})();\n"
    parts[path] = made, exported
    return exported


def _variable(path: Path) -> str:
    return "$" + re.sub(r"\W", "_", path.relative_to(_PACKAGE).with_suffix("").as_posix())
