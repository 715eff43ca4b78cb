"""Writes tests/suites/xnnpack.zip: programs for XNNPACK, with the outputs of ExecuTorch's runtime.

    PYTHONPATH=pysrc:tests python tests/data/make/xnnpack/make_xnnpack.py [NAME ...]

Run it in the export environment (docs/use/export.md). With names of cases, such as `conv2d__qc8`,
only these are written, and replace the cases of the same names in the zip.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import executorch.kernels.quantized  # noqa: F401
import torch
import torch.nn.functional as f
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.export import Dim, export
from torch.utils._pytree import tree_leaves

from data.make.xnnpack.xnnpack_kinds import KINDS, Calls, Kind
from data.make.xnnpack.xnnpack_modules import (
    Attention,
    Block,
    Gated,
    Heads,
    Joined,
    Of,
    With,
    enlarger,
    mobile_net,
    settled,
)
from support.write.pack_suite import Entry, read_entries, unpacked, write_zip
from webpte_export.conformance.__main__ import keep_what_exports_share
from webpte_export.suite_writer import Call, entry_of
from webpte_host.base.layout import ROOT
from webpte_host.commands.verify import case_id

OUT = ROOT / "tests" / "suites" / "xnnpack.zip"
Sizes: TypeAlias = "tuple[int, ...]"
Inputs: TypeAlias = "Sequence[Sizes | Tensor]"  # of a call: sizes of random numbers, or the numbers


@dataclass(frozen=True)
class Row:
    """A module, the inputs of its calls, and the kinds of numbers in which it is exported."""

    module: nn.Module
    calls: tuple[Inputs, ...]
    kinds: tuple[str, ...]
    shapes: Any  # the dims of each input that change from call to call
    positive: bool
    channels_last: bool
    runs: bool  # in ExecuTorch's runtime; otherwise PyTorch gives the outputs
    share: float | None  # tolerated of the largest number, in place of the kind's


def row(
    module: nn.Module | Callable[..., Any],
    *calls: Inputs,
    kinds: str = "f32",
    shapes: Any = None,
    positive: bool = False,
    channels_last: bool = False,
    runs: bool = True,
    share: float | None = None,
) -> Row:
    if not isinstance(module, nn.Module):
        module, shapes = Of(module), None if shapes is None else (shapes,)
    return Row(module, calls, tuple(kinds.split()), shapes, positive, channels_last, runs, share)


BATCH, ROWS = Dim("batch", min=1, max=7), Dim("rows", min=3, max=31)
COLUMNS, TOKENS = Dim("columns", min=3, max=31), Dim("tokens", min=2, max=16)
VECTORS: Inputs = [(3, 5, 7)]
PAIRS: Inputs = [(3, 5, 7), (3, 5, 7)]
IMAGE: Inputs = [(2, 3, 11, 7)]
FLOATS, WEIGHTS = "f32 f16", "f32 f16 qs8 qc8"


def rows() -> Iterator[tuple[str, Row]]:
    """Yield rows with their names: an operator, and a detail if it has several rows."""
    yield from elementwise().items()
    yield from matrices().items()
    yield from convolutions().items()
    yield from pools().items()
    yield from moves().items()
    yield from whole().items()


def elementwise() -> dict[str, Row]:
    unary: dict[str, Callable[..., Any]] = {
        **{name: getattr(torch, name) for name in ("abs", "ceil", "floor", "neg", "exp", "sin")},
        **{name: getattr(torch, name) for name in ("cos", "sigmoid", "tanh", "square")},
        **{name: getattr(f, name) for name in ("hardswish", "leaky_relu")},
    }
    written: dict[str, Callable[..., Any]] = {  # as several nodes, or as another
        "hardsigmoid": f.hardsigmoid,
        "silu": f.silu,
        "gelu": f.gelu,
        "relu6": f.relu6,
        "pow2": lambda x: x**2,
    }
    positive = {name: getattr(torch, name) for name in ("sqrt", "rsqrt", "log")}
    limited: dict[str, Callable[..., Any]] = {
        "relu": torch.relu,
        "hardtanh": lambda x: f.hardtanh(x, -0.25, 0.5),
        "clamp": lambda x: torch.clamp(x, -0.5, 0.75),
        "elu": lambda x: f.elu(x, 0.7),
    }
    binary = {name: getattr(torch, name) for name in ("add", "sub", "mul", "div")}
    chosen = {name: getattr(torch, name) for name in ("maximum", "minimum")}
    conv = nn.Conv2d(3, 5, 3)
    after = {
        "hardtanh": nn.Hardtanh(-0.25, 0.5),
        "leaky_relu": nn.LeakyReLU(),
        "sigmoid": nn.Sigmoid(),
        "tanh": nn.Tanh(),
        "elu": nn.ELU(),
    }
    special = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf, -2])
    infinite = lambda x: (torch.relu(x), torch.clamp(x, -1, 1), torch.sigmoid(x), x * 2)  # noqa: E731
    return {
        **{name: row(each, VECTORS, kinds=FLOATS) for name, each in unary.items()},
        **{name: row(each, VECTORS) for name, each in written.items()},
        **{
            name: row(each, VECTORS, kinds=FLOATS, positive=True) for name, each in positive.items()
        },
        **{name: row(each, VECTORS, kinds=f"{FLOATS} q8") for name, each in limited.items()},
        **{
            f"{name} conv": row(nn.Sequential(conv, each), IMAGE, kinds="qs8")
            for name, each in after.items()
        },
        **{name: row(each, PAIRS, kinds="f16") for name, each in (binary | chosen).items()},
        **{
            f"{name} broadcast": row(each, [(7,), (2, 3, 5, 1)], positive=True)
            for name, each in (binary | chosen).items()
        },
        **{
            f"{name} relu": row(lambda x, y, g=each: torch.relu(g(x, y)), PAIRS)
            for name, each in binary.items()
        },
        "add bytes": row(torch.add, [(3, 1, 7), (5, 1)], kinds="qs8"),
        "add relu_bytes": row(lambda x, y: torch.relu(x + y), PAIRS, kinds="qs8"),
        "mul bytes": row(torch.mul, PAIRS, kinds="qs8"),
        "mul relu_bytes": row(lambda x, y: torch.relu(x * y), PAIRS, kinds="qs8"),
        "sub bytes": row(torch.sub, PAIRS, kinds="qs8"),
        "add bfloat16": row(torch.add, [(3, 5), (3, 5)], kinds="bf16"),
        "add self": row(lambda x: x + x, [(3, 5)]),
        "add constant": row(With(torch.add, (5, 1)), VECTORS),
        "add channels_last": row(torch.add, [(2, 3, 5, 7)] * 2, channels_last=True),
        "add dynamic": row(
            lambda x, y: torch.sigmoid(x + y) * x,
            *([(rows, 5), (1, 5)] for rows in (3, 1, 7, 2)),
            shapes=({0: BATCH}, None),
        ),
        "sigmoid channels_last": row(torch.sigmoid, [(2, 3, 5, 7)], channels_last=True),
        "prelu": row(nn.PReLU(5), [(2, 5, 7, 3)], kinds=FLOATS),
        "prelu single": row(nn.PReLU(), [(2, 5, 7, 3)]),
        "rank0": row(torch.mul, [(3, 5), torch.tensor(2.5)]),
        "nan": row(infinite, [special]),
    }


def matrices() -> dict[str, Row]:
    linear, wide = nn.Linear(7, 5), nn.Linear(64, 5, bias=False)
    by_row = nn.Linear(16, 5)
    two = nn.Sequential(nn.Linear(7, 11), nn.ReLU(), nn.Linear(11, 3))
    calls: tuple[Inputs, ...] = [(3, 7)], [(1, 7)], [(7, 7)], [(2, 7)]
    edges = [torch.zeros(16), torch.ones(16) * 3, -torch.rand(16), torch.rand(16) + 1]
    # In the middle of two integers, once multiplied by 255 / (1.1 + 0.9).
    middle = (torch.arange(-107, 138, 17)[:14] + 0.5) / (255 / (torch.tensor(1.1) + 0.9))
    middles = torch.cat([torch.tensor([-0.9, 1.1]), middle])[None]
    products = ((2, 3, 5), (2, 5, 7)), ((3, 5, 5), (3, 5, 11))
    grows = {0: BATCH, 1: Dim("m", max=9)}, {0: BATCH, 2: Dim("n", max=17)}
    return {
        "linear": row(linear, [(3, 7)], kinds=f"{WEIGHTS} bf16"),
        "linear no_bias": row(nn.Linear(7, 5, bias=False), [(3, 7)], kinds="f32 qs8"),
        "linear relu": row(nn.Sequential(linear, nn.ReLU()), [(2, 3, 7)], kinds="f16 qc8"),
        "linear dynamic": row(linear, *calls, kinds=FLOATS, shapes=({0: BATCH},)),
        "linear two_dynamic": row(two, *calls, kinds="qc8", shapes=({0: BATCH},)),
        "linear bfloat16": row(
            nn.Linear(32, 16, bias=False),
            [(3, 32)],
            [(1, 32)],
            kinds="bf16",
            shapes=(({0: BATCH},),),
        ),
        "linear other_weight": row(f.linear, [(3, 7), (5, 7)]),
        "linear rows": row(by_row, [(3, 16)], kinds="qd8 qd8_qc8w"),
        "linear rows_relu": row(
            nn.Sequential(nn.Linear(16, 5, bias=False), nn.ReLU()), [(2, 3, 16)], kinds="qd8_qc8w"
        ),
        "linear rows_dynamic": row(
            by_row,
            *([(rows, 16)] for rows in (3, 1, 7)),
            kinds="qd8_qc8w",
            shapes=({0: BATCH},),
        ),
        "linear rows_edges": row(by_row, [torch.stack(edges)], kinds="qd8_qc8w"),
        "linear rows_middle": row(by_row, [middles], kinds="qd8_qc8w", share=1e-5),
        "linear rows_half": row(nn.Linear(32, 17), [(3, 32)], kinds="qd8_f16"),
        "linear groups": row(wide, [(3, 64)], kinds="qd8_qc4w qd8_qb4w_g32 qd8_qb4w_g64"),
        "linear groups_bias": row(nn.Linear(64, 5), [(3, 64)], kinds="qd8_qb4w_g32"),
        "linear groups_dynamic": row(
            wide,
            *([(rows, 64)] for rows in (3, 1, 7)),
            kinds="qd8_qb4w_g32",
            shapes=({0: BATCH},),
        ),
        "linear groups_gated": row(Gated(), [(1, 3, 32)], kinds="qd8_qb4w_g32"),
        "addmm": row(With(lambda x, w, b: torch.addmm(b, x, w), (7, 5), (5,)), [(3, 7)]),
        "mm": row(With(torch.mm, (7, 5)), [(3, 7)]),
        "bmm": row(torch.bmm, [(2, 3, 5), (2, 5, 7)], kinds=f"{FLOATS} qs8"),
        "bmm dynamic": row(torch.bmm, *map(list, products), shapes=grows),
        "matmul": row(torch.matmul, [(2, 3, 5, 7), (2, 3, 7, 4)]),
        "softmax": row(lambda x: f.softmax(x, -1), VECTORS, kinds=FLOATS),
        "softmax dynamic": row(
            lambda x: f.softmax(x, -1),
            *([each] for each in ((3, 7), (1, 31), (7, 3))),
            shapes=({0: BATCH, 1: COLUMNS},),
        ),
        "sdpa": row(Attention(), [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)], kinds="f32 bf16"),
        "sdpa node": row(
            Attention(), [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8), (5, 7)], runs=False
        ),
    }


def convolutions() -> dict[str, Row]:
    conv, relu = nn.Conv2d, nn.ReLU()
    planar: dict[str, tuple[nn.Module, str]] = {
        "": (conv(3, 5, 3), WEIGHTS),
        "stride": (conv(3, 5, 3, stride=2, padding=1), "f32 qs8"),
        "depthwise": (conv(3, 3, 3, groups=3, padding=1), WEIGHTS),
        "depthwise_relu": (nn.Sequential(conv(3, 3, 3, groups=3), relu), "qc8"),
        "grouped": (conv(3, 6, 3, groups=3), "f32 qs8 qc8"),
        "relu6": (nn.Sequential(conv(3, 5, 3), nn.ReLU6()), "f32 qs8"),
        "batch_norm": (
            settled(nn.Sequential(conv(3, 5, 3), nn.BatchNorm2d(5), relu)),
            "f16 qc8",
        ),
        "uneven": (conv(3, 5, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), "f32"),
        "depthwise_multiplier": (conv(3, 6, 3, groups=3, stride=2), "f32"),
    }
    transposed: dict[str, nn.Module] = {
        "stride": nn.ConvTranspose2d(3, 5, 3, stride=2, padding=1, output_padding=1),
        "dilation": nn.ConvTranspose2d(3, 5, 3, dilation=2),
        "relu": nn.Sequential(nn.ConvTranspose2d(3, 5, (2, 3), stride=2, bias=False), relu),
    }
    line = [(2, 3, 11)]
    return {
        **{
            f"conv2d {name}": row(each, IMAGE, kinds=kinds)
            for name, (each, kinds) in planar.items()
        },
        "conv2d channels_last": row(
            nn.Sequential(conv(3, 5, 3, padding=1), relu, conv(5, 2, 3)),
            IMAGE,
            kinds="f32 qc8",
            channels_last=True,
        ),
        "conv2d dynamic": row(
            conv(3, 5, 3, padding=1, stride=2),
            *([(2, 3, *size)] for size in ((11, 7), (31, 3), (5, 17))),
            shapes=({2: ROWS, 3: COLUMNS},),
        ),
        "conv2d rows": row(conv(3, 5, 3), [(1, 3, 11, 7)], kinds="qd8_qc8w"),
        "conv1d": row(nn.Conv1d(3, 5, 3), line, kinds="f32 qc8"),
        "conv1d grouped": row(nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [(2, 4, 11)]),
        "conv1d depthwise": row(nn.Sequential(nn.Conv1d(3, 3, 3, groups=3), relu), line),
        "conv1d dynamic": row(
            nn.Conv1d(3, 5, 3, padding=1),
            *([(2, 3, length)] for length in (11, 30, 4)),
            shapes=({2: COLUMNS},),
        ),
        "conv_transpose2d": row(
            nn.ConvTranspose2d(3, 5, 3, stride=2), [(2, 3, 7, 5)], kinds=WEIGHTS
        ),
        **{
            f"conv_transpose2d {name}": row(each, [(2, 3, 7, 5)])
            for name, each in transposed.items()
        },
        "batch_norm": row(settled(nn.BatchNorm2d(3)), [(2, 3, 5, 7)]),
        "batch_norm line": row(settled(nn.BatchNorm1d(3)), [(2, 3, 5)]),
    }


def pools() -> dict[str, Row]:
    conv, space = nn.Conv2d(3, 5, 3), {2: ROWS, 3: COLUMNS}
    after: dict[str, nn.Module] = {
        "avg_pool2d": nn.AvgPool2d(2),
        "max_pool2d": nn.MaxPool2d(2),
        "mean": nn.AdaptiveAvgPool2d(1),
        "upsample": nn.UpsamplingBilinear2d(scale_factor=2),
    }
    scaled: dict[str, dict[str, Any]] = {
        "": {"scale_factor": 2},
        "corners": {"size": (11, 13), "align_corners": True},
        "down": {"size": (3, 5)},
    }
    return {
        **{
            f"{name} conv": row(nn.Sequential(conv, each), IMAGE, kinds="qs8")
            for name, each in after.items()
        },
        "avg_pool2d": row(nn.AvgPool2d((2, 3), stride=(1, 2)), IMAGE, kinds=FLOATS),
        "adaptive_avg_pool2d": row(nn.AdaptiveAvgPool2d((3, 5)), [(2, 8, 6, 10)], kinds="qs8"),
        "avg_pool2d padded": row(
            nn.AvgPool2d(3, 1, padding=1, count_include_pad=False),
            IMAGE,
            [(5, 3, 11, 7)],
            shapes=({0: BATCH},),
        ),
        "max_pool2d": row(nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), IMAGE, kinds=FLOATS),
        "max_pool2d dilation": row(nn.MaxPool2d(2, 1, dilation=2), IMAGE),
        "max_pool2d channels_last": row(nn.MaxPool2d(2), [(2, 3, 5, 7)], channels_last=True),
        "max_pool2d dynamic": row(
            nn.MaxPool2d(3, 2, padding=1), IMAGE, [(2, 3, 30, 9)], shapes=(space,)
        ),
        "max_dim": row(
            lambda x: (torch.max(x, 2, keepdim=True)[0], torch.max(x, 3, keepdim=True)[0]), IMAGE
        ),
        "max_dim places": row(lambda x: torch.max(x, 2, keepdim=True), IMAGE),
        "max_dim places_last": row(lambda x: torch.max(torch.relu(x), 3, keepdim=True), IMAGE),
        "mean": row(
            lambda x: x.mean((2, 3), keepdim=True),
            IMAGE,
            [(2, 3, 5, 30)],
            kinds=FLOATS,
            shapes=(space,),
        ),
        **{
            f"upsample_bilinear2d {name}".strip(): row(
                lambda x, size=size: f.interpolate(x, mode="bilinear", **size),
                [(2, 3, 5, 7)],
                kinds=FLOATS,
            )
            for name, size in scaled.items()
        },
    }


def moves() -> dict[str, Row]:
    conv = nn.Conv2d(3, 5, 3)
    after: dict[str, Callable[[Tensor], Tensor]] = {
        "view": lambda x: x.reshape(2, 5, -1),
        "flatten": lambda x: x.flatten(1),
        "permute": lambda x: x.permute(0, 2, 3, 1),
        "slice": lambda x: x[:, :, 1:3],
    }
    joined = {count: [(1, 1 + i, 5, 3) for i in range(count)] for count in range(2, 7)}
    return {
        **{
            f"{name} conv": row(nn.Sequential(conv, Of(each)), IMAGE, kinds="qs8")
            for name, each in after.items()
        },
        **{
            f"cat {count}": row(
                lambda *x: torch.cat([each + each for each in x], 1),
                list(each),
                kinds="f32 qs8" if count > 3 else "qs8",
            )
            for count, each in joined.items()
        },
        "cat": row(lambda *x: torch.cat(x, -1), [(3, 2, 5), (3, 2, 1), (3, 2, 3)], kinds=FLOATS),
        "cat scales": row(lambda x, y: torch.cat([x, y * 9], 0), [(3, 5), (3, 5)], kinds="qs8"),
        "cat channels_last": row(
            lambda x, y: torch.cat([x, y], 1), [(1, 3, 5, 7), (1, 2, 5, 7)], channels_last=True
        ),
        "cat dynamic": row(
            lambda x, y: torch.cat([x, y], 1),
            [(2, 3, 5), (2, 4, 5)],
            [(2, 7, 5), (2, 3, 5)],
            shapes=({1: ROWS}, {1: COLUMNS}),
        ),
        "clone": row(torch.clone, [(3, 5)]),
        "permute": row(lambda x: x.permute(2, 0, 1), VECTORS, kinds=FLOATS),
        "permute dynamic": row(
            lambda x: x.permute(1, 0, 2), VECTORS, [(1, 5, 7)], [(7, 5, 7)], shapes=({0: BATCH},)
        ),
        "slice": row(lambda x: x[1:3, :, 2:-1], [(5, 3, 7)], kinds=FLOATS),
        "view": row(lambda x: x.view(5, 21) + 1, VECTORS, kinds=FLOATS),
        "view dynamic": row(
            lambda x: x.reshape(x.shape[0], 35) * 2, VECTORS, [(7, 5, 7)], shapes=({0: BATCH},)
        ),
        "squeeze": row(lambda x: x.squeeze(1) + 1, [(3, 1, 7)]),
        "unsqueeze": row(lambda x: x.unsqueeze(1) + 1, [(3, 7)]),
        "constant_pad": row(lambda x: f.pad(x, (1, 2, 3, 0), value=2.5), VECTORS, kinds=FLOATS),
        "constant_pad dynamic": row(
            lambda x: f.pad(x, (1, 2, 0, 1)),
            [(2, 5, 7)],
            [(2, 30, 3)],
            shapes=({1: ROWS, 2: COLUMNS},),
        ),
        "to_copy channels_last": row(
            lambda x: x.to(memory_format=torch.channels_last), [(2, 3, 5, 7)]
        ),
    }


def whole() -> dict[str, Row]:
    """Several delegates, outputs or operators."""
    linear = nn.Linear(7, 5)
    words = nn.Sequential(nn.Embedding(11, 32), nn.Linear(32, 5))
    cut = lambda x: torch.relu(torch.cumsum(torch.sigmoid(x), 1) * 2)  # noqa: E731
    tokens: tuple[Inputs, ...] = [(1, 7, 32)], [(1, 2, 32)], [(1, 16, 32)]
    residual = Joined(nn.Conv2d(3, 3, 3, padding=1), nn.Identity(), lambda x, y: torch.relu(x + y))
    return {
        "several_delegates": row(cut, [(3, 5)]),
        "several_outputs": row(lambda x: (x + 1, torch.relu(x + 1), x * 2), [(3, 5)]),
        "several_outputs heads": row(Heads(), [(2, 3, 7, 5)], kinds="f32 qs8"),
        "empty": row(linear, [(3, 7)], [(0, 7)], shapes=({0: Dim("none", min=0, max=7)},)),
        "embedding": row(words, [torch.tensor([[1, 5, 10], [0, 2, 2]])]),
        "softmax outside": row(nn.Sequential(linear, nn.Softmax(-1)), [(3, 7)], kinds="qs8"),
        "residual": row(residual, [(1, 3, 9, 7)], kinds="qs8"),
        "model enlarger": row(enlarger(), [(1, 3, 9, 11)]),
        "model mobile_net": row(mobile_net(), [(1, 3, 32, 24)], kinds="qc8", channels_last=True),
        "model block": row(Block(), *tokens, kinds="qd8_qb4w_g32", shapes=({1: TOKENS},)),
    }


def cases() -> Iterator[tuple[str, str, Row, Kind]]:
    """Yield the operator and the name of every case, with its row and its kind."""
    torch.manual_seed(0)
    for name, each in rows():
        op, _, detail = name.strip().partition(" ")
        for kind in each.kinds:
            yield op, "_".join(filter(None, (kind, detail))), each, KINDS[kind]


def numbers(given: Inputs, one: Row, dtype: torch.dtype) -> tuple[Tensor, ...]:
    made = []
    for each in given:
        tensor = each if isinstance(each, Tensor) else 2 * torch.randn(*each)
        if tensor.is_floating_point():
            tensor = (tensor.abs() + 0.25 if one.positive else tensor).to(dtype)
        last = one.channels_last and tensor.dim() == 4
        made.append(tensor.to(memory_format=torch.channels_last) if last else tensor)
    return tuple(made)


def write(folder: Path, op: str, case: str, one: Row, kind: Kind) -> Entry:
    """Export a module, run it, and return its entry in the manifest."""
    torch.manual_seed(0)
    calls: Calls = [numbers(given, one, kind.dtype) for given in one.calls]
    module = kind.prepare(copy.deepcopy(one.module).eval(), calls, one.shapes)
    exported = export(module, calls[0], dynamic_shapes=one.shapes)
    edge = to_edge_transform_and_lower(exported, partitioner=kind.partitioners())
    lowered = edge.to_executorch()
    if not lowered.executorch_program.execution_plan[0].delegates:
        raise SystemExit(f"{op}__{case}: XNNPACK's partitioner takes nothing")
    (folder / f"{op}__{case}.pte").write_bytes(lowered.buffer)
    run: Callable[..., Any] = module
    if one.runs:
        method = Runtime.get().load_program(lowered.buffer).load_method("forward")
        run = lambda *inputs: method.execute(list(inputs))  # noqa: E731
    made = [Call(arrays(inputs), arrays(tree_leaves(run(*inputs)))) for inputs in calls]
    return entry_of(folder, f"{op}__{case}.pte", op, case, made, one.share or kind.share)


def arrays(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    return tuple(each.detach().clone().contiguous().numpy() for each in tensors)


def main(names: Sequence[str]) -> None:
    keep_what_exports_share()
    with TemporaryDirectory() as made, torch.no_grad():
        folder, entries = Path(made), []
        for op, case, one, kind in cases():
            if not names or f"{op}__{case}" in names:
                entries.append(write(folder, op, case, one, kind))
                print(f"{op}__{case}", flush=True)
        if not names:
            write_zip(OUT, folder, entries)
            return
        kept = [entry for entry in read_entries(OUT) if case_id(entry) not in names]
        with unpacked(OUT) as before:
            for file in folder.iterdir():
                (before / file.name).write_bytes(file.read_bytes())
            write_zip(OUT, before, kept + entries)


if __name__ == "__main__":
    main(sys.argv[1:])
