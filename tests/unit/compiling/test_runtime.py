"""The runtime of compiled programs in Node: refused descriptions, and conversions of elements."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.compiling.hostile import check_changes, check_refused, check_refused_task
from support.compiling.node import modules_in, run
from webpte.compiling import runtime_files
from webpte.compiling.card_task import card_task
from webpte.engine.call.info import MethodInfo
from webpte.engine.dtypes import DTYPES, round_to_bfloat16
from webpte_host.base.layout import ROOT

Table = dict[str, Any]
SAMPLES = ROOT / "web" / "samples"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of each part of the runtime."""
    return modules_in(tmp_path_factory.mktemp("modules"))


# Descriptions


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Table:
    out = tmp_path_factory.mktemp("compiled") / "out"
    calls = [[np.zeros((1, 1, 28, 28), np.float32)]]
    source = SAMPLES / "digits.pte"
    asyncio.run(webpte.compile(source, out, examples={"forward": calls}))
    table: Table = json.loads((out / "program.json").read_text("utf-8"))
    plan = table["methods"]["forward"]["plans"][0]
    plan["when"] = [[["element", 0, 3], 0, 5]]
    plan["bounds"] = [[["add", ["element", 0, 3], 2], 0, 5, "a reason"]]
    plan["symints"] = [[0, ["mul", 2, 3]]]
    plan["faults"] = [{"number": 1, "message": "an index", "inputs": [[0, 0, 6]]}]
    plan["result"] += 16
    return table


def plan_of(table: Table) -> Table:
    plan: Table = table["methods"]["forward"]["plans"][0]
    return plan


# Each makes a description wrong in a single place.
BROKEN: dict[str, Callable[[Table], Any]] = {
    "format": lambda t: t.update(format="other"),
    "newer": lambda t: t.update(version=2),
    "no buffers": lambda t: t.update(buffers=None),
    "a size that is no number": lambda t: t["buffers"].__setitem__(0, "64"),
    "a size that is no word": lambda t: t["buffers"].__setitem__(0, 6),
    "an endless size": lambda t: t["buffers"].__setitem__(0, 1e300),
    "another site's file": lambda t: t["files"][0].update(name="https://a.b/c.pte"),
    "a file outside": lambda t: t["files"][0].update(name="../c.pte"),
    "a file of the root": lambda t: t["files"][0].update(name="/c.pte"),
    "a shader outside": lambda t: t["kernels"][0].update(wgsl="wgsl/../../x.wgsl"),
    "another binding": lambda t: t["kernels"][0]["bindings"].__setitem__(0, "map"),
    "an override": lambda t: t["kernels"][0].update(overrides={"a": "1; }"}),
    "a use": lambda t: t["uses"].__setitem__(0, "vertex"),
    "contents": lambda t: t["contents"][0].__setitem__(1, 65536),
    "words": lambda t: t["contents"][0][2].__setitem__(0, -1),
    "a constant beyond its file": lambda t: t["constants"][0].__setitem__(2, 10**6),
    "a constant beyond its buffer": lambda t: t["constants"][0].__setitem__(3, 70000),
    "a constant's buffer": lambda t: t["constants"][0].__setitem__(0, -1),
    "a conversion": lambda t: t["constants"][0].__setitem__(4, "__proto__"),
    "an input's dtype": lambda t: t["methods"]["forward"]["inputs"][0].update(dtype="constructor"),
    "no plans": lambda t: t["methods"]["forward"].update(plans=[]),
    "a shape": lambda t: plan_of(t)["shapes"][0].__setitem__(0, -1),
    "an input in too few bytes": lambda t: plan_of(t).update(payload=16),
    "a stored type": lambda t: plan_of(t)["packed"][0].__setitem__(1, "float64"),
    "an upload": lambda t: plan_of(t)["uploads"][0].__setitem__(2, 2**30),
    "a cleared buffer": lambda t: plan_of(t)["clears"].append(99999),
    "a kernel": lambda t: plan_of(t)["dispatches"][0].__setitem__(0, 99),
    "a missing resource": lambda t: plan_of(t)["dispatches"][0][1].pop(),
    "a resource": lambda t: plan_of(t)["dispatches"][0][1][0].__setitem__(2, 2**30),
    "a grid": lambda t: plan_of(t)["dispatches"][0][2].__setitem__(0, 65536),
    "a fraction": lambda t: plan_of(t)["dispatches"][0][2].__setitem__(0, 1.5),
    "a read-back": lambda t: plan_of(t)["readbacks"][0].__setitem__(2, 2**20),
    "a result": lambda t: plan_of(t)["results"][0].update(offset=10**6),
    "a result's shape": lambda t: plan_of(t)["results"][0].update(shape=[2**40]),
    "no result": lambda t: plan_of(t)["results"].clear(),
    "an expression": lambda t: plan_of(t)["when"][0].__setitem__(0, ["eval", 1, 2]),
    "an expression's input": lambda t: plan_of(t)["when"][0].__setitem__(0, ["element", 1, 0]),
    "an expression's name": lambda t: plan_of(t)["when"][0].__setitem__(0, ["toString", 1, 1]),
    "a range": lambda t: plan_of(t)["when"][0].__setitem__(1, "0"),
    "a reason": lambda t: plan_of(t)["bounds"][0].__setitem__(3, 0),
    "a SymInt's place": lambda t: plan_of(t)["symints"][0].__setitem__(0, 10**6),
    "a fault's input": lambda t: plan_of(t)["faults"][0]["inputs"][0].__setitem__(0, 7),
    "a deep expression": lambda t: plan_of(t)["when"][0].__setitem__(0, nested(300)),
    "a list for a table": lambda t: t.update(device=[]),
    "no methods": lambda t: t.update(methods=None),
    "a plan that is none": lambda t: t["methods"]["forward"]["plans"].append(None),
}


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = ["add", found, 1]
    return found


