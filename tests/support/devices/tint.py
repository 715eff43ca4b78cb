"""Compiles the kernels of subgroup matrices, and the self-tests of devices, with Dawn's compiler.

    npm install webgpu        # in any folder
    PYTHONPATH=pysrc:tests python -m support.devices.tint FOLDER/node_modules/webgpu

No GPU and no browser of the tests takes these kernels. Dawn has a device that runs nothing and has
every feature, and npm's `webgpu` brings it for Linux, macOS and Windows (130 MB).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.devices.variants import MATRICES, lower
from webpte.engine.plan.shaders import ShaderLibrary
from webpte_host.base.layout import ROOT

# As NVIDIA, Apple and Intel have them, and AMD, whose kernels ask for the size of a subgroup.
TARGETS = (
    MATRICES,
    replace(MATRICES, matrix_shape=(8, 8, 8)),
    replace(MATRICES, matrix_shape=(8, 16, 16)),
    replace(MATRICES, sized_subgroups=True),
)
SCRIPT = Path(__file__).with_suffix(".mjs")


def kernels() -> list[dict[str, Any]]:
    """Return the kernels of layers that use subgroup matrices, and the self-test of these."""
    found = []
    for target in TARGETS:
        about = f"{target.matrix_shape}{', sized' * target.sized_subgroups}"
        found += [
            {
                "label": f"{spec.label}, {about}",
                "code": spec.code,
                "overrides": dict(spec.overrides),
            }
            for spec in lower([], [], target)
        ]
        code = ShaderLibrary().assemble("lib/self_test/subgroup_matrix", target.matrix_types).code
        found.append({"label": f"self-test, {about}", "code": code, "overrides": {}})
    return found


def errors_of(specs: list[dict[str, Any]], package: Path) -> list[str]:
    """Return the compiler's messages about kernels that it does not take."""
    numbers = [
        {**spec, "overrides": {name: float(value) for name, value in spec["overrides"].items()}}
        for spec in specs
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "kernels.json")
        path.write_text(json.dumps(numbers), encoding="utf-8")
        command = ["node", *map(str, (SCRIPT, path, package.resolve()))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found: list[str] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path, help="the folder of npm's package `webgpu`")
    specs = kernels()
    found = errors_of(specs, parser.parse_args().package)
    print("\n".join([*found, f"{len(specs)} kernels, {len(found)} errors"]))
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
