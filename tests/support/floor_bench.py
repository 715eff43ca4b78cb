"""What a lone call costs a browser without Python: the floor under `serve.py bench`.

    PYTHONPATH=pysrc:tests python -m support.floor_bench [--adapter swiftshader] [--calls 300]

Plain JavaScript in a worker writes an input, encodes dispatches that depend on each other and do
next to nothing, submits, and maps a small result, in the ways that gpu/waiting.js knows. What a
model's call takes above that is its kernels and our Python.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from webpte_host.browser import open_browser
from webpte_host.server import Site

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
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += 1u; }`;
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
onmessage = async ({ data: { cases, calls } }) => {
  const device = await gpu();
  const module = device.createShaderModule({ code });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const buffer = device.createBuffer({ size: 1 << 20, usage: 0x80 | 0x8 | 0x4 });
  const staging = device.createBuffer({ size: 4096, usage: 0x1 | 0x8 });
  const layout = pipeline.getBindGroupLayout(0);
  const group = device.createBindGroup({ layout, entries: [{ binding: 0, resource: { buffer } }] });
  const results = [];
  for (const { dispatches, bytes, way } of cases) {
    const input = new Uint8Array(bytes);
    const times = [], submits = [];
    for (let call = 0; call < calls; call++) {
      const begun = performance.now();
      if (bytes) device.queue.writeBuffer(buffer, 0, input);
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      for (let i = 0; i < dispatches; i++) {
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(16);
      }
      pass.end();
      encoder.copyBufferToBuffer(buffer, 0, staging, 0, 4096);
      device.queue.submit([encoder.finish()]);
      submits.push(performance.now() - begun);
      await nudge(device, way, staging.mapAsync(1));
      new Uint8Array(staging.getMappedRange()).slice();
      staging.unmap();
      times.push(performance.now() - begun);
    }
    const later = (all) => all.slice(all.length >> 1).sort((a, b) => a - b); // warm by then
    const middle = (all) => later(all)[later(all).length >> 1];
    results.push({ dispatches, bytes, way, ms: middle(times), best: later(times)[0], submit: middle(submits) });
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", default="hardware")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = ((1, 0), (50, 0), (50, 602_112), (100, 0))
    cases = [
        {"dispatches": dispatches, "bytes": nbytes, "way": way}
        for way in ("plain", "scope", "submit")
        for dispatches, nbytes in sizes
    ]
    with Site() as site, open_browser(options.adapter) as browser:
        page = browser.new_page()
        page.goto(f"{site.url}floor.html")  # any answer has the site's origin
        page.set_default_timeout(600_000)
        found = page.evaluate(_PAGE, [_WORKER, {"cases": cases, "calls": options.calls}])
    for row in found:
        print(
            f"{row['way']:7} {row['dispatches']:4} dispatches {row['bytes']:7} bytes up: "
            f"{row['ms']:.2f} ms (best {row['best']:.2f}, until submitted {row['submit']:.2f})"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
