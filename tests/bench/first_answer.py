"""Measures bytes and time until the first answer of a digit in a new tab: compiled, page, peers.

    PYTHONPATH=pysrc:tests python -m bench.first_answer WORK --modules NODE_MODULES [--page URL]

WORK          a folder for the pages; with digits.onnx the peers run, which `--onnx` writes there by
              the package onnx
NODE_MODULES  where npm installed onnxruntime-web and @huggingface/transformers
URL           where `serve.py` serves the page, for its row

All files are sent compressed where that helps. Each run is a new browser context without a cache.
The bytes of the page are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

import webpte
from support.harness.limits import EXPECT_MS
from support.page.strokes import draw_one
from webpte_host.base.layout import ROOT
from webpte_host.commands.compile import main as compile_command
from webpte_host.harness.browser import open_browser
from webpte_host.serving.routing import COMMON_HEADERS, media_type

DIGITS = ROOT / "web" / "samples" / "digits.pte"
ISOLATED = {
    name: COMMON_HEADERS[name]
    for name in ("Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy")
}
PAGES = {
    "compiled": """
import { open } from "./digits/index.js";
const program = await open();
const [scores] = await program.forward(input);
answered(scores.data);
""",
    "onnxruntime-web": """
import * as ort from "./ort/ort.webgpu.min.mjs";
ort.env.wasm.wasmPaths = new URL("./ort/", document.baseURI).href;
const options = { executionProviders: ["webgpu"] };
const session = await ort.InferenceSession.create("digits.onnx", options);
const found = await session.run({ picture: new ort.Tensor("float32", input, [1, 1, 28, 28]) });
answered(found.digit.data);
""",
    "transformers.js": """
import { AutoModel, Tensor, env } from "./transformers/transformers.web.min.js";
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = new URL("./", document.baseURI).href;
env.backends.onnx.wasm.wasmPaths = new URL("./ort/", document.baseURI).href;
const model = await AutoModel.from_pretrained("model", { device: "webgpu", dtype: "fp32" });
const found = await model({ picture: new Tensor("float32", input, [1, 1, 28, 28]) });
answered(found.digit.data);
""",
}
HTML = """<!doctype html><title>%s</title><link rel="icon" href="data:,">
<script type="importmap">{"imports": {
  "onnxruntime-web/webgpu": "./ort/ort.webgpu.min.mjs",
  "onnxruntime-web": "./ort/ort.webgpu.min.mjs",
  "onnxruntime-common": "./common/index.js"}}</script>