CHECK = """
const { check } = await import("./description.mjs");
return given.map((table) => {
    try { check(table); } catch (error) { return `${error.name}: ${error.message}`; }
    return "taken";
});
"""


def test_hostile_descriptions_are_refused(modules: Path, described: Table) -> None:
    check_refused(described, BROKEN, partial(run, modules, CHECK))


# Tasks that are wrong in a single place.
BROKEN_TASKS: dict[str, Callable[[Table], Any]] = {
    "no method": lambda t: t.update(method="other"),
    "a method of the language": lambda t: t.update(method="__proto__"),
    "no input": lambda t: t.pop("input"),
    "an input's kind": lambda t: t["input"].update(kind="constructor"),
    "a way to scale": lambda t: t["input"]["rule"].update(scaled="toString"),
    "an endless size": lambda t: t["input"]["rule"].update(size=[1e9, 28]),
    "a size that is no list": lambda t: t["input"]["rule"].update(size=28),
    "a part": lambda t: t["input"]["rule"].update(part=[-1, 4]),
    "a filter": lambda t: t["input"]["rule"].update(resample=17),
    "a division by zero": lambda t: t["input"]["rule"].update(std=[0]),
    "a colour that is no number": lambda t: t["input"]["rule"].update(mean=["0"]),
    "a multiple": lambda t: t["input"]["rule"].update(multiple=0),
    "a layout": lambda t: t["input"].update(layout="NCHWW"),
    "a layout of another rank": lambda t: t["input"].update(layout="CHW"),
    "too many channels": lambda t: t["input"].update(channels=10**9),
    "no results": lambda t: t.update(outputs=[]),
    "a result's kind": lambda t: t["outputs"][0].update(kind="__proto__"),
    "a result of no output": lambda t: t["outputs"][0].update(outputs=[7]),
    "labels": lambda t: t["outputs"][0].update(labels=[1, 2]),
    "a function": lambda t: t["outputs"][0].update(function="valueOf"),
}


def test_hostile_tasks_are_refused(modules: Path, described: Table) -> None:
    (method,) = asyncio.run(_methods())
    card = json.loads((SAMPLES / "digits.json").read_text("utf-8"))
    table = {**described, "task": card_task(card, method)}
    check_refused_task(modules, "task-index", table, BROKEN_TASKS)


async def _methods() -> list[MethodInfo]:
    return list((await webpte.inspect(SAMPLES / "digits.pte")).values())


def test_whatever_changes_only_typed_errors_follow(modules: Path, described: Table) -> None:
    (method,) = asyncio.run(_methods())
    card = json.loads((SAMPLES / "digits.json").read_text("utf-8"))
    check_changes(modules, "task-index", {**described, "task": card_task(card, method)})


def test_a_newer_version_is_named(modules: Path, described: Table) -> None:
    (said,) = run(modules, CHECK, [{**described, "version": 7}])
    assert said == (
        "FormatError: the program was compiled as version 7; this runtime reads version 1"
    )


# Expressions

EVALUATE = """
const { evaluate } = await import("./expressions.mjs");
const data = [BigInt64Array.of(7n, -9n), null, Int32Array.of(2147483647)];
const values = data.map((one) => (one ? { data: one } : { number: 5 }));
return given.map((one) => {
    try { return evaluate(one, values); } catch (error) { return error.message; }
});
"""


