"""The time of a single call in a browser without Python: a lower bound for `serve.py bench`.

    PYTHONPATH=pysrc:tests python -m bench.floor_bench [--adapter swiftshader] [--calls 300]

Plain JavaScript in a worker writes an input, encodes dependent dispatches that do next to nothing,
submits, and maps a small result, by each of the methods of waiting.js. The rest of a model's call
is its kernels and our Python.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from webpte_host.harness.browser import open_browser
from webpte_host.serving.server import Site

_WORKER = """
const gpu = async () => {
  for (let i = 0; i < 5; i++) {
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (adapter) return adapter.requestDevice();
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
};
const code = `
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += 1u; }`;
const { MAP_READ, MAP_WRITE, COPY_SRC, COPY_DST, STORAGE } = GPUBufferUsage;

const nudge = async (device, way, pending) => {
  if (way === "plain") return pending;
  let open = true;
  pending.then(() => { open = false; });
  while (open) {
    if (way === "submit") device.queue.submit([]);
    device.pushErrorScope("validation");
    await device.popErrorScope();
  }
  return pending;
};

// How an input goes up: gives what is to be encoded before the dispatches, if something is.
const uploads = {
  write: ({ device, buffer }, input) => device.queue.writeBuffer(buffer, 0, input),
  flushed({ device, buffer }, input) {
    device.queue.writeBuffer(buffer, 0, input);
    device.queue.submit([]);
  },
  pieces({ device, buffer }, input) {
    for (let at = 0; at < input.length; at += 65536) {
      device.queue.writeBuffer(buffer, at, input, at, Math.min(65536, input.length - at));
    }
  },
  flushed_pieces({ device, buffer }, input) {
    for (let at = 0; at < input.length; at += 131072) {
      device.queue.writeBuffer(buffer, at, input, at, Math.min(131072, input.length - at));
      device.queue.submit([]);
    }
  },
  // A buffer that is mapped already: it was mapped again while the call before was waited for.
  mapped(state, input) {
    const staging = state.ready.pop() ?? state.device.createBuffer({
      size: input.length, usage: MAP_WRITE | COPY_SRC, mappedAtCreation: true,
    });
    new Uint8Array(staging.getMappedRange(0, input.length)).set(input);
    staging.unmap();
    state.used.push(staging);
    return (encoder) => encoder.copyBufferToBuffer(staging, 0, state.buffer, 0, input.length);
  },
  created(state, input) {
    const staging = state.device.createBuffer({
      size: input.length, usage: COPY_SRC, mappedAtCreation: true,
    });
    new Uint8Array(staging.getMappedRange()).set(input);
    staging.unmap();
    state.spent.push(staging);
    return (encoder) => encoder.copyBufferToBuffer(staging, 0, state.buffer, 0, input.length);
  },
};

onmessage = async ({ data: { cases, calls } }) => {
  const device = await gpu();
  const module = device.createShaderModule({ code });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const buffer = device.createBuffer({ size: 1 << 20, usage: STORAGE | COPY_SRC | COPY_DST });
  const layout = pipeline.getBindGroupLayout(0);
  const group = device.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer } }] });
  const results = [];
  for (const kind of cases) {
    const { dispatches, bytes, way, upload, read } = kind;
    const state = { device, buffer, ready: [], used: [], spent: [] };
    const result = device.createBuffer({ size: read, usage: MAP_READ | COPY_DST });
    const input = new Uint8Array(bytes);
    const times = [], submits = [];
    for (let call = 0; call < calls; call++) {
      const begun = performance.now();
      const before = bytes ? uploads[upload](state, input) : null;
      const encoder = device.createCommandEncoder();
      before?.(encoder);
      const pass = encoder.beginComputePass();
      for (let i = 0; i < dispatches; i++) {
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(16);
      }
      pass.end();
      encoder.copyBufferToBuffer(buffer, 0, result, 0, read);
      device.queue.submit([encoder.finish()]);
      submits.push(performance.now() - begun);
      const mapped = state.used.splice(0).map((staging) => (
        staging.mapAsync(GPUMapMode.WRITE).then(() => { state.ready.push(staging); })
      ));
      await nudge(device, way, result.mapAsync(GPUMapMode.READ));
      new Uint8Array(result.getMappedRange()).slice();
      result.unmap();
      times.push(performance.now() - begun);
      await Promise.all(mapped);
      for (const staging of state.spent.splice(0)) staging.destroy();
    }
    for (const staging of [result, ...state.ready]) staging.destroy();
    const later = (all) => all.slice(all.length >> 1).sort((a, b) => a - b); // warm by then
    const middle = (all) => later(all)[later(all).length >> 1];
    const ms = { ms: middle(times), best: later(times)[0], submit: middle(submits) };
    results.push({ ...kind, ...ms });
  }
  postMessage(results);
};
"""

_PAGE = """
([worker, message]) => new Promise((resolve, reject) => {
  const made = new Worker(URL.createObjectURL(new Blob([worker], { type: "text/javascript" })));
  made.onmessage = ({ data }) => resolve(data);
  made.onerror = (event) => reject(new Error(event.message));
  made.postMessage(message);
})
"""


WAYS = ("plain", "scope", "submit")
UPLOADS = ("write", "flushed", "pieces", "flushed_pieces", "mapped", "created")
PICTURE = 602_112  # bytes of 3 x 224 x 224 floats


def _case(
    dispatches: int, nbytes: int = 0, way: str = "scope", upload: str = "write", read: int = 4096
) -> dict[str, Any]:
    return {
        "dispatches": dispatches,
        "bytes": nbytes,
        "way": way,
        "upload": upload,
        "read": read,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", default="hardware")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = [
        *(_case(dispatches, 0, way) for way in WAYS for dispatches in (1, 50, 100)),
        *(_case(50, nbytes) for nbytes in (65_536, 301_056)),
        *(_case(50, PICTURE, upload=upload) for upload in UPLOADS),
        *(_case(50, read=read) for read in (65_536, 196_608)),
    ]
    with Site() as site, open_browser(options.adapter) as browser:
        page = browser.new_page()
        page.goto(f"{site.url}floor.html")  # any answer has the site's origin
        page.set_default_timeout(600_000)
        found = page.evaluate(_PAGE, [_WORKER, {"cases": cases, "calls": options.calls}])
    for row in found:
        print(
            f"{row['way']:7} {row['dispatches']:4} dispatches, {row['bytes']:7,} bytes up by "
            f"{row['upload']:14} {row['read']:7,} back: {row['ms']:.2f} ms "
            f"(best {row['best']:.2f}, until submitted {row['submit']:.2f})"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
