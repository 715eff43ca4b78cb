"""Compiled tasks in Chromium give the recorded results of transformers' pipelines."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import webpte
from support.compiling.cases import compile_program
from support.compiling.pages import page_of
from support.harness import extent
from support.harness.sounds import (
    HEARD,
    HEARD_LETTERS,
    SPELLED_TEXTS,
    letters_folder,
    moonshine_folder,
)
from support.harness.task_cases import CASES, EXPECTED, check, made, models_folder, plain
from support.llm.small_seq2seq import SPOKEN, sound, whisper_folder
from webpte.errors import UnsupportedError
from webpte_host.base.progress import Display
from webpte_host.setup.text_libraries import text_libraries

TASKS = {
    *("image-classification", "object-detection", "depth-estimation", "image-segmentation"),
    *("background-removal", "image-feature-extraction", "image-to-image"),
}
MODELS = sorted({(model, task) for model, task, *_ in CASES if task in TASKS})
# Models with kernels that only Python has.
REFUSED = {"conditions", "instants", "queries"}
ANSWERS = """
async ([address, pictures, options]) => {
    const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const text = ({ buffer, byteOffset, byteLength }) => {
        const bytes = new Uint8Array(buffer, byteOffset, byteLength);
        return btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
    };
    const program = await (await import(address)).open();
    const found = [];
    for (const { width, height, data } of pictures) {
        const [one] = await program.answer({ width, height, data: bytes(data) }, options);
        const { picture, values } = one;
        found.push({ ...one,
            ...(picture ? { picture: { ...picture, data: text(picture.data) } } : {}),
            ...(values ? { values: text(values) } : {}) });
    }
    program.close();
    return found;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    with page_of(browser, folder) as page:
        yield page


def answers(page: Page, model: str, pictures: list[np.ndarray], **options: Any) -> list[Any]:
    """Return the result of each picture by a compiled model."""
    given = [
        {
            "height": one.shape[0],
            "width": one.shape[1],
            "data": base64.b64encode(one.tobytes()).decode(),
        }
        for one in pictures
    ]
    found: list[Any] = page.evaluate(
        ANSWERS, [f"{page.url.rpartition('/')[0]}/{model}/index.js", given, options]
    )
    return found


def decoded(text: str, dtype: Any = np.uint8) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def as_task(task: str, one: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Return a result as the task of Python returns it."""
    height, width = shape[:2]
    if task == "image-classification":
        return one["scores"]
    if task == "object-detection":
        return one["boxes"]
    if task == "image-feature-extraction":
        return decoded(one["values"], np.float32).reshape(one["shape"])
    pixels = decoded(one["picture"]["data"]).reshape(
        one["picture"]["height"], one["picture"]["width"], 4
    )
    if task == "depth-estimation":
        depth = decoded(one["values"], np.float32).reshape(height, width)
        return {"predicted_depth": depth, "depth": pixels[:, :, 0]}
    if task == "image-segmentation":
        found = decoded(one["values"], np.uint16).reshape(height, width)
        return [
            {
                "score": None,
                "label": row["label"],
                "mask": np.where(found == row["number"], 255, 0).astype(np.uint8),
            }
            for row in sorted(one["legend"], key=lambda row: row["number"])
        ]
    return pixels if task == "background-removal" else pixels[:, :, :3]


VECTORS = """
async ([address, texts, options]) => {
    const program = await (await import(address)).open();
    const results = [];
    for (const given of texts) results.push(...await program.answer(given, options));
    program.close();
    const plain = (one) => [...one];
    return results.map(({ values, vectors, similarities }) => (
        [values ? [plain(values)] : vectors.map(plain), similarities]
    ));
}
"""


@pytest.mark.parametrize("at", [at for at, case in enumerate(CASES) if "pooling" in case[3]])
def test_vectors_are_those_of_the_reference(page: Page, folder: Path, at: int) -> None:
    model, task, (given,), options = CASES[at]
    out = folder / model
    if not out.exists():
        compile_program(models_folder() / model, out, task=task, more=texts_beside(model))
    named = {"normalize": options.get("normalize", False), "pooling": options["pooling"]}
    address = f"{page.url.rpartition('/')[0]}/{model}/index.js"
    ((found, near),) = page.evaluate(VECTORS, [address, [given], named])
    wanted = json.loads(EXPECTED.read_text("utf-8"))[at]
    check(found, wanted, tolerance=1e-3)
    if named["normalize"]:
        assert np.allclose(near, np.array(wanted) @ np.array(wanted).T, atol=1e-4)


SCORES = """
async ([address, texts, topK]) => {
    const program = await (await import(address)).open();
    const results = await program.answer(texts, { topK });
    program.close();
    return results.map(({ scores }) => scores);
}
"""


@pytest.mark.parametrize(("model", "least"), [("feelings", 6), ("verdicts", 4)])
def test_labels_of_texts_are_those_of_the_reference(
    page: Page, folder: Path, model: str, least: int
) -> None:
    task = "text-classification"
    more = texts_beside(model)
    compile_program(models_folder() / model, folder / model, task=task, more=more)
    address = f"{page.url.rpartition('/')[0]}/{model}/index.js"
    expected = json.loads(EXPECTED.read_text("utf-8"))
    tried = 0
    for at, (name, named, args, options) in enumerate(CASES):
        if (name, named) != (model, task) or options.keys() - {"top_k", "truncation"}:
            continue
        texts = args[0] if isinstance(args[0], list) else args
        found = page.evaluate(SCORES, [address, texts, options.get("top_k", 1)])
        if "top_k" not in options:
            found = [best for (best,) in found]
        elif texts is args:
            (found,) = found
        check(found, expected[at], tolerance=1e-3)
        tried += 1
    assert tried >= least


HEARD_BY = """
async ([address, sounds]) => {
    const program = await (await import(address)).open();
    const texts = [];
    for (const samples of sounds) {
        const [{ text }] = await program.answer(Float32Array.from(samples));
        texts.push(text);
    }
    program.close();
    return texts;
}
"""


def test_speech_is_that_of_the_reference(page: Page, folder: Path) -> None:
    compile_program(letters_folder(), folder / "letters", task="automatic-speech-recognition")
    address = f"{page.url.rpartition('/')[0]}/letters/index.js"
    found = page.evaluate(HEARD_BY, [address, [sound(one).tolist() for one in HEARD_LETTERS]])
    with np.load(SPELLED_TEXTS) as kept:
        assert found == [str(kept[f"text{number}"]) for number in range(len(HEARD_LETTERS))]


SPOKEN_BY = """
async ([address, calls]) => {
    const program = await (await import(address)).open();
    const results = await Promise.all(calls.map(async ([samples, options]) => {
        const grown = [];
        const onText = (one) => grown.push(one);
        const [{ text }] = await program.answer(Float32Array.from(samples), { ...options, onText });
        return [text, grown.at(-1) ?? ""];
    }));
    program.close();
    return results;
}
"""


@pytest.mark.parametrize("family", extent.some(["whisper"], "moonshine"))
def test_answers_in_tokens_are_those_of_python(page: Page, folder: Path, family: str) -> None:
    calls: list[tuple[np.ndarray, dict[str, str]]]
    if family == "moonshine":
        model, calls = moonshine_folder(), [(sound(seconds), {}) for seconds in HEARD]
    else:
        languages = [{} if one.language is None else {"language": one.language} for one in SPOKEN]
        model = whisper_folder()
        calls = list(zip([sound(one.seconds) for one in SPOKEN], languages, strict=True))
    # Python takes sounds of any length: the compiled lengths are of these.
    frames = [-(-(len(samples) - 511) // 384) for samples, _ in calls]
    lengths = [[np.zeros((1, 384 * count + 511), np.float32)] for count in frames]
    examples = {"encoder": lengths} if family == "moonshine" else None
    name = "automatic-speech-recognition"
    more = texts_in(model)
    compile_program(model, folder / family, examples, task=name, more=more)

    async def expected() -> list[str]:
        async with await webpte.tasks.open(name, model, device="numpy") as task:
            return [(await task(samples, **options))["text"] for samples, options in calls]

    address = f"{page.url.rpartition('/')[0]}/{family}/index.js"
    given = [[samples.tolist(), options] for samples, options in calls]
    found = page.evaluate(SPOKEN_BY, [address, given])
    with ThreadPoolExecutor(1) as threads:  # Playwright's event loop runs here
        texts = threads.submit(asyncio.run, expected()).result()
    assert found == [[text, text] for text in texts]
    assert all(texts)


def texts_beside(model: str) -> dict[str, bytes]:
    """Return the tokenizer of a model, and the library for it; skip without npm."""
    return texts_in(models_folder() / model)


def texts_in(folder: Path) -> dict[str, bytes]:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings the libraries for texts")
    files = {path.name: path.read_bytes() for path in folder.glob("token*.json")}
    return {**files, **text_libraries(Display())}


@pytest.mark.parametrize(("model", "task"), extent.share(MODELS, 2))
def test_results_are_those_of_the_reference(
    page: Page, folder: Path, model: str, task: str
) -> None:
    if model in REFUSED:
        with pytest.raises(UnsupportedError, match="because these run there: aten::"):
            compile_program(models_folder() / model, folder / model, task=task)
        return
    compile_program(models_folder() / model, folder / model, task=task)
    expected = json.loads(EXPECTED.read_text("utf-8"))
    cases = [(at, case) for at, case in enumerate(CASES) if case[:2] == (model, task)]
    for at, (_, _, args, options) in cases:
        if options.keys() - {"top_k", "threshold", "subtask"}:
            continue
        given = made(args)[0]
        pictures = given if isinstance(given, list) else [given]
        named = {"topK": options.get("top_k", 5), "threshold": options.get("threshold", 0.5)}
        found = [
            as_task(task, one, picture.shape)
            for one, picture in zip(answers(page, model, pictures, **named), pictures, strict=True)
        ]
        result = plain(found if isinstance(given, list) else found[0])
        check(result, expected[at], tolerance=1e-3)
