"""Tunables are found, measured, chosen and stored, on a device with a clock of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.decoders.argmax import run_argmax
from support.graphs.fusion_graphs import Net, Sizes, normed
from support.graphs.graphs import remembering, wait
from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import damaged_json, outcomes
from support.harness.timed import Timed
from support.schedules.kinds import KINDS, ops_of_kinds
from support.write.pte_writer import write_pte
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.gpu.tuning_cache import FileStore, adapter_key, keep_choices, kept_choices
from webpte.engine.ops.core.target import GPU, Target, Tunable
from webpte.errors import DeviceError, SourceError
from webpte.inspection.tune import tuning
from webpte.llm.decode.decoder import decoder_of

NATIVE = DeviceInfo("native", "maker", "kind", "its name")


def load(device: Any) -> tuple[Any, list[np.ndarray]]:
    graph, inputs = normed(Sizes(1, 576, 100), "q4")
    return webpte.load(write_pte(graph), device=device), inputs


async def tuned(slow: Callable[[int], float]) -> tuple[webpte.Tuning, int]:
    """Tune a GEMM; returns the result, and the number of its workgroups afterwards."""
    device = Timed(slow)
    loading, inputs = load(device)
    async with await loading as program:
        (before,) = await program.forward(*inputs)
        found = await program.tune()
        (after,) = await program.forward(*inputs)
        np.testing.assert_array_equal(after, before)
        return found, device._grids[max(device._grids)][-1]


@pytest.mark.parametrize(
    ("slow", "chosen"),
    [(float, "128/16"), (lambda grid: 1.0 / grid, "128/64")],
)
def test_the_fastest_is_chosen_and_used(slow: Callable[[int], float], chosen: str) -> None:
    found, workgroups = wait(tuned(slow))
    (row,) = found.rows
    assert row.key == "gemv_q4 n100 k576 format0 x1"
    assert (row.chosen, workgroups) == (chosen, -(-100 // (4 * 128 // int(chosen[4:]))))
    assert set(row.microseconds) == {"128/16", "128/32", "128/64", "256/64", "64/16"}
    assert found.choices == ((row.key, chosen),)


def test_what_is_hardly_faster_is_not_chosen() -> None:
    found, _ = wait(tuned(lambda grid: 100 + grid / 1000))
    (row,) = found.rows
    assert (row.chosen, row.gain) == (row.default, 1.0)


def test_many_rows_ask_for_tiles() -> None:
    async def check() -> None:
        net = Net()
        x = net.g.tensor((40, 256))
        inputs = net.finish((x,), net.linear(x, 64, "q4"))
        async with await webpte.load(write_pte(net.g), device=Timed(float)) as program:
            found = await program.tune("forward", *inputs)
        (row,) = found.rows
        assert row.key == "linear_q4 tiles m64 n64 k256 x1 f32"
        assert len(row.microseconds) > 1
        assert f"{row.key} | {row.default} | {row.chosen}" in str(found)

    wait(check())


def test_a_run_that_fails_leaves_kernels_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        device = Timed(float)
        loading, inputs = load(device)
        async with await loading as program:
            (before,) = await program.forward(*inputs)
            grids = device._grids[max(device._grids)]

            def fail(*_: object) -> None:
                raise RuntimeError("no time")

            with monkeypatch.context() as patch:
                patch.setattr(tuning, "_measured", fail)
                with pytest.raises(RuntimeError, match="no time"):
                    await program.tune()
            (after,) = await program.forward(*inputs)
            np.testing.assert_array_equal(after, before)
            assert device._grids[max(device._grids)] == grids

    wait(check())


class Noting(Timed):
    """Writes down the workgroups of the last dispatch of each run that is not timed."""

    def __init__(self) -> None:
        super().__init__(float)
        self.seen: list[int] = []

    def run(self, run: PlanRun) -> Any:
        self.seen.append(self._grids[run.plan][-1])
        return super().run(run)


@pytest.mark.parametrize("rest", [0.0, 0.003])
def test_what_is_on_trial_is_for_nobody_else(rest: float) -> None:
    """It may turn out to compute something else: then it is refused, but a call had it already."""

    async def check() -> None:
        device = Noting()
        loading, inputs = load(device)
        async with await loading as program:
            await program.forward(*inputs)
            chosen, graph = set(device.seen), program.graph()
            tuning = asyncio.ensure_future(program.tune(rest=rest))
            device.seen.clear()
            while not tuning.done():
                await program.forward(*inputs)
                await asyncio.sleep(0)
            assert set(device.seen[:-1]) == chosen  # the last may have come after it
            assert len(device.seen) > 5
            assert (await tuning).choices != ()
            tuned = program.graph()
            await program.forward(*inputs)
            assert device.seen[-1] not in chosen
            assert program.graph().nodes == tuned.nodes != graph.nodes

    wait(check())


def test_calls_with_other_inputs_and_state_come_between() -> None:
    """Candidates are compared with the usual results of the same inputs and the same state."""

    async def check(calls: int) -> webpte.Tuning:
        kind, device = KINDS["cut"], Timed(float)
        async with await webpte.load(kind.file, device=device) as program:
            x, rows = np.ones(4, np.float32), np.ones((2, 3), np.float32)
            await program.forward(x, rows)
            tuning = asyncio.ensure_future(program.tune(rest=0.001))
            await asyncio.sleep(0)  # it takes the inputs of the last call
            for call in range(calls):
                await program.forward(x, call * rows[: 1 + call % 2])
                await asyncio.sleep(0.0005)
            return await tuning

    with ops_of_kinds():
        for calls in (1, 2, 3, 40):
            assert wait(check(calls)).refused == ()
        (row,) = wait(check(2)).rows
    assert row.key == "cut n2"


def test_a_method_that_takes_nothing_need_not_have_run() -> None:
    async def check() -> None:
        async with await webpte.load(KINDS["shared"].file, device=Timed(float)) as program:
            assert (await program.tune("get")).refused == ()

    wait(check())


def test_state_is_afterwards_as_it_was() -> None:
    async def check() -> None:
        async with await webpte.load(remembering(), device=Timed(float)) as program:
            x = np.full((1, 1, 1, 2), 5, np.float32)
            (before,) = await program.forward(x, np.array([0]))
            await program.tune("forward", 2 * x, np.array([1]))
            (after,) = await program.forward(x, np.array([0]))
            np.testing.assert_array_equal(after, before)

    wait(check())


@pytest.mark.parametrize(
    "call",
    [
        lambda program, inputs: run_argmax(program, "forward", *inputs),
        lambda program, inputs: program.values("forward", *inputs, nodes=[0]),
        lambda program, inputs: decoder_of(program, "forward").run_unread(inputs),
    ],
    ids=["run_argmax", "values", "run_unread"],
)
def test_after_a_tuning_that_was_broken_off_every_way_to_run_has_what_was_chosen(
    call: Callable[[webpte.Program, Any], Awaitable[Any]],
) -> None:
    def stop(_: str, done: int, __: int) -> None:
        if done == 2:
            raise RuntimeError("enough")

    async def check() -> None:
        loading, inputs = load(Timed(float))
        async with await loading as program:
            chosen = program.graph().nodes
            with pytest.raises(RuntimeError, match="enough"):
                await program.tune("forward", *inputs, progress=stop)
            assert program.graph().nodes != chosen, "on trial until somebody calls"
            await call(program, inputs)
            assert program.graph().nodes == chosen

    wait(check())


def test_two_at_once_do_not_time_each_other() -> None:
    async def check() -> None:
        loading, inputs = load(Timed(float))
        async with await loading as program:
            await program.forward(*inputs)
            seen: list[str] = []
            told = [lambda *_, who=who: seen.append(who) for who in ("first", "second")]
            one, other = await asyncio.gather(*(program.tune(progress=tell) for tell in told))
            assert one.rows
            assert one == other
            assert seen == sorted(seen)  # all of the first, then all of the second

    wait(check())


@pytest.mark.parametrize("device", ["numpy", SimulatedDevice()])
def test_without_a_clock_there_is_nothing_to_measure(device: Any) -> None:
    async def check() -> None:
        loading, inputs = load(device)
        async with await loading as program:
            with pytest.raises(DeviceError, match=r"no kernels to tune|no timestamps"):
                await program.tune("forward", *inputs)

    wait(check())


def test_choices_are_asked_by_key() -> None:
    candidates = {"a": 1, "b": 2}
    assert GPU.choice("op", "n1", "a", candidates) == 1
    target = Target(choices=(("op n1", "b"), ("op n2", "gone")))
    assert target.choice("op", "n1", "a", candidates) == 2
    assert target.choice("op", "n2", "a", candidates) == 1  # a label of an older version
    asking = replace(target, asked=[])
    asking.choice("op", "n3", "a", candidates)
    assert asking.asked == [Tunable("op n3", "a", ("a", "b"))]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBPTE_TUNING", str(tmp_path / "tuning.json"))
    return tmp_path / "tuning.json"


def test_choices_are_kept_by_adapter(file: Path) -> None:
    wait(keep_choices(NATIVE, (("b", "1"), ("a", "1"))))
    wait(keep_choices(NATIVE, (("b", "2"),)))
    wait(keep_choices(replace(NATIVE, vendor="other"), (("a", "3"),)))
    assert wait(kept_choices(NATIVE)) == (("a", "1"), ("b", "2"))
    assert wait(kept_choices(replace(NATIVE, description="another"))) == ()
    assert len(json.loads(file.read_text())) == 2


DEEP = "[" * 100_000
NO_TABLES = ["", "{", "[]", '{"KEY": 1}', '{"KEY": {"a": 1}}', DEEP, '{"KEY": ' + DEEP, "9" * 5000]


@pytest.mark.parametrize("text", NO_TABLES, ids=lambda text: text[:20])
def test_a_file_that_is_no_table_counts_as_none(file: Path, text: str) -> None:
    file.write_text(text.replace("KEY", adapter_key(NATIVE)))
    assert wait(kept_choices(NATIVE)) == ()


def test_a_file_that_cannot_be_read_counts_as_none(file: Path) -> None:
    file.write_bytes(b'{"\xff": {}}')
    assert wait(kept_choices(NATIVE)) == ()
    wait(keep_choices(NATIVE, (("a", "1"),)))
    assert wait(kept_choices(NATIVE)) == (("a", "1"),)


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WEBPTE_TUNING")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    wait(keep_choices(NATIVE, (("a", "1"),)))
    assert wait(kept_choices(NATIVE)) == ()


TABLE = {adapter_key(NATIVE): {"a": "1", "b": "2"}, "another": {"a": "3"}}


def test_damaged_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading goes on with any stored text: only configs that are texts are used."""

    def read(data: bytes) -> None:
        monkeypatch.setattr(FileStore, "read", text(data))
        assert all(isinstance(one, str) for pair in wait(kept_choices(NATIVE)) for one in pair)

    def text(data: bytes) -> Any:
        async def reading(_store: FileStore) -> str:
            return data.decode("utf-8", "replace")

        return reading

    monkeypatch.setenv("WEBPTE_TUNING", "tuning.json")
    with bounded_work():
        times = extent.count(1000, 20_000)
        outcomes(read, lambda rng: damaged_json(TABLE, rng), times, (), "tuning")


def test_a_file_that_cannot_be_written_is_told(file: Path) -> None:
    file.mkdir()
    with pytest.raises(SourceError, match="could not be kept"):
        wait(keep_choices(NATIVE, (("a", "1"),)))
    assert list(file.parent.iterdir()) == [file]


def test_nothing_is_kept_in_tests() -> None:
    wait(keep_choices(NATIVE, (("a", "1"),)))
    assert wait(kept_choices(NATIVE)) == ()
