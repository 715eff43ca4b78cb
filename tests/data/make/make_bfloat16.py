"""Writes tests/suites/bfloat16.zip: bfloat16 outside of delegates, as ExecuTorch runs it.

    PYTHONPATH=pysrc:tests python tests/data/make/make_bfloat16.py

Run it in the export environment (docs/use/export.md). The results of `mixed`, which has delegates,
are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import Tensor, nn

from support.graphs.bfloat16 import EDGES
from support.write.pack_suite import Entry, write_zip
from webpte_host.base.layout import ROOT

BF16 = torch.bfloat16
OUT = ROOT / "tests" / "suites" / "bfloat16.zip"


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(7, 13), nn.LayerNorm(13), nn.Linear(13, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.norm(self.first(x)))
        return torch.softmax(self.last(hidden), -1)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(5, 5, 3, groups=5, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        pooled = nn.functional.max_pool2d(x, 2)
        gates = torch.sigmoid(self.depthwise(x))[:, :, :3, :3]
        return nn.functional.avg_pool2d(pooled + gates, 2)


class Embedding(nn.Module):
    """An embedding and an RMS norm in float32, as language models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.weight = nn.Embedding(11, 8), nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        wide = self.table(tokens).float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = (wide * scale).to(BF16) * self.weight
        return x, x @ x.transpose(-1, -2), torch.argmax(x, -1)


class Casts(nn.Module):
    def forward(self, x: Tensor, half: Tensor, f: Tensor, n: Tensor, b: Tensor) -> tuple[Any, ...]:
        back = half.to(BF16), f.to(BF16), n.to(BF16), b.to(BF16)
        return x.float(), x.half(), x.to(torch.int32), x.double(), *back


class Running(nn.Module):
    """A sum in a buffer, from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([0.1, 1, -3, 0.5, 7.0]).to(BF16))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        self.total.add_(x * 0.3)
        return self.total + 0, self.total.float()


class Arithmetic(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        chosen = torch.where(x > 0.3, x, y), torch.minimum(x, y), torch.clamp(x, -0.7, 0.9)
        return x + y, x * 1.7, x / y, *chosen, x < 0.3, x == 0.3


class Moves(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b = torch.split(x, [3, 4], 1)
        made = torch.full((5, 1), 0.3, dtype=BF16), torch.arange(0, 1, 0.2, dtype=BF16)
        moved = torch.cat([b, a, made[0]], 1), x.permute(1, 0), x[1:4, ::2], x.repeat(1, 2)
        reduced = x.sum(1), x.mean(0), x.amax(1), x.cumsum(0)
        return *moved, *reduced, torch.exp(x), torch.tanh(x), torch.sqrt(x.abs()), made[1]


class Mixed(nn.Module):
    """float32 in delegates, bfloat16 between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, 13), nn.Linear(13, 5).to(BF16)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x)).to(BF16)
        return torch.tanh(self.last(hidden)).float() * 2


class Model(NamedTuple):
    """A module, the inputs of its calls, and how near results must come."""

    module: nn.Module
    steps: Sequence[tuple[Tensor, ...]]
    rtol: float  # 2^-8 is a bit of bfloat16
    atol: float
    delegated: bool = False


def random(*sizes: int) -> Tensor:
    return torch.randn(*sizes).to(BF16)


def models() -> dict[str, Model]:
    torch.manual_seed(1)
    size = len(EDGES)
    whole, truth = torch.arange(size) * 1001 - 11000, torch.arange(size) % 2 == 0
    casts = random(size) * 100, (torch.randn(size) * 10).half(), torch.from_numpy(EDGES), whole
    tenths = (torch.arange(35).reshape(5, 7) / 10 - 1).to(BF16)
    return {
        "perceptron": Model(Perceptron().to(BF16), [(random(3, 7),)], 0.016, 0.004),
        "convolutions": Model(Convolutions().to(BF16), [(random(1, 3, 12, 12),)], 0.03, 0.01),
        "embedding": Model(
            Embedding().to(BF16), [(torch.tensor([[3, 0, 10, 7, 7]]),)], 0.016, 0.02
        ),
        "casts": Model(Casts(), [(*casts, truth)], 0, 0),
        "running": Model(Running(), [(random(5),) for _ in range(3)], 0.008, 0.004),
        "arithmetic": Model(Arithmetic(), [(tenths, random(5, 7))], 0, 0),
        "moves": Model(Moves(), [(random(5, 7),)], 0.008, 0.004),
        "mixed": Model(Mixed(), [(torch.randn(3, 7),)], 0.016, 0.01, delegated=True),
    }


def save(folder: Path, name: str, tensor: Tensor) -> Entry:
    plain = tensor.detach().contiguous()
    data = (plain.view(torch.int16) if plain.dtype == BF16 else plain).numpy().tobytes()
    (folder / name).write_bytes(data)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"path": name, "shape": list(tensor.shape), "dtype": dtype}


def write(folder: Path, case: str, model: Model) -> Entry:
    """Export a model, run it, and return its entry in the manifest."""
    module, name = model.module.eval(), f"bfloat16__{case}"
    edge = to_edge_transform_and_lower(
        torch.export.export(module, model.steps[0]),
        partitioner=[VulkanPartitioner()] if model.delegated else [],
        compile_config=EdgeCompileConfig(_check_ir_validity=model.delegated),
    )
    program = edge.to_executorch().buffer
    (folder / f"{name}.pte").write_bytes(program)
    run: Any = module
    if not model.delegated:
        method = Runtime.get().load_program(program).load_method("forward")
        run = lambda *inputs: method.execute(list(inputs))  # noqa: E731
    steps = []
    for at, inputs in enumerate(model.steps):
        results = run(*inputs)
        results = [results] if isinstance(results, Tensor) else results
        given = [save(folder, f"{name}.s{at}.in{i}.bin", one) for i, one in enumerate(inputs)]
        goldens = [
            save(folder, f"{name}.s{at}.golden{i}.bin", one) | {"output_index": i}
            for i, one in enumerate(results)
        ]
        steps.append({"inputs": given, "goldens": goldens})
    limits = {"atol": model.atol, "rtol": model.rtol, "equal_nan": True}
    return {"op": "bfloat16", "case": case, "pte": f"{name}.pte", "method": "forward"} | {
        "steps": steps,
        **limits,
        "required": True,
        "heavy": False,
    }


def main() -> None:
    with TemporaryDirectory() as made, torch.no_grad():
        folder = Path(made)
        entries = [write(folder, case, model) for case, model in models().items()]
        write_zip(OUT, folder, entries)
    print(f"{len(entries)} cases, {OUT.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