def test_expressions(modules: Path) -> None:
    first, second, number = ["element", 0, 0], ["element", 0, 1], ["number", 1]
    found = run(
        modules,
        EVALUATE,
        [
            *(3, first, second, number, ["add", first, number], ["sub", 1, ["mul", 2, number]]),
            *(["floordiv", second, 2], ["floordiv", 9, -2], ["floordiv", first, 0]),
            *(["add", ["element", 2, 0], 1], ["element", 0, 9]),
        ],
    )
    assert found == [
        *(3, 7, -9, 5, 12, -9, -9 // 2, 9 // -2, "7 is divided by zero"),
        *("2147483648 does not fit into 32 bits", "NaN does not fit into 32 bits"),
    ]


# Elements

CONVERT = """
const { pack, unpack, checked, ARRAYS, BYTES } = await import("./values.mjs");
const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
return given.map(({ dtype, stored, data, back }) => {
    const array = new ARRAYS[dtype](bytes(data).buffer);
    const shape = [array.length];
    const there = new Uint8Array(array.length * BYTES[stored]);
    if (back) {
        const result = { stored: dtype, offset: 0, dtype: stored, shape };
        const tensor = unpack(new Uint8Array(array.buffer), result, stored);
        return [...new Uint8Array(tensor.data.buffer)];
    }
    const value = checked(array, { dtype }, "x", [shape]);
    pack(value.data, { dtype }, stored, there, 0, "x");
    return [...there];
});
"""


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _floats() -> np.ndarray:
    """Return numbers with every kind of rounding to 16 bits, infinities and NaN."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 4001, dtype=np.uint32).view(np.float32)
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1] + halves[1:]) / 2
    special = np.array([0, -0.0, np.inf, -np.inf, 65504, 65519.9, 65520, 6e-8, 2.9e-8], np.float32)
    every = np.concatenate([bits, halves, ties, special])
    return every[~np.isnan(every)]


@pytest.mark.filterwarnings("ignore:overflow|invalid value")
def test_elements_are_converted_as_numpy_does(modules: Path) -> None:
    floats = _floats()
    halves = floats.astype(np.float16)
    integers = np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int64)
    rows = [
        ("float16", "float32", halves, halves.astype(np.float32), False),
        ("float32", "float32", floats, floats, False),
        ("float64", "float32", floats.astype(np.float64) / 3, None, False),
        ("bfloat16", "float32", floats, round_to_bfloat16(floats), False),
        ("int64", "int32", integers, integers.astype(np.int32), False),
        (
            "bool",
            "bool",
            np.array([0, 1, 2, 255], np.uint8),
            np.array([0, 1, 1, 1], np.uint8),
            False,
        ),
        ("float32", "float16", floats, halves, True),
        ("float32", "bfloat16", floats, round_to_bfloat16(floats), True),
        ("float32", "float64", floats, floats.astype(np.float64), True),
        ("int32", "int64", integers.astype(np.int32), integers, True),
        ("int32", "int16", integers.astype(np.int32), integers.astype(np.int16), True),
        ("float32", "float16", np.array([1e9], np.float32), np.array([np.inf], np.float16), True),
    ]
    given = [
        {"dtype": dtype, "stored": stored, "data": _text(data), "back": back}
        for dtype, stored, data, _, back in rows
    ]
    for row, found in zip(rows, run(modules, CONVERT, given), strict=True):
        dtype, stored, data, expected, _ = row
        expected = data.astype(np.float32) if expected is None else expected
        assert bytes(found) == expected.tobytes(), (dtype, stored)


def test_every_dtype_has_an_array(modules: Path) -> None:
    code = 'return Object.keys((await import("./values.mjs")).ARRAYS).sort();'
    assert run(modules, code) == sorted(DTYPES)


REFUSED = """
const { checked, pack } = await import("./values.mjs");
const said = (work) => {
    try { return work(); } catch (error) { return `${error.name}: ${error.message}`; }
};
const narrowed = (data) => pack(data, { dtype: "int64" }, "int32", new Uint8Array(4), 0, "x");
const info = { dtype: "float32" };
return [
    said(() => checked(Float64Array.of(1), info, "x", [[1]])),
    said(() => checked([1, 2], info, "x", [[1]])),
    said(() => checked(Float32Array.of(1, 2), info, "x", [[3]])),
    said(() => checked({ data: Float32Array.of(1, 2), shape: [2, 2] }, info, "x", [[2], [4]])),
    said(() => narrowed(BigInt64Array.of(2n ** 31n))),
    said(() => narrowed(Uint32Array.of(2 ** 31))),
    said(() => checked(undefined, info, "x", [[1]])),
];
"""


def test_wrong_inputs_are_refused(modules: Path) -> None:
    assert run(modules, REFUSED) == [
        "InputError: x: float32 needs a Float32Array, not a Float64Array",
        "InputError: x: float32 needs a Float32Array, not a object",
        "InputError: x: the shape [3] has 3 elements, and 2 were given",
        "InputError: x: the shape [2,2] has 4 elements, and 2 were given",
        "InputError: x: 2147483648 does not fit into 32 bits",
        "InputError: x: values do not fit into 32 bits",
        "InputError: x: float32 needs a Float32Array, not a undefined",
    ]


# The bundle


def test_the_bundle_exports_what_programs_import(modules: Path) -> None:
    code = 'return Object.keys(await import("./index.mjs")).sort();'
    names = run(modules, code)
    assert {"open", "Tensor", "InputError", "DeviceLostError", "WebpteError"} <= set(names)


def test_modules_of_a_bundle_share_no_name(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nconst same = b;\n', "utf-8")
    (tmp_path / "b.js").write_text("export const b = 1;\nfunction same() {}\n", "utf-8")
    with pytest.raises(AssertionError, match="declare same: rename one"):
        runtime_files.bundled(tmp_path / "a.js")


def test_there_is_no_webgpu_here(modules: Path, described: Table) -> None:
    code = """
    const { open } = await import("./index.mjs");
    const answer = { json: given, text: "", blob: new Blob([]) };
    const parts = Object.entries(answer).map(([name, value]) => [name, async () => value]);
    globalThis.fetch = async () => ({ ok: true, ...Object.fromEntries(parts) });
    try {
        await open("http://here/");
    } catch (error) {
        return [error.name, error.advice, error instanceof Error];
    }
    """
    name, advice, is_error = run(modules, code, described)
    assert name == "NoWebGPUError"
    assert "browser with WebGPU" in advice
    assert is_error


def test_descriptions_that_suit_come_the_best_first(modules: Path) -> None:
    code = """
    const { descriptionsFor } = await import("./program.mjs");
    const shape = "f16 f32 16x16x16";
    const rows = [
        { file: "software", software: true },
        { file: "matrices", features: ["shader-f16"], matrices: [shape], subgroup: 32 },
        { file: "f16", software: false, features: ["shader-f16"], limits: { buffers: 8 } },
        { file: "dot", software: false, features: [], limits: {}, packedDot: true },
        { file: "desktop", software: false, features: [], limits: { buffers: 10 } },
        { file: "program" },
    ];
    const facts = (limits, features = [], more = {}) => (
        { limits, features, software: false, packedDot: false, matrixShapes: [], ...more }
    );
    const subgroups = { buffers: 8, subgroupMinSize: 32, subgroupMaxSize: 32 };
    const f16 = ["shader-f16"];
    const found = {
        software: facts({ buffers: 4 }, [], { software: true }),
        matrices: facts(subgroups, f16, { matrixShapes: ["other", shape] }),
        "other subgroups": facts({ buffers: 8 }, f16, { matrixShapes: [shape] }),
        "other matrices": facts(subgroups, f16, { matrixShapes: ["other"] }),
        f16: facts({ buffers: 8 }, f16),
        dot: facts({ buffers: 10 }, [], { packedDot: true }),
        desktop: facts({ buffers: 10 }),
        phone: facts({ buffers: 8 }),
    };
    return [
        Object.fromEntries(Object.entries(found).map(([name, one]) => (
            [name, descriptionsFor(one, rows).map(({ file }) => file).join(" ")]
        ))),
        descriptionsFor(found.f16, []).map(({ file }) => file),
    ];
    """
    found, alone = run(modules, code)
    assert found == {
        "software": "software program",
        "matrices": "matrices f16 program",
        "other subgroups": "f16 program",
        "other matrices": "f16 program",
        "f16": "f16 program",
        "dot": "dot desktop program",
        "desktop": "desktop program",
        "phone": "program",
    }
    assert alone == ["program.json"]


def test_the_bundle_has_no_comments_and_is_small() -> None:
    text = runtime_files.runtime_files([])[runtime_files.RUNTIME]
    assert not [line for line in text.splitlines() if line.lstrip().startswith("//")]
    assert len(gzip.compress(text.encode(), 9)) < 20_000
