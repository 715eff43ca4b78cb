"""Optional libraries, loaded on demand because only some programs need them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from webpte.engine.browser import IN_BROWSER
from webpte.errors import PackageError


async def python_package(name: str, extra: str) -> ModuleType:
    """Import an optional package; `extra` names the extra of webpte that installs it."""
    if IN_BROWSER:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            from webpte.engine.browser.libraries import load_python_package

            await load_python_package(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise PackageError(
            f"this needs the package {name}: pip install 'webpte[{extra}]' (or just {name})"
        ) from error


@dataclass(frozen=True)
class JavaScriptModule:
    """A CommonJS module for the browser.

    served  place on webpte's own server, relative to Pyodide's files
    url     address for pages that webpte does not serve
    sha256  hash of its text, from either place
    """

    served: str
    url: str
    sha256: str


class TextEngine(Protocol):
    """Text to tokens and back; special tokens are treated like other tokens."""

    def encode(self, text: str, special: bool) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def join(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens, spelled as in the vocabulary."""

    def places(self, text: str) -> Sequence[tuple[int, int, int | None]] | None:
        """Return start, end and word of each token; None if the library does not know them."""


async def javascript_tokenizer(
    module: JavaScriptModule, text: str, config: Mapping[str, str], name: str
) -> TextEngine:
    """Load a tokenizer.json in the browser with the given Hugging Face module."""
    from webpte.engine.browser.libraries import JavaScriptTokenizer, load_javascript_module

    library = await load_javascript_module(module.served, module.url, module.sha256)
    return JavaScriptTokenizer(library, text, config, name)
