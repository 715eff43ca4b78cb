"""The scenes of `serve.py pictures`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.page.gallery_models import STORED_WORDS, Encoder
from webpte_host.site import pictures
from webpte_host.site.scene_models import scene_models
from webpte_host.site.scenes import SCENES


def test_names_are_unique() -> None:
    names = [scene.name for scene in SCENES]
    assert len({*names}) == len(names)


def test_every_view_and_sample_has_a_scene(root: Path) -> None:
    views = {path.parent.name for path in (root / "web/page/views").glob("[!_]*/panel.py")}
    # Finds faces and texts with two models that have to be installed.
    assert views - {scene.view for scene in SCENES} == {"find"}
    shown = {scene.model for scene in SCENES}
    for path in (root / "web/samples").glob("*.json"):
        card = json.loads(path.read_text(encoding="utf-8"))
        if "title" in card and card.get("group") != "test":
            assert path.stem in shown


def test_models_of_scenes_are_unpacked_while_pictures_are_taken() -> None:
    with scene_models() as (mount,):
        for scene in SCENES:
            if "/" in scene.model:
                assert (mount.folder / scene.model).is_file()
        program = mount.folder / "encoder" / "model.pte"
        assert program.read_bytes() == Encoder(STORED_WORDS).pte()
    assert not mount.folder.exists()


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
