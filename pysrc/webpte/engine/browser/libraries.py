"""Libraries that a page loads when something needs them: Python packages and JavaScript modules."""

from __future__ import annotations

import hashlib
from typing import Any

import pyodide_js
from js import URL, fetch
from pyodide.code import run_js
from pyodide.ffi import JsException

from webpte.engine.browser.scripts import registered_script
from webpte.errors import PackageError

# A CommonJS module is a function body. Evaluating it needs no address that the page's policy would
# have to allow for scripts, and the text is checked first.
_COMMONJS = "(text) => { const module = { exports: {} };\
 new Function('module', 'exports', text)(module, module.exports); return module.exports; }"


async def load_python_package(name: str) -> None:
    """Load a package of Pyodide by its name in Pyodide's lock file."""
    problems: list[str] = []
    try:
        await pyodide_js.loadPackage(
            name, messageCallback=lambda _: None, errorCallback=problems.append
        )
    except JsException as error:
        problems.append(str(error.message))
    if problems:
        raise PackageError(f"Pyodide could not load the package {name}: {'; '.join(problems)}")


async def load_javascript_module(path: str, url: str, sha256: str) -> Any:
    """Load a CommonJS module; returns its exports.

    path    place on webpte's own server, relative to Pyodide's files
    url     address for pages of other servers
    sha256  hash of the text, from either place
    """
    registered = registered_script(path)
    if registered is not None:
        return registered
    base = pyodide_js.lockfileBaseUrl
    addresses = [str(URL.new(path, base).href)] if base and "://" in str(base) else []
    tried = []
    for address in [*addresses, url]:
        try:
            reply = await fetch(address)
            text = await reply.text()
        except JsException as error:
            tried.append(f"{address}: {error.message}")
            continue
        if not reply.ok:
            tried.append(f"{address}: the server answered {reply.status}")
        elif hashlib.sha256(text.encode()).hexdigest() != sha256:
            tried.append(f"{address}: not the version that webpte needs")
        else:
            return run_js(_COMMONJS)(text)
    raise PackageError("a JavaScript module could not be loaded; tried " + "; ".join(tried))
