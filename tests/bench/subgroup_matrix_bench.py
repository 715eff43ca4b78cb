"""Times the GEMMs of prefill in a browser on a GPU: subgroup matrices against float tiles.

    PYTHONPATH=pysrc:tests python -m bench.subgroup_matrix_bench [--runs 30] [--rows 512] [--small]

For each of the 1B Llama's GEMMs, by the GPU's own clock: the default float tiles, the default
subgroup matrices, and every tile config of these. `error` is the largest difference from float
tiles, relative to the largest element; split f16 should stay below 1e-5. Kernels with their times
go to --json.
"""

from __future__ import annotations

import argparse
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from support.cases.gemm.linear_q4_cases import Q4GSW
from support.harness import limits
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.harness.browser import Harness, open_browser
from webpte_host.serving.server import Site
from webpte_host.setup.chromium import ADAPTERS

GROUP = 32
SHAPES = ((2048, 2048), (8192, 2048), (2048, 8192), (512, 2048))  # columns, k
SMALL = ((96, 64),)

CODE = """
from base64 import b64decode
import numpy as np
import webpte
from webpte import WebpteError
from webpte.engine.call.options import DeveloperOptions
from webpte.engine.ops.gemm import gemm, subgroup_matrix

random = np.random.default_rng(1)
x = random.normal(size=(m, k)).astype(np.float32)
packed = random.integers(0, 256, (n, k // 2), np.uint8)
scales = random.uniform(0.01, 0.1, (k // group, n)).astype(np.float32)

async def timed(matrices):
    # The result, and the least microseconds of each kernel.
    options = DeveloperOptions(subgroup_matrices=matrices)
    async with await webpte.load(b64decode(data), options=options) as program:
        (result,) = await program.forward(x, packed, scales)
        rounds = [await program.profile("forward", x, packed, scales) for _ in range(runs)]
        rows = [row for row in zip(*rounds) if not row[0][0].startswith("host")]
        return result, [(row[0][0], min(us for _, us in row)) for row in rows]

info = (await webpte.shared_device()).info
found = {"has matrices": info.has_subgroup_matrices, "rows": []}
found["matrix shapes"] = info.matrix_shapes
expected, kernels = await timed(False)
found["rows"].append(("float tiles", kernels, 0.0))
if not info.has_subgroup_matrices:
    return found
chosen = subgroup_matrix.choose_matrix_tile_config
configs = [None, *((t, p) for t in subgroup_matrix.MATRIX_TILE_CONFIGS for p in (1, 2, 4, 8))]
for config in configs:
    name = "as chosen" if config is None else gemm.config_label(config)
    try:
        subgroup_matrix.choose_matrix_tile_config = (lambda *_: config) if config else chosen
        result, kernels = await timed(True)
    except WebpteError as error:
        found["rows"].append((f"{name}: {error}", [], 0.0))
        continue
    finally:
        subgroup_matrix.choose_matrix_tile_config = chosen
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    found["rows"].append((name, kernels, error))
return found
"""


def program(m: int, n: int, k: int) -> bytes:
    g = GraphWriter()
    x, out = g.tensor((m, k), "float32"), g.tensor((m, n), "float32")
    packed, scales = g.tensor((n, k // 2), "uint8"), g.tensor((k // GROUP, n), "float32")
    g.op(Q4GSW, x, packed, scales, g.int(GROUP), g.null(), out)
    g.inputs(x, packed, scales)
    g.outputs(out)
    return write_pte(g)


def show(m: int, n: int, k: int, found: dict[str, Any]) -> None:
    print(f"{m} x {k} x {n}; matrices: {found['has matrices']} {found['matrix shapes']}")
    for name, kernels, error in found["rows"]:
        total = sum(us for _, us in kernels)
        speed = 2 * m * n * k / total / 1e6 if total else 0.0
        parts = ", ".join(f"{label.split()[0]} {us:.0f}" for label, us in kernels)
        print(f"  {name:<16}{total:9.1f} us {speed:7.1f} TFLOP/s  error {error:.1e}  ({parts})")


def main(options: argparse.Namespace) -> None:
    everything = []
    with Site() as site, open_browser(options.adapter) as browser:
        harness = Harness.open(browser, site)
        for n, k in SMALL if options.small else SHAPES:
            sizes = {"m": options.rows, "n": n, "k": k}
            data = b64encode(program(**sizes)).decode()
            given = {**sizes, "group": GROUP, "runs": options.runs, "data": data}
            found = harness.python(CODE, timeout=limits.CALL_SECONDS, **given)
            show(**sizes, found=found)
            everything.append({**sizes, **found})
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", choices=ADAPTERS, default="hardware")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true", help="one tiny GEMM, to test that it runs")
    main(parser.parse_args())
