"""One small program in every mode in which a page can run it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.harness import limits
from support.write.pte_writer import GraphWriter, write_pte
from support.write.wheel import build_wheel
from webpte_host.base.layout import RUNTIME
from webpte_host.harness.browser import Harness, PageLog
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

PYODIDE = "https://cdn.jsdelivr.net/pyodide/v314.0.3/full/"
WEIGHTS = np.array([[0.5, -1, 2], [3, 0, -2]], np.float32)
X = np.array([1, 2, -3], np.float32)

# What every way runs: a program from a URL and from bytes, and the device that it ran on.
BODY = """
import numpy as np
import webpte

async def run_model(url):
    async with await webpte.load(url) as program:
        (y,) = await program.forward(np.array([1, 2, -3], np.float32))
        return {"y": y.tolist(), "device": program.device_info.kind, "name": program.name}
"""

# Plain Pyodide, into which micropip installs the wheel from its address, with its dependencies.
WHEEL_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>wheel</title>
<link rel="icon" href="data:,">
<script type="module" src="./wheel.js"></script></head>
<body><pre id="output"></pre></body></html>
"""
WHEEL_SCRIPT = """
import { loadPyodide } from "/runtime/pyodide/pyodide.mjs";
const output = document.getElementById("output");
try {
  const pyodide = await loadPyodide({ packages: ["micropip"] });
  await pyodide.pyimport("micropip").install(`${location.origin}/modes/NAME`);
  const code = await (await fetch("./body.py")).text();
  const call = `import json\\njson.dumps(await run_model("${location.origin}/modes/model.pte"))`;
  output.textContent = await pyodide.runPythonAsync(code + "\\n" + call);
} catch (error) {
  output.textContent = JSON.stringify({ error: String(error) });
}
output.dataset.done = "yes";
"""


def model() -> bytes:
    """Build relu(x * w) + 1, with a broadcast, a prepacked constant and a view."""
    g = GraphWriter()
    x = g.tensor((3,))
    w = g.prepack(g.tensor((2, 3), constant=WEIGHTS))
    one = g.prepack(g.tensor((), constant=np.ones((), np.float32)))
    a = g.op("aten.mul.Tensor", x, w, g.tensor((2, 3)))
    b = g.op("aten.relu.default", a, g.tensor((2, 3)))
    c = g.op("aten.view_copy.default", b, g.int_list([3, 2]), g.tensor((3, 2)))
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", c, one, g.int(1), g.tensor((3, 2))))
    return write_pte(g)


WANTED = (np.maximum(X * WEIGHTS, 0) + 1).reshape(3, 2).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modes")
    (folder / "model.pte").write_bytes(model())
    (folder / "body.py").write_text(BODY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def modes_site(folder: Path) -> Iterator[Site]:
    with Site(mounts=[Mount("/modes/", folder)]) as site:
        yield site


def result_of(page: Page, url: str) -> dict[str, object]:
    """Open the page, wait until its Python is done, and return the printed result."""
    log = PageLog(page)
    page.goto(url)
    output = page.locator("#output")
    expect(output).to_have_attribute("data-done", "yes", timeout=limits.START_MS)
    assert log.errors == []
    result: dict[str, object] = json.loads(output.text_content() or "")
    return result


def test_plain_pyodide(harness: Harness, folder: Path) -> None:
    code = BODY + "\nreturn await run_model(base64.b64decode(program))"
    from support.page.page import encode_bytes

    program = encode_bytes((folder / "model.pte").read_bytes())
    result = harness.python("import base64\n" + code, program=program)
    assert result == {"y": WANTED, "device": "webgpu", "name": "bytes"}


@pytest.mark.thorough  # PyScript's own tests cover its worker
@pytest.mark.parametrize(("name", "where"), [("worker", "a worker"), ("main", "the main thread")])
def test_pyscript(profile: BrowserContext, site: Site, name: str, where: str) -> None:
    """The examples: a page of twenty lines that runs a sample."""
    page = profile.new_page()
    log = PageLog(page)
    page.goto(f"{site.url}examples/{name}.html")
    said = page.get_by_text(f"In {where}, this is a 1.")
    expect(said).to_be_visible(timeout=limits.START_MS)
    assert (log.errors, log.console_errors) == ([], [])
    page.close()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files like `python3 -m http.server`, without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Serve a folder like any static host: without the headers of `serve.py`."""
    handler = partial(QuietHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.thorough
def test_three_files(page: Page, root: Path, tmp_path: Path) -> None:
    """The page of docs/use/python.md, with Pyodide from where its server would have it."""
    build_wheel(tmp_path)
    shutil.copy(root / "docs/examples/own_page/index.html", tmp_path)
    (tmp_path / "model.pte").write_bytes(model())
    page.route(
        f"{PYODIDE}*",
        lambda route: route.fulfill(
            path=RUNTIME / "pyodide" / route.request.url.rpartition("/")[2],
            headers={"Access-Control-Allow-Origin": "*"},
        ),
    )
    log = PageLog(page)
    with plain_server(tmp_path) as url:
        page.goto(url)
        expect(page.get_by_text("Ready: 3 random values in.")).to_be_visible(
            timeout=limits.START_MS
        )
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#output")).to_have_text(re.compile(r"^([\d.]+\n){5}[\d.]+$"))
    assert (log.errors, log.console_errors) == ([], [])


# As much of Pyodide as the page calls. Its Python function fails, as one does after a lost device.
FAILING_PYODIDE = """
export const loadPyodide = async () => ({
  pyimport: () => ({ install: async () => {} }),
  runPythonAsync: async () => {},
  runPython: () => 3,
  globals: new Map([["run", async () => { throw new Error("the GPU is gone"); }]]),
});
"""


@pytest.mark.thorough
def test_a_page_of_ones_own_shows_what_failed(page: Page, root: Path, tmp_path: Path) -> None:
    shutil.copy(root / "docs/examples/own_page/index.html", tmp_path)
    with plain_server(tmp_path) as url:
        page.route(f"{PYODIDE}*", lambda route: route.abort())
        page.goto(url)
        expect(page.locator("#status")).to_have_text(re.compile("Error: .*pyodide.mjs"))
        page.unroute(f"{PYODIDE}*")
        page.route(
            f"{PYODIDE}*",
            lambda route: route.fulfill(
                body=FAILING_PYODIDE,
                content_type="text/javascript",
                headers={"Access-Control-Allow-Origin": "*"},
            ),
        )
        page.reload()
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#status")).to_have_text("Error: the GPU is gone")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["javascript", "extension"])
def test_an_example_without_the_package_says_so(
    page: Page, root: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(root / "docs" / "examples" / name, tmp_path / name)
    with plain_server(tmp_path / name) as url:
        page.goto(f"{url}{'page' if name == 'extension' else 'index'}.html")
        expect(page.locator("#status")).to_have_text(re.compile("Error: .*webpte/index.js"))


@pytest.mark.thorough
def test_wheel(page: Page, modes_site: Site, folder: Path, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    (folder / "wheel.html").write_text(WHEEL_PAGE, encoding="utf-8")
    script = WHEEL_SCRIPT.replace("NAME", wheel.name)
    (folder / "wheel.js").write_text(script, encoding="utf-8")
    result = result_of(page, f"{modes_site.url}modes/wheel.html")
    assert result == {"y": WANTED, "device": "webgpu", "name": "model.pte"}