<script type="module">
const input = new Float32Array(784);
for (let y = 4; y < 24; y += 1) input.fill(1, y * 28 + 13, y * 28 + 16); // a stroke
const answered = (scores) => {
  globalThis.first = { ms: performance.now(), digit: scores.indexOf(Math.max(...scores)) };
};
%s
</script>"""


class Sent:
    """A server of a folder that compresses files, and counts the bytes that went out."""

    def __init__(self, folder: Path) -> None:
        self.bytes = 0
        self._packed: dict[Path, tuple[bytes, bool]] = {}
        sent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.partition("?")[0].lstrip("/")
                path = folder / (name + "index.html" if name.endswith("/") or not name else name)
                if not path.is_file():
                    self.send_error(404)
                    return
                data, is_packed = sent.packed(path)
                self.send_response(200)
                headers = {**ISOLATED, "Content-Type": media_type(path.name)}
                headers |= {"Content-Length": str(len(data)), "Cache-Control": "max-age=600"}
                headers |= {"Content-Encoding": "gzip"} if is_packed else {}
                for header, value in headers.items():
                    self.send_header(header, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)
                    sent.bytes += len(data)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://localhost:{self._server.server_address[1]}/"

    def packed(self, path: Path) -> tuple[bytes, bool]:
        if path not in self._packed:
            data = path.read_bytes()
            smaller = gzip.compress(data, 9)
            is_packed = len(smaller) < 0.95 * len(data)
            self._packed[path] = (smaller if is_packed else data), is_packed
        return self._packed[path]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(folder: Path) -> Iterator[Sent]:
    sent = Sent(folder)
    try:
        yield sent
    finally:
        sent.stop()


def write_onnx(path: Path) -> None:
    """Write the network of the sample with its weights for the peers."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save  # type: ignore[import-not-found]

    from webpte.program import build_of

    async def constants() -> dict[int, np.ndarray]:
        async with await webpte.load(DIGITS, device="numpy") as program:
            graph = build_of(program).methods["forward"].only_delegate.graph  # type: ignore[union-attr]
            found = {}
            for value in graph.values:
                constant = getattr(value, "constant", None)
                if constant is not None:
                    data = await constant.region.read(0, constant.region.size)
                    found[value.id] = np.frombuffer(data, np.float32).reshape(value.dims)
            return found

    weights = list(asyncio.run(constants()).values())
    nodes, given = [], "picture"
    for layer in range(4):
        inputs = [given, f"w{2 * layer}", f"w{2 * layer + 1}"]
        strides = [1, 1] if layer == 0 else [2, 2]
        conv = helper.make_node("Conv", inputs, [f"c{layer}"], pads=[1] * 4, strides=strides)
        nodes += [conv, helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"])]
        given = f"r{layer}"
    nodes += [
        helper.make_node("Flatten", [given], ["flat"]),
        helper.make_node("Gemm", ["flat", "w8", "w9"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["digit"], axis=-1),
    ]
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("picture", floats, [1, 1, 28, 28])],
        [helper.make_tensor_value_info("digit", floats, [1, 10])],
        [numpy_helper.from_array(one, f"w{at}") for at, one in enumerate(weights)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(made, str(path))


def write_pages(work: Path, modules: Path) -> None:
    """Write the pages, and link the modules that these import."""
    compile_command([str(DIGITS), str(work / "digits"), "--task", "none"])
    for name, script in PAGES.items():
        (work / f"{name}.html").write_text(HTML % (name, script), "utf-8")
    for name, target in {
        "ort": modules / "onnxruntime-web" / "dist",
        "transformers": modules / "@huggingface" / "transformers" / "dist",
        "common": modules / "onnxruntime-common" / "dist" / "esm",
    }.items():
        if not (work / name).exists():
            (work / name).symlink_to(target)
    model = work / "model" / "onnx" / "model.onnx"
    if (work / "digits.onnx").is_file() and not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        os.link(work / "digits.onnx", model)
        (work / "model" / "config.json").write_text(json.dumps({"model_type": "custom"}))


def measure(browser: Browser, sent: Sent, name: str) -> tuple[float, int]:
    """Return milliseconds and bytes until the first answer in a new context."""
    context = browser.new_context()
    page = context.new_page()
    page.on("pageerror", lambda error: print(name, error))
    before = sent.bytes
    page.goto(f"{sent.url}{name}.html")
    page.wait_for_function("globalThis.first", timeout=EXPECT_MS)
    first = page.evaluate("first")
    assert first["digit"] == 1, first
    count = sent.bytes - before
    context.close()
    return first["ms"], count


def measure_page(browser: Browser, url: str) -> tuple[float, int]:
    """Return milliseconds, and 0, for the page: a stroke is drawn as soon as there is a pad."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{url}?model=digits&view=run", wait_until="commit")
    pad = page.locator("canvas.pad").first
    pad.wait_for()
    draw_one(page, pad)
    page.locator(".largest .label-name").first.wait_for(timeout=EXPECT_MS)
    ms = page.evaluate("performance.now()")
    context.close()
    return ms, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--modules", type=Path, required=True)
    parser.add_argument("--page", default="")
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.onnx:
        write_onnx(options.work / "digits.onnx")
    write_pages(options.work, options.modules)
    has_onnx = (options.work / "digits.onnx").is_file()
    names = [name for name in PAGES if has_onnx or name == "compiled"]
    rows: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
    with open_browser() as browser, serving(options.work) as sent:
        for turn in range(options.times + 1):
            for name in names:
                found = measure(browser, sent, name)
                if turn:  # the first has waited for the server to compress
                    rows[name].append(found)
        if options.page:
            measure_page(browser, options.page)
            rows["page"] = [measure_page(browser, options.page) for _ in range(options.times)]
    for name, runs in rows.items():
        ms = statistics.median(one for one, _ in runs)
        least = min(one for one, _ in runs)
        print(f"{name:<18} {ms:>8.0f} ms (least {least:.0f})  {runs[0][1]:>12,} bytes")


if __name__ == "__main__":
    main()
