"""Exports of folders for tasks. They need the export environment, and are skipped elsewhere."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.harness.sounds import HEARD_LETTERS, SPELLED_TEXTS
from support.harness.task_cases import SHORT, check, make_picture

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")
if find_spec("transformers") is None:
    pytest.skip("transformers is not installed", allow_module_level=True)

from PIL import Image  # noqa: E402

import webpte  # noqa: E402
from data.make import (  # noqa: E402
    make_image_text,
    make_text_generation,
    task_models,
    vision_models,
)
from data.make.export_seq2seq import build  # noqa: E402
from data.make.grid_models import GRIDS  # noqa: E402
from support.llm import text_generation_cases  # noqa: E402
from support.llm.small_seq2seq import answers_of, sound, write_files  # noqa: E402
from webpte_export import ExportError  # noqa: E402
from webpte_export.tasks import export_task  # noqa: E402
from webpte_export.tasks.grid_models import settle_pixels  # noqa: E402

tf = task_models.transformers


def small_model(folder: Path) -> Path:
    torch.manual_seed(1)
    config = {**task_models.DISTIL, "pad_token_id": 0, **task_models.labels("bad", "good")}
    model = tf.DistilBertForSequenceClassification(tf.DistilBertConfig(**config))
    task_models.word_pieces(folder)
    model.save_pretrained(folder)
    return folder


def test_a_folder_becomes_one_that_opens_and_gives_the_pipelines_results(tmp_path: Path) -> None:
    source, out = small_model(tmp_path / "model"), tmp_path / "out"
    report = export_task(source, out, "text-classification", max_length=20)
    assert report.passed, report.text()
    files = {
        file["name"] for file in json.loads((out / "model.manifest.json").read_text())["files"]
    }
    assert files == {"model.pte", "config.json", "tokenizer.json", "tokenizer_config.json"}

    async def classify() -> object:
        async with await webpte.tasks.open("text-classification", out, device="numpy") as task:
            return await task(SHORT, top_k=None)

    check(wait(classify()), tf.pipeline("text-classification", str(source))(SHORT, top_k=None))


def test_a_size_that_keeps_proportions_is_settled(tmp_path: Path) -> None:
    """transformers finds the same with the settings that are written beside the program."""
    source, out = tmp_path / "model", tmp_path / "out"
    _, _, model = vision_models.detectors()["things"]
    edges = {"shortest_edge": 16, "longest_edge": 40}
    vision_models.preprocessing("Yolos", size=edges, do_pad=True)(source)
    model.save_pretrained(source)
    report = export_task(source, out, "object-detection")
    assert report.passed, report.text()
    settings = json.loads((out / "preprocessor_config.json").read_text())
    assert settings["size"] == {"height": 16, "width": 16}
    processor = tf.AutoImageProcessor.from_pretrained(out)
    pipeline = tf.pipeline("object-detection", str(source), image_processor=processor)
    picture = make_picture(23, 61)

    async def detect() -> object:
        async with await webpte.tasks.open("object-detection", out, device="numpy") as task:
            return await task(picture, threshold=0.2)

    check(wait(detect()), pipeline(Image.fromarray(picture), threshold=0.2))


def test_an_encoder_decoder_becomes_a_translator(tmp_path: Path) -> None:
    source, out = tmp_path / "model", tmp_path / "out"
    model = build("t5")
    model.save_pretrained(source)
    write_files(source, "t5", 41)
    report = export_task(source, out, "translation")
    assert report.passed, report.text()
    case = answers_of("t5")[0]
    text = " ".join(f"w{token}" for token in case.source)

    async def translate() -> object:
        async with await webpte.tasks.open("translation", out, device="numpy") as task:
            return await task(text, max_new_tokens=12)

    wanted = " ".join(f"w{token}" for token in case.tokens[1:] if token != 1)
    assert wait(translate()) == [{"translation_text": wanted}]
    with pytest.raises(ExportError, match=r"no preprocessor_config\.json"):
        export_task(source, out, "automatic-speech-recognition")


@pytest.mark.filterwarnings("ignore")
def test_letters_are_heard(tmp_path: Path) -> None:
    source, out = tmp_path / "model", tmp_path / "out"
    source.mkdir()
    torch.manual_seed(5)
    task_models.speller(source)
    report = export_task(source, out, "automatic-speech-recognition", max_length=1)
    assert report.passed, report.text()
    with np.load(SPELLED_TEXTS) as kept:
        wanted = [str(kept[f"text{number}"]) for number in range(len(HEARD_LETTERS))]

    async def hear() -> object:
        async with await webpte.tasks.open(out, device="numpy") as task:
            return [(await task(sound(seconds)))["text"] for seconds in HEARD_LETTERS]

    assert wait(hear()) == wanted
    (source / "vocab.json").unlink()
    with pytest.raises(ExportError, match=r"no vocab\.json"):
        export_task(source, out, "automatic-speech-recognition")


@pytest.mark.filterwarnings("ignore")
def test_a_language_model_writes(tmp_path: Path) -> None:
    make_text_generation.make_models(tmp_path)
    report = export_task(tmp_path / "replies", tmp_path / "out", "text-generation", max_length=64)
    assert report.passed, report.text()
    manifest = json.loads((tmp_path / "out" / "model.manifest.json").read_text())
    assert manifest["task"] == "text-generation"
    (_, given, options), *_ = text_generation_cases.CASES

    async def write() -> object:
        async with await webpte.tasks.open(
            "text-generation", tmp_path / "out", device="numpy"
        ) as t:
            return await t(given, **options)

    assert wait(write()) == json.loads(text_generation_cases.EXPECTED.read_text())[0]
    build("t5").save_pretrained(tmp_path / "t5")
    with pytest.raises(ExportError, match="it is an encoder-decoder"):
        export_task(tmp_path / "t5", tmp_path / "out", "text-generation")


def test_folders_that_cannot_be_exported_say_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no config\.json"):
        export_task(tmp_path, tmp_path / "out", "fill-mask")
    source = small_model(tmp_path / "model")
    with pytest.raises(ExportError, match="no encoder-decoder"):
        export_task(source, tmp_path / "out", "summarization")
    with pytest.raises(ExportError, match=r"no task 'sentiment'.*text-classification"):
        export_task(source, tmp_path / "out", "sentiment")
    with pytest.raises(ExportError, match="not a model for image-classification"):
        export_task(source, tmp_path / "out", "image-classification")
    with pytest.raises(ExportError, match="too short"):
        export_task(source, tmp_path / "out", "text-classification", max_length=2)
    (source / "tokenizer.json").unlink()
    with pytest.raises(ExportError, match=r"no tokenizer\.json"):
        export_task(source, tmp_path / "out", "text-classification")


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_sees_is_exported_in_parts(tmp_path: Path) -> None:
    source, out = tmp_path / "model", tmp_path / "out"
    model, processor = make_image_text.llava(make_image_text.tokenizer())
    vision_models.spread(model, 1, 2.0).eval().save_pretrained(source)
    processor.save_pretrained(source)
    report = export_task(source, out, "image-text-to-text", quantize="8w", max_length=40)
    assert report.passed, report.text()
    chat = [{"role": "user", "content": [{"type": "image", "image": make_picture(9, 7)}]}]

    async def answer() -> object:
        async with await webpte.tasks.open("image-text-to-text", out, device="numpy") as task:
            return await task(chat, max_new_tokens=2, return_full_text=False)

    assert isinstance(wait(answer()), list)
    with pytest.raises(ExportError, match="the context holds 5: too few"):
        export_task(source, out, "image-text-to-text", max_length=5)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "vision_feature_layer": [0, 1]}))
    with pytest.raises(ExportError):
        export_task(source, out, "image-text-to-text")
    (source / "config.json").write_text(json.dumps(config))
    (source / "processor_config.json").unlink()
    with pytest.raises(ExportError, match=r"neither preprocessor_config\.json nor"):
        export_task(source, out, "image-text-to-text")
    with pytest.raises(ExportError):
        export_task(small_model(tmp_path / "text"), out, "image-text-to-text")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_sees_grids_is_exported_in_8_bits(tmp_path: Path) -> None:
    source, out = tmp_path / "model", tmp_path / "out"
    model, processor = GRIDS["windows"]()
    vision_models.spread(model, 1, 2.0).eval().save_pretrained(source)
    processor.save_pretrained(source)
    report = export_task(source, out, "image-text-to-text", quantize="8w", max_length=40)
    assert report.passed, report.text()

    async def answer() -> object:
        async with await webpte.tasks.open("image-text-to-text", out, device="numpy") as task:
            return await task(make_picture(9, 17), text="What?", max_new_tokens=2)

    assert isinstance(wait(answer()), list)
    with pytest.raises(ExportError, match="24 rows, but the context holds 20: too few"):
        export_task(source, out, "image-text-to-text", max_length=20)


def test_pictures_as_grids_are_as_large_as_a_program_takes(tmp_path: Path) -> None:
    usual = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "merge_size": 2}
    changed, rows = settle_pixels(usual, tmp_path)
    assert rows == 512
    assert changed["size"] == {"shortest_edge": 3136, "longest_edge": 512 * 28 * 28}
    assert "max_pixels" not in changed
    small = {"size": {"shortest_edge": 9000, "longest_edge": 8000}, "patch_size": 14}
    changed, rows = settle_pixels(small, tmp_path)
    assert (rows, changed["size"]) == (10, {"shortest_edge": 7840, "longest_edge": 7840})
    with pytest.raises(ExportError, match="how large pictures are: its size is None"):
        settle_pixels({**usual, "patch_size": [14, 14]}, tmp_path)
