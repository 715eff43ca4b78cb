"""Models of OpenAI's API by their folders: where the program and its tokenizer are found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from webpte.errors import SourceError, TextError
from webpte.tasks.text_generation import TextGeneration
from webpte_host.base.layout import WEB
from webpte_serve.api.load_models import model_files
from webpte_serve.openai import Model, open_model

SAMPLES = WEB / "samples"
PAGE = "<!doctype html>\n<title>An app</title>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "teller"
    folder.mkdir()
    shutil.copy(SAMPLES / "stories.pte", folder / "model.pte")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(SAMPLES / f"stories.{name}", folder / name)
    return folder


def opened(source: Path | str, **options: Any) -> Model:
    model = wait(open_model(source, device="numpy", **options))
    assert isinstance(model, Model)
    model.program.close()
    return model


def test_a_folder_a_program_and_a_name(folder: Path) -> None:
    assert opened(folder).name == "teller"
    assert opened(str(folder)).name == "teller"
    assert opened(SAMPLES / "stories.pte").name == "stories"  # stories.tokenizer.json is beside it
    assert opened(folder / "model.pte", name="mine").name == "mine"


def test_a_tokenizer_with_the_programs_name_comes_first(folder: Path) -> None:
    """A folder can have several programs; a file without a program's name is for all others."""
    of_its_own = folder / "teller.pte"
    shutil.copy(folder / "model.pte", of_its_own)
    (folder / "tokenizer.json").rename(folder / "teller.tokenizer.json")
    shutil.copy(SAMPLES / "words.tokenizer.json", folder / "tokenizer.json")
    wanted = opened(SAMPLES / "stories.pte").tokenizer.vocabulary
    assert opened(of_its_own).tokenizer.vocabulary == wanted
    assert model_files(str(of_its_own))[2].name == "teller.tokenizer.json"
    assert model_files(str(folder / "model.pte"))[2].name == "tokenizer.json"

    task = wait(webpte.tasks.open("text-generation", of_its_own, device="numpy"))
    assert isinstance(task, TextGeneration)
    task.program.close()
    assert task.tokenizer.vocabulary == wanted


def test_a_manifest_names_its_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "words.json")
    text = '{"program": "model.pte", "tokenizer": "words.json"}'
    (folder / "model.manifest.json").write_text(text)
    assert opened(folder).tokenizer.encode("cow")


def test_a_page_in_place_of_a_file_is_no_file(folder: Path) -> None:
    """Servers of one-page apps answer every address with their page."""
    for name in ("model.tokenizer.json", "model.tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_text(PAGE)
    model = opened(folder / "model.pte")
    assert model.tokenizer.template is not None


def test_without_a_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text(PAGE)
    with pytest.raises(TextError, match="no tokenizer next to it"):
        opened(folder)
    with pytest.raises(SourceError, match=r"none\.pte") as caught:
        opened(folder / "none.pte")
    assert "next to it" not in str(caught.value)
    with pytest.raises(SourceError, match=r"none\.json"):
        opened(folder, tokenizer=str(folder / "none.json"))
    with pytest.raises(SourceError, match="no such folder"):
        opened(folder / "none")
