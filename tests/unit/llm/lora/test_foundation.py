"""Programs that were exported with a LoRA each, over one foundation in a `.ptd` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.write.pte_writer import GraphWriter, constants_of, write_ptd, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ConstantError

RNG = np.random.default_rng(2)
WEIGHT = RNG.normal(size=(6, 5)).astype(np.float32)
X = RNG.normal(size=(3, 5)).astype(np.float32)


def program(a: np.ndarray, b: np.ndarray) -> tuple[bytes, dict[str, bytes]]:
    """Write y = x W' + (x A') B', with constants outside; return these, too."""
    g = GraphWriter()
    x = g.tensor((3, 5))

    def linear(given: int, weight: np.ndarray) -> int:
        kept = g.prepack(g.tensor(weight.shape, constant=weight))
        out = g.tensor((3, len(weight)))
        return g.op("aten.linear.default", given, kept, g.null(), out)

    base, branch = linear(x, WEIGHT), linear(linear(x, a), b)
    out = g.op("aten.add.Tensor", base, branch, g.int(1), g.tensor((3, 6)))
    g.inputs(x)
    g.outputs(out)
    return write_pte(g, external_constants=True), constants_of(g)


def test_one_foundation_for_programs_with_loras_of_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        device = SimulatedDevice()
        for n in range(3):
            a = RNG.normal(size=(2, 5)).astype(np.float32)
            b = RNG.normal(size=(6, 2)).astype(np.float32)
            file, constants = program(a, b)
            shared = next(key for key, data in constants.items() if data == WEIGHT.tobytes())
            foundation, own = tmp_path / "foundation.ptd", tmp_path / f"lora{n}.ptd"
            if not n:
                foundation.write_bytes(write_ptd({shared: constants.pop(shared)}))
            constants.pop(shared, None)
            own.write_bytes(write_ptd(constants))
            with pytest.raises(ConstantError, match=r"\.ptd file, open it together"):
                await webpte.load(file, device=device, data=[foundation])
            loaded = await webpte.load(file, device=device, data=[foundation, own])
            assert loaded.stats.prepack_transfers == (2 if n else 3)
            (y,) = await loaded.forward(X)
            np.testing.assert_allclose(y, X @ (WEIGHT + b @ a).T, atol=1e-5)
            kept.append(loaded)

    kept: list[webpte.Program] = []
    wait(run())
