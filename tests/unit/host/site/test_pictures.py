"""The scenes of `serve.py pictures`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from webpte_host.site import pictures
from webpte_host.site.scenes import SCENES


def test_names_are_unique() -> None:
    names = [scene.name for scene in SCENES]
    assert len({*names}) == len(names)


def test_every_view_and_sample_has_a_scene(root: Path) -> None:
    views = {path.parent.name for path in (root / "web/page/views").glob("*/panel.py")}
    # Of models that have to be installed, or exported for training.
    installed = {"documents", "find", "rank", "speech", "task", "train"}
    assert views - {scene.view for scene in SCENES} == installed
    shown = {scene.model for scene in SCENES}
    for path in (root / "web/samples").glob("*.json"):
        card = json.loads(path.read_text(encoding="utf-8"))
        if "title" in card and card.get("group") != "test":
            assert path.stem in shown


def test_scenes_are_chosen_by_name() -> None:
    def names(*globs: str, readme: bool = False) -> list[str]:
        return [scene.name for scene in pictures.chosen_scenes(globs, readme=readme)]

    assert names() == [scene.name for scene in SCENES]
    assert names("ch*t") == ["chat"]
    assert names("no such") == []
    assert {*names(readme=True)} == {"photo", "chat", "graph", "profile"}


def test_an_unknown_scene_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pictures.main(["--only", "flight"])
    assert "no scene is called flight" in capsys.readouterr().err
