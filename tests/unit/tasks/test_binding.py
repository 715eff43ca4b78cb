"""Tasks of programs that are loaded already, and how a manifest names a task."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import webpte
from support.harness.task_cases import models_folder
from webpte.engine.files.manifest import read_manifest
from webpte.errors import InputError, SourceError
from webpte_export.manifest_writer import add_task, write_manifest
from webpte_host.commands.export import next_steps

TASK = "image-classification"


def test_a_loaded_program_and_its_files_are_a_task() -> None:
    picture = np.random.default_rng(4).integers(0, 256, (20, 31, 3), np.uint8)
    folder = models_folder() / "shapes"

    async def script() -> None:
        async with await webpte.tasks.open(TASK, folder, device="numpy") as task:
            wanted = await task(picture)
        async with await webpte.load(folder / "model.pte", device="numpy") as program:
            names = webpte.tasks.find(TASK).wanted
            files = {name: (folder / name).read_bytes() for name in names}
            assert await (await webpte.tasks.bind(TASK, program, files))(picture) == wanted
            with pytest.raises(SourceError, match=r"has no preprocessor_config\.json"):
                await webpte.tasks.bind(TASK, program, {"config.json": files["config.json"]})

    asyncio.run(script())


def test_an_unknown_task_is_told() -> None:
    with pytest.raises(InputError, match="there is no task 'poetry'"):
        webpte.tasks.find("poetry")


def test_a_manifest_names_the_task(tmp_path: Path) -> None:
    program = tmp_path / "model.pte"
    program.write_bytes(b"program")
    path = write_manifest(program)
    assert read_manifest(path.read_bytes(), path.name).task == ""
    add_task(program, TASK)
    manifest = read_manifest(path.read_bytes(), path.name)
    assert (manifest.task, manifest.program.name) == (TASK, "model.pte")
    assert json.loads(path.read_text(encoding="utf-8"))["files"][0]["bytes"] == 7


def test_the_export_of_a_task_tells_the_address_of_its_view() -> None:
    suite = Path("out/model.suite")
    assert next_steps(suite, is_task=True)[1].endswith("/?url=/folder/model.manifest.json")
    assert next_steps(suite)[1].endswith("/?url=/folder/model.pte")
