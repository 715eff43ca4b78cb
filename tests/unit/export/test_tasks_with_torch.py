"""Exports of folders for tasks. They need the export environment, and are skipped elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.graphs.graphs import wait
from support.harness.task_cases import SHORT, check

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")
pytest.importorskip("transformers")

import webpte  # noqa: E402
from support.write import task_models  # noqa: E402
from webpte_export import ExportError  # noqa: E402
from webpte_export.tasks import export_task  # noqa: E402

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


def test_folders_that_cannot_be_exported_say_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no config\.json"):
        export_task(tmp_path, tmp_path / "out", "fill-mask")
    source = small_model(tmp_path / "model")
    with pytest.raises(ExportError, match=r"no task 'sentiment'.*text-classification"):
        export_task(source, tmp_path / "out", "sentiment")
    with pytest.raises(ExportError, match="not a model for image-classification"):
        export_task(source, tmp_path / "out", "image-classification")
    with pytest.raises(ExportError, match="too short"):
        export_task(source, tmp_path / "out", "text-classification", max_length=2)
    (source / "tokenizer.json").unlink()
    with pytest.raises(ExportError, match=r"no tokenizer\.json"):
        export_task(source, tmp_path / "out", "text-classification")
