"""`serve.py bench --against`: its list, its table, and trees that cannot be compared."""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import webpte
from bench.trees import compare, figures, programs
from bench.trees.compare import SMALL, Row, compared, read_lines, show
from webpte_host.base.errors import HostError
from webpte_host.commands import bench
from webpte_host.setup import environment


def test_a_loss_is_found_in_every_round() -> None:
    mine = [{"a": 95.0, "b": 95.0, "c": 101.0}, {"a": 96.0, "b": 103.0, "c": 99.5}]
    other = [{"a": 100.0, "b": 100.0, "c": 100.0, "d": 1.0}, {"a": 99.0, "b": 100.0, "c": 100.0}]
    rows = {row.work: row for row in compared(mine, other)}
    assert rows["a"] == Row("a", 95.5, 99.5, (0.95, 96 / 99))
    assert [row.work for row in rows.values() if row.lost] == ["a"]


@pytest.mark.parametrize(("rate", "kept"), [(100.0, True), (90.0, False)])
def test_the_outcome(rate: float, kept: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert show({"this tree": [{"llama": rate}], "abc": [{"llama": 100.0}]}) is kept
    assert ("LOST" in capsys.readouterr().out) is not kept


def test_nothing_in_common_is_no_success() -> None:
    assert not show({"this tree": [{}], "abc": [{"llama": 100.0}]})


def test_lines_of_a_tree() -> None:
    told = [{"name": "llama", "rates": {"decode": 2.0}}, {"name": "qwen3", "error": "lost\n"}]
    text = "\n".join(["a driver speaks", *map(json.dumps, told)])
    assert read_lines(text) == ({"llama, decode": 2.0}, ["qwen3: lost"])


@pytest.mark.parametrize("given", ["no-such-commit", "-x"])
def test_a_tree_that_is_not_there(given: str) -> None:
    with pytest.raises(HostError, match="neither a folder with pysrc/webpte nor a commit"):
        compare.tree_folder(given)


def test_a_folder_is_a_tree(root: Path) -> None:
    assert compare.tree_folder(str(root)) == root


@pytest.mark.parametrize("name", ["llama_8da4w", "minilm"])
def test_programs_are_as_large_without_their_weights(name: str, tmp_path: Path) -> None:
    written = programs.program(name, small=True)
    path = programs.ensure(name, tmp_path, small=True)
    head = programs.head_of(written)
    (tmp_path / f"{name}.head").write_bytes(head)
    assert path.read_bytes().startswith(head)
    (length,) = struct.unpack_from("<Q", written, 32)
    assert path.stat().st_size == len(head) + length
    path.unlink()
    assert programs.ensure(name, tmp_path, small=True).stat().st_size == len(head) + length


def test_rates_of_every_kind(tmp_path: Path) -> None:
    jobs = compare.jobs_of(SMALL, tmp_path, ["llama_8da4w", "llama together"])
    assert [job["kind"] for job in jobs] == ["decoder", "batch"]
    for job in jobs:
        rates = asyncio.run(figures.rates_of(job["path"], job, "numpy"))
        assert rates
        assert all(np.isfinite(rate) and rate > 0 for rate in rates.values())


def test_lone_calls() -> None:
    async def run() -> dict[str, float]:
        from support.graphs.fusion_graphs import Net
        from support.write.pte_writer import write_pte

        net = Net()
        x = net.g.tensor((2, 8))
        net.finish((x,), net.linear(x, 4, "float"))
        async with await webpte.load(write_pte(net.g), device="numpy") as program:
            job = {"times": 2, "warm": 0.0, "answers": 1}
            return await figures.lone(program, job)

    assert set(asyncio.run(run())) == {"alone", "four at once"}


def test_serve_py_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = list[list[str]]()

    def take(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command[1:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(environment, "ensure", lambda **_: Path("python"))
    monkeypatch.setattr(subprocess, "run", take)
    given = ["--against", "main", "--small"]
    assert bench.main(given) == 0
    assert ran == [["-m", "bench.trees.compare", *given]]
    with pytest.raises(SystemExit):
        bench.main(["--against", "main", "--no-such-option"])
    assert len(ran) == 1


def test_an_archive_that_fails_leaves_no_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "KEPT", tmp_path)
    monkeypatch.setattr(compare, "_SOURCES", ("no such folder",))
    with pytest.raises(subprocess.CalledProcessError):
        compare.tree_folder("HEAD")
    assert list((tmp_path / "trees").iterdir()) == []


def test_a_commit_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "KEPT", tmp_path)
    folder = compare.tree_folder("HEAD")
    assert (folder / "pysrc" / "webpte" / "program.py").is_file()
    assert [*folder.parent.iterdir()] == [folder]
    monkeypatch.setattr(compare, "unpack", None)
    assert compare.tree_folder("HEAD") == folder
