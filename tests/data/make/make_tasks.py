"""Writes tests/data/tasks: small random models of several tasks, and transformers' results.

    PYTHONPATH=pysrc:tests python tests/data/make/make_tasks.py OLD [MODEL ...]

It needs the environment of `serve.py export` with silero-vad. OLD is a folder with transformers 4
and its dependencies, for the pipeline of question-answering, which transformers 5 lacks. Pillow
must be older than version 13, which scales some tall pictures in another order.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image

from data.make.pack_folders import pack
from data.make.task_models import make_models, transformers
from data.make.voice_model import Reference, export_voice
from support.harness.task_cases import (
    ARCHIVE,
    CASES,
    EXPECTED,
    INTERPOLATED,
    MAP_SIZES,
    RESIZED,
    RESIZED_FROM,
    SIZES,
    made,
    make_map,
    make_picture,
    models_folder,
)
from webpte_export.manifest_writer import write_manifest
from webpte_export.tasks import export_task

QUESTIONS, VOICES = "question-answering", "voices"


def plain(value: Any) -> Any:
    """Return a result of a pipeline as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Image.Image):
        return {"pixels": np.asarray(value).tolist()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return float(f"{value:.7g}") if isinstance(value, float) else value


def expected(root: Path, old: str) -> list[Any]:
    """Run every case in transformers' pipeline; cases of version 4 in another process."""
    opened: dict[tuple[str, str], Any] = {}
    asked = [(str(root / m), args, opts) for m, task, args, opts in CASES if task == QUESTIONS]
    answers, found = iter(in_old(asked, old)), []
    for model, task, args, options in CASES:
        if task == QUESTIONS:
            found.append(next(answers))
            continue
        if (model, task) not in opened:
            opened[model, task] = reference(task, root / model)
        given = [as_pillow(made(arg)) for arg in args]
        found.append(plain(opened[model, task](*given, **options)))
    return found


def as_pillow(argument: Any) -> Any:
    if isinstance(argument, list):
        return [as_pillow(one) for one in argument]
    pictured = isinstance(argument, np.ndarray) and argument.ndim == 3
    return Image.fromarray(argument) if pictured else argument


def resized() -> None:
    """Write what Pillow's filters make of a picture."""
    picture = Image.fromarray(make_picture(*RESIZED_FROM))
    found: dict[str, Any] = {
        f"{number}_{height}_{width}": np.asarray(picture.resize((width, height), number))
        for number in range(6)
        for height, width in SIZES
    }
    np.savez_compressed(RESIZED, **found)


def interpolated() -> None:
    """Write what PyTorch's interpolation makes of a map."""
    values = torch.from_numpy(make_map())[None]
    found: dict[str, Any] = {
        f"{mode}_{height}_{width}": torch.nn.functional.interpolate(
            values, size=(height, width), mode=mode, align_corners=False
        )[0].numpy()
        for mode in ("bilinear", "bicubic")
        for height, width in MAP_SIZES
    }
    np.savez_compressed(INTERPOLATED, **found)


def reference(task: str, folder: Path) -> Any:
    if task == "reranking":
        return Ranker(folder)
    if task == "feature-extraction":
        return Vectors(folder)
    if task == "mask-generation":
        return Prompted(folder)
    if task == "voice-activity-detection":
        return Reference(folder)
    if task in ("image-to-image", "background-removal"):
        return Maker(folder, task)
    return transformers.pipeline(task, str(folder))


class Ranker:
    """Sigmoids of a model's logits of pairs, sorted: what sentence-transformers' rank does."""

    def __init__(self, folder: Path) -> None:
        self.tokens = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)

    def __call__(self, query: str, texts: list[str], top_k: int | None = None) -> list[Any]:
        queries = [query] * len(texts)
        given = self.tokens(queries, texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            scores = self.model(**given).logits.sigmoid()[:, 0].tolist()
        rows = zip(range(len(texts)), scores, texts, strict=True)
        found = [{"corpus_id": at, "score": score, "text": text} for at, score, text in rows]
        return sorted(found, key=lambda row: -row["score"])[:top_k]


class Prompted:
    """The model and the processor of SAM for one prompt; its pipeline knows none."""

    def __init__(self, folder: Path) -> None:
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        self.processor = transformers.SamProcessor(processor)
        self.model = transformers.SamModel.from_pretrained(folder)

    def __call__(
        self, picture: Any, points: Any = None, labels: Any = None, box: Any = None
    ) -> Any:
        prompt = {
            "input_points": points and [[points]],
            "input_labels": labels and [[labels]],
            "input_boxes": box and [[box]],
        }
        given = self.processor(images=picture, return_tensors="pt", **prompt)
        sizes = given.pop("original_sizes"), given.pop("reshaped_input_sizes")
        with torch.no_grad():
            found = self.model(**given.to(torch.float32))
        masks = self.processor.post_process_masks(found.pred_masks, *sizes)[0][0]
        scores = found.iou_scores[0, 0]
        order = scores.argsort(descending=True)
        return {"masks": list(masks[order]), "scores": scores[order].tolist()}


class Maker:
    """A model that makes pictures: as version 4's pipeline of image-to-image, or with alpha.

    A larger picture is cut to the size of the input: the pipeline leaves the filling there.
    """

    def __init__(self, folder: Path, task: str) -> None:
        enlarges = task == "image-to-image"
        name = "AutoModelForImageToImage" if enlarges else "AutoModelForSemanticSegmentation"
        self.model = getattr(transformers, name).from_pretrained(folder)
        self.processor = transformers.AutoImageProcessor.from_pretrained(folder)
        self.make = self.larger if enlarges else self.clear

    def __call__(self, given: Any) -> Any:
        many = isinstance(given, list)
        found = [self.make(picture) for picture in (given if many else [given])]
        return found if many else found[0]

    def larger(self, picture: Any) -> Any:
        with torch.no_grad():
            (made,) = self.model(**self.processor(picture, return_tensors="pt")).reconstruction
        pixels = (made.clamp(0, 1).numpy() * 255).round().astype(np.uint8)
        factor = self.model.config.upscale
        cut = np.moveaxis(pixels, 0, 2)[: picture.height * factor, : picture.width * factor]
        return Image.fromarray(cut)

    def clear(self, picture: Any) -> Any:
        with torch.no_grad():
            shares = self.model(**self.processor(picture, return_tensors="pt")).logits.sigmoid()
        size = picture.height, picture.width
        alpha = torch.nn.functional.interpolate(shares, size, mode="bilinear")[0, 0].numpy()
        picture.putalpha(Image.fromarray((alpha * 255).round().astype(np.uint8)))
        return picture


class Vectors:
    """The pipeline of feature-extraction, with the pooling that sentence encoders use."""

    def __init__(self, folder: Path) -> None:
        self.features = transformers.pipeline("feature-extraction", str(folder))

    def __call__(
        self, texts: Any, pooling: str = "none", normalize: bool = False, **options: Any
    ) -> Any:
        if pooling == "none":
            return self.features(texts, **options)
        rows = [
            self.features(text, **options)
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        hidden = [np.array(row)[0] for row in rows]
        pooled = np.array([one.mean(axis=0) if pooling == "mean" else one[0] for one in hidden])
        if normalize:
            pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled


OLD = """
import json, sys, transformers
found, pipes = [], {}
for folder, args, options in json.loads(sys.argv[1]):
    if folder not in pipes:
        pipes[folder] = transformers.pipeline("question-answering", folder)
    found.append(pipes[folder](*args, **options))
print(json.dumps(found))
"""


def in_old(asked: list[Any], old: str) -> list[Any]:
    code = f"import sys; sys.path.insert(0, {old!r}); sys.modules['torchvision'] = None\n{OLD}"
    command = [sys.executable, "-W", "ignore", "-c", code, json.dumps(asked)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stderr)
    answers: list[Any] = plain(json.loads(ran.stdout.splitlines()[-1]))
    return answers


KEPT = (
    *("model.pte", "model.manifest.json", "config.json", "tokenizer.json"),
    *("tokenizer_config.json", "preprocessor_config.json"),
)


def main(old: str, *only: str) -> None:
    """Write everything; with names, export those models alone ("none": none), and keep the rest."""
    assert int(PIL.__version__.split(".")[0]) < 13, PIL.__version__
    torch.manual_seed(27)
    resized()
    interpolated()
    with tempfile.TemporaryDirectory() as work:
        models, out = Path(work, "models"), Path(work, "out")
        tasks = make_models(models)
        results = expected(models, old)
        if only:
            shutil.copytree(models_folder(), out)
        for name in (set(tasks) - set(only)) if only else ():  # what says how inputs are prepared
            for file in KEPT[2:]:
                if (models / name / file).is_file():
                    shutil.copyfile(models / name / file, out / name / file)
            beside = [file for file in KEPT[2:] if (out / name / file).is_file()]
            write_manifest(out / name / KEPT[0], beside)
        tasks[VOICES] = ""
        for name in [name for name in only if name != "none"] if only else tasks:
            if name == VOICES:
                report = export_voice(out / name)
            else:
                report = export_task(models / name, out / name, tasks[name])
            print(name, report.program_bytes, "passed" if report.passed else report.problem)
        pack(out, ARCHIVE, KEPT, sorted(tasks))
    text = json.dumps(results, ensure_ascii=False)
    EXPECTED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
