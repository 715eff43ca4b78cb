"""Programs that are parts of a model: their methods in one program, each with its own state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import chain, wait
from support.write.pte_writer import constants_of, write_ptd, write_pte
from webpte.engine.files.source import BytesSource
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.join_programs import read_programs
from webpte.errors import FormatError, SourceError

X = np.array([1, 2], np.float32)


def write(folder: Path, **parts: bytes) -> list[Path]:
    for name, data in parts.items():
        (folder / f"{name}.pte").write_bytes(data)
    return [folder / f"{name}.pte" for name in parts]


async def load(first: Path, *others: Path, **loading: Any) -> webpte.Program:
    return await webpte.load(first, data=others, **{"device": "numpy", **loading})


def test_methods_have_the_names_of_parts(tmp_path: Path) -> None:
    said = {"get_width": 4, "get_part": 1}
    paths = write(
        tmp_path,
        one=write_pte(chain(2), constant_methods=said),
        two=write_pte(chain(3), constant_methods={**said, "get_part": 2, "get_more": 5}),
    )
    inspected = wait(webpte.inspect(paths[0], data=paths[1:]))

    async def work() -> tuple[Any, ...]:
        async with await load(*paths) as program:
            assert program.name == "one.pte"
            assert program.methods.keys() == inspected.keys()
            outputs = [await program.run(part, *given(program, part)) for part in ("one", "two")]
            alone = []
            for path in paths:
                async with await load(path) as other:
                    alone.append(await other.run("forward", *given(other, "forward")))
            return program.methods, outputs, alone

    methods, outputs, alone = wait(work())
    names = {"one", "two", "get_width", "one_get_part", "two_get_part", "get_more"}
    assert methods.keys() == names
    assert {name: info.name for name, info in methods.items()} == {name: name for name in names}
    values = {name: methods[name].outputs[0].value for name in names if "get" in name}
    assert values == {"get_width": 4, "one_get_part": 1, "two_get_part": 2, "get_more": 5}
    for found, wanted in zip(outputs, alone, strict=True):
        np.testing.assert_array_equal(found[0], wanted[0])


def given(program: webpte.Program, method: str) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    inputs: Any = program.methods[method].inputs
    return [rng.standard_normal(one.shape).astype(one.dtype) for one in inputs]


@pytest.mark.parametrize("device", ["numpy", "gpu"])
def test_state_stays_in_its_part(root: Path, tmp_path: Path, device: str) -> None:
    """The parts place their shared buffers alike, and share them within a part alone."""
    data = root / "tests" / "data" / "state"
    names = ("shared", "shared_initial")
    paths = write(tmp_path, **{name: (data / f"{name}.pte").read_bytes() for name in names})

    async def work() -> list[list[list[float]]]:
        on = "numpy" if device == "numpy" else SimulatedDevice()
        async with await load(*paths, device=on) as program:
            found = []
            for part in names:
                await program.run(part, X)
                found.append([one.tolist() for one in await program.run(f"{part}_get")])
            await program.recover()
            found.append([one.tolist() for one in await program.run("shared_initial_get")])
            return found

    # As ExecuTorch's runtime has it for each program alone: see test_state.py.
    assert wait(work()) == [[[-1, -2], [-1, -1]], [[-6, -9], [-1, -1]], [[-5, -7], [0, 0]]]


def test_constants_come_from_a_file_for_all(tmp_path: Path) -> None:
    graphs = [chain(2), chain(3)]
    paths = write(
        tmp_path,
        **{
            name: write_pte(graph, external_constants=True)
            for name, graph in zip(("one", "two"), graphs, strict=True)
        },
    )
    constants = {key: data for graph in graphs for key, data in constants_of(graph).items()}
    shared = tmp_path / "weights.ptd"
    shared.write_bytes(write_ptd(constants))

    async def work() -> Any:
        async with await load(paths[0], shared, paths[1]) as program:
            return list(program.methods)

    assert wait(work()) == ["one", "two"]


def test_memory_is_forecast_for_all_parts(tmp_path: Path) -> None:
    paths = write(tmp_path, one=write_pte(chain(2)), two=write_pte(chain(3)))
    alone = [wait(webpte.forecast(path, device="numpy")) for path in paths]
    joined = wait(webpte.forecast(paths[0], data=paths[1:], device="numpy", name="both"))
    assert joined.program == "both"
    assert joined.activations == sum(one.activations for one in alone) > 0


def test_parts_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    one, two, other = (write_pte(chain(n)) for n in (2, 3, 4))
    clash = write_pte(methods={"two": chain(2), "forward": chain(3)})
    for files, told in (
        ([("a", one), ("a", two)], "two programs are called 'a'"),
        ([("one", clash), ("two", other)], "two of its parts have a method 'two'"),
    ):
        sources = [BytesSource(data, f"{name}.pte") for name, data in files]
        with pytest.raises(SourceError, match=told):
            wait(read_programs(sources))
    with pytest.raises(FormatError, match=r"b\.txt"):
        wait(read_programs([BytesSource(one, "a.pte"), BytesSource(b"no program", "b.txt")]))
