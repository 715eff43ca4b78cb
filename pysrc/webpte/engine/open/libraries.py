"""Optional libraries, loaded on demand because only some programs need them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

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


async def javascript_library(
    module: JavaScriptModule, script: str, shelf: str
) -> Callable[..., Any]:
    """Load a module in the browser.

    Returns the function that a script of a shelf of webpte is, with the module as first argument.
    """
    from webpte.engine.browser.libraries import load_javascript_module
    from webpte.engine.browser.scripts import load_script

    library = await load_javascript_module(module.served, module.url, module.sha256)
    return partial(load_script(script, shelf), library)
