"""Exports of calibrated models, in the export environment: docs/use/export.md."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from webpte_export.exporter_patches import patch_exporter  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patch_exporter()  # before transformers, which imports torchvision
    pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")

from support.llm.decoder_families import (  # noqa: E402
    FAMILIES,
    VOCABULARY,
    tokenizer,
)
from webpte_export import ExportError, export_llm  # noqa: E402
from webpte_export.calibrate import calibrate  # noqa: E402
from webpte_export.llm.decoder import Decoder  # noqa: E402
from webpte_export.tasks import export_task  # noqa: E402

BY_NAME = {family.name: family for family in FAMILIES}
# Attention by the table, with a window and a soft cap, with a mask; other rotations; experts.
KINDS = ["llama", "gemma2", "bloom", "gpt_neox", "gptj", "cohere", "mixtral", "deepseek_v3"]


@pytest.mark.parametrize("name", [name for name in KINDS if name in BY_NAME])
def test_texts_that_are_computed_together_do_not_meet(name: str) -> None:
    decoder = Decoder(BY_NAME[name].model(), 64).eval()
    texts = [torch.randint(3, VOCABULARY, (1, 24)) for _ in range(3)]
    with torch.no_grad():
        alone = [decoder.all_logits(text) for text in texts]
    together: dict[int, Any] = {}
    runs = [
        lambda n=number, text=text: together.setdefault(n, decoder.all_logits(text))
        for number, text in enumerate(texts)
    ]
    assert not calibrate(decoder, (), runs, 32)
    for number, expected in enumerate(alone):
        assert torch.equal(together[number], expected)
    with torch.no_grad():  # the decoder is unchanged
        assert torch.equal(decoder.all_logits(texts[0]), alone[0])


def written(folder: Path, name: str) -> Path:
    model = copy.deepcopy(BY_NAME[name].model())
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    return folder


@pytest.mark.parametrize(("name", "how", "kept"), [("llama", "4w", 3), ("gpt2", "8da4w", 0)])
def test_a_calibrated_program_is_right(tmp_path: Path, name: str, how: str, kept: int) -> None:
    text = tmp_path / "text.txt"
    text.write_text("A few words, and some more of them: 1, 2, 3. " * 40)
    report = export_llm(
        *(written(tmp_path / "model", name), tmp_path / "out" / "m"),
        quantize=how,
        max_context=64,
        max_chunk=32,
        calibrate=text,
        keep_8w=kept,
    )
    assert report.passed, report.text()
    kinds = {"4w": "linear_q4gsw", "8da4w": "linear_dq8ca_q4gsw"}
    assert any(kinds[how] in op for op in report.gpu_ops), report.gpu_ops
    wide = sum(count for op, count in report.gpu_ops.items() if "int8pack_mm" in op)
    assert wide == kept + 1  # and the head, which has 99 rows
    for which in ("float32", f"{how}_uncalibrated", how):
        assert report.extra[f"perplexity_{which}"] > 1
    assert report.extra["calibration"].endswith("layers, 1,024 tokens")
    if kept:
        assert f"with {kept} layers at 8 bits: perplexity" in report.text()


def test_a_model_of_a_task_is_calibrated(tmp_path: Path) -> None:
    folder = written(tmp_path / "model", "llama")
    chosen: dict[str, Any] = {"quantize": "4w", "max_length": 64, "calibrate": True}
    report = export_task(folder, tmp_path / "out", "text-generation", **chosen, keep_8w=2)
    assert report.passed, report.text()
    assert "with 2 layers at 8 bits: perplexity" in report.text()
    with pytest.raises(ExportError, match="fill-mask are not calibrated"):
        export_task(folder, tmp_path / "out", "fill-mask", **chosen)


def test_models_that_keep_a_state_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "model", "mamba")
    with pytest.raises(ExportError, match="one token at a time"):
        export_llm(folder, tmp_path / "m", quantize="4w", calibrate=True)
