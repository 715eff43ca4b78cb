"""Browsers that lack an API: programs are read and run all the same, and a message names it.

Python runs in a worker, so the API is taken away in the worker, and given back.
"""

from __future__ import annotations

import pytest

from support.page.page import python
from webpte_host.harness.browser import Harness

WITHOUT = """
from pyodide.code import run_js
from pyodide.ffi import to_js
from webpte.engine.browser import opfs_cache, scripts

def forget_store():
    # The library looks again at what the browser has.
    opfs_cache._store.cache_clear()
    scripts.load_script.cache_clear()

x = np.linspace(-3, 3, 37 * 41, dtype=np.float32).reshape(37, 41)
back = run_js('''([owner, name]) => {
    const place = owner.split(".").reduce((found, part) => found[part], globalThis);
    const there = Object.getOwnPropertyDescriptor(place, name);
    if (!there) throw new Error(`this browser has no ${name} anyway`);
    Object.defineProperty(place, name, { configurable: true, value: undefined });
    return () => Object.defineProperty(place, name, there);
}''')(to_js([owner, name]))
forget_store()
try:
    file = await webpte.library.open("/samples/sigmoid.pte")
    async with await webpte.load(file) as program:
        (y,) = await program.forward(x)
    kept = await file.keep()
    blob = run_js("new Blob(['a copy'])")
    error = await raises(webpte.errors.SourceError, webpte.library.add(blob, "mine.pte"))
    return [float(abs(y - 1 / (1 + np.exp(-x))).max()), kept, error]
finally:
    back()
    forget_store()
"""


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("StorageManager.prototype", "getDirectory"),
        ("FileSystemFileHandle.prototype", "createWritable"),
        ("WorkerNavigator.prototype", "locks"),
    ],
)
def test_where_files_cannot_be_stored_programs_run_and_nothing_is_kept(
    harness: Harness, owner: str, name: str
) -> None:
    off, kept, error = python(harness, WITHOUT, owner=owner, name=name)
    assert off < 1e-5
    assert not kept
    assert "keeps no files" in error
