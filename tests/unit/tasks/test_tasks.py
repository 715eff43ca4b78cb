"""Tasks have the results of transformers' pipelines, and errors for wrong files and inputs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import (
    CASES,
    LONG,
    SHORT,
    check,
    made,
    models_folder,
    plain,
)
from support.harness.task_cases import EXPECTED as EXPECTED_FILE
from support.tasks.calls import calls_of, named_fields
from webpte.errors import ClosedError, InputError, SourceError, VocabularyError, WebpteError
from webpte.tasks import Task

FOLDER = models_folder()
EXPECTED = json.loads(EXPECTED_FILE.read_text(encoding="utf-8"))
# Tasks whose calls, and more, are in separate tests.
ELSEWHERE = {
    *("text2text-generation", "summarization", "translation", "text-generation"),
    *("automatic-speech-recognition", "text-to-speech", "audio-to-midi", "image-text-to-text"),
}


def opened(task: str, source: str | Path) -> Task:
    return asyncio.run(webpte.tasks.open(task, source, device="numpy"))


def call(task: Task, *args: Any, **options: Any) -> Any:
    async def once() -> Any:
        return await task(*args, **options)

    return asyncio.run(once())


@pytest.fixture(scope="module")
def tasks() -> Any:
    opened_before: dict[tuple[str, str], Task] = {}

    def get(model: str, task: str) -> Task:
        if (model, task) not in opened_before:
            opened_before[model, task] = opened(task, FOLDER / model)
        return opened_before[model, task]

    yield get
    for task in opened_before.values():
        task.close()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_results_are_those_of_the_pipeline(tasks: Any, number: int) -> None:
    model, task, args, options = CASES[number]
    given = [made(arg) for arg in args]
    check(plain(call(tasks(model, task), *given, **options)), EXPECTED[number])


def test_every_task_has_a_call_in_pages() -> None:
    assert all(calls_of(name) for name in webpte.tasks.names())


@pytest.mark.parametrize(
    "name", sorted({*webpte.tasks.names()} - {task for _, task, _, _ in CASES} - ELSEWHERE)
)
def test_calls_of_pages_give_the_result_of_the_reference(name: str) -> None:
    async def run() -> None:
        for wanted in calls_of(name):
            task: Any = await webpte.tasks.open(name, FOLDER / wanted.model, device="numpy")
            if wanted.added:
                await task.add(wanted.added)
            noise = iter(wanted.noise)
            drawn = {"draw": lambda shape: next(noise).reshape(shape)} if wanted.noise else {}  # noqa: B023
            found = plain(await task(*wanted.args, **wanted.options, **drawn))
            check(named_fields(found, wanted.wanted), wanted.wanted)
            task.close()

    asyncio.run(run())


def test_an_unknown_task_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'sentiment'.*text-classification"):
        opened("sentiment", FOLDER / "feelings")


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_a_folder_without_a_file_says_which_and_how_to_make_it(
    tmp_path: Path, missing: str
) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    (folder / missing).unlink()
    with pytest.raises(SourceError, match=rf"{missing}.*export .* --task text-classification"):
        opened("text-classification", folder)


def test_no_folder_and_no_program_are_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        opened("fill-mask", tmp_path / "none")
    with pytest.raises(SourceError, match=r"0 \.pte files"):
        opened("fill-mask", tmp_path)
    with pytest.raises(InputError, match="not by a bytes"):
        opened("fill-mask", b"")  # type: ignore[arg-type]


def test_a_folder_is_opened_by_what_it_has(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    wanted = EXPECTED[0]
    for source in (folder, folder / "model.pte", folder / "model.manifest.json", str(folder)):
        with_task = opened("text-classification", source)
        check(call(with_task, SHORT), wanted)
        with_task.close()
    (folder / "model.manifest.json").unlink()
    (folder / "model.pte").rename(folder / "other.pte")
    check(call(opened("text-classification", folder), SHORT), wanted)
    shutil.copy(folder / "other.pte", folder / "another.pte")
    with pytest.raises(SourceError, match="name the one to open"):
        opened("text-classification", folder)


def test_a_damaged_program_is_found_by_its_manifest(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    program = folder / "model.pte"
    program.write_bytes(program.read_bytes()[:-1] + b"\0\1"[-1:])
    with pytest.raises(SourceError):
        opened("text-classification", folder)


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("token-classification", "feelings"),
        ("question-answering", "entities"),
        ("reranking", "verdicts"),
        ("text-classification", "gaps"),
        ("fill-mask", "answers"),
    ],
)
def test_a_program_of_another_task_is_refused(task: str, model: str) -> None:
    with pytest.raises(WebpteError, match=f"not a program for {task}"):
        opened(task, FOLDER / model)


def changed(folder: Path, file: str, **change: Any) -> None:
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **change}))


def test_files_of_other_models_are_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    changed(folder, "config.json", id2label={"0": "one"})
    with pytest.raises(InputError, match=r"1 labels .* 3 numbers"):
        opened("text-classification", folder)
    changed(folder, "config.json", vocab_size=100)
    with pytest.raises(VocabularyError, match="knows only 100"):
        opened("text-classification", folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config\.json"):
        opened("text-classification", folder)


def test_labels_without_names_are_numbered(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["id2label"]
    (folder / "config.json").write_text(json.dumps(config))
    found = call(opened("text-classification", folder), SHORT, top_k=None)
    assert {row["label"] for row in found} == {"LABEL_0", "LABEL_1", "LABEL_2"}


@pytest.mark.parametrize(
    ("problem", "total"), [("multi_label_classification", None), ("regression", None)]
)
def test_the_config_says_what_scores_are(tmp_path: Path, problem: str, total: Any) -> None:
    folder = shutil.copytree(FOLDER / "feelings", tmp_path / "model")
    task = opened("text-classification", folder)
    name = {"multi_label_classification": "sigmoid", "regression": "none"}[problem]
    wanted = call(task, SHORT, top_k=None, function_to_apply=name)
    changed(folder, "config.json", problem_type=problem)
    assert call(opened("text-classification", folder), SHORT, top_k=None) == wanted


@pytest.mark.parametrize(
    ("model", "task", "args", "options", "said"),
    [
        ("feelings", "text-classification", [LONG], {}, "takes 64: .*truncation=True"),
        ("feelings", "text-classification", [3], {}, "not a int"),
        ("feelings", "text-classification", [{"text": 3}], {}, "not a int"),
        ("feelings", "text-classification", [["a", ["b"]]], {}, "not a list"),
        ("feelings", "text-classification", ["a"], {"top_k": 0}, "above 0"),
        ("feelings", "text-classification", ["a"], {"function_to_apply": "max"}, "softmax"),
        ("feelings", "text-classification", ["a"], {"truncation": "left"}, "truncation"),
        ("entities", "token-classification", ["a"], {"aggregation_strategy": "max"}, "simple"),
        ("answers", "question-answering", [], {"question": "", "context": "a"}, "is empty"),
        ("answers", "question-answering", [], {"question": "a"}, "context is empty"),
        ("answers", "question-answering", ["a"], {}, "a question and a context"),
        ("answers", "question-answering", [], {"question": LONG, "context": "a"}, "no room"),
        (
            "answers",
            "question-answering",
            [],
            {"question": "a", "context": LONG, "doc_stride": 64},
            "cannot overlap",
        ),
        (
            "answers",
            "question-answering",
            [],
            {"question": "a", "context": "b", "max_answer_len": 0},
            "max_answer_len",
        ),
        ("gaps", "fill-mask", ["no gap"], {}, r"write \[MASK\]"),
        ("gaps", "fill-mask", ["[MASK]"], {"targets": []}, "targets"),
        ("verdicts", "zero-shot-classification", ["a", []], {}, "a label or more"),
        (
            "verdicts",
            "zero-shot-classification",
            ["a", ["b"]],
            {"hypothesis_template": "fixed"},
            "with {}",
        ),
        (
            "verdicts",
            "zero-shot-classification",
            ["a", ["b"]],
            {"hypothesis_template": "{label}"},
            "filled in",
        ),
        ("verdicts", "zero-shot-classification", ["a", [LONG]], {}, "no room"),
        ("ranks", "reranking", ["a", "b"], {}, "a list of documents"),
        ("vectors", "feature-extraction", ["a"], {"pooling": "max"}, "mean"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(
    tasks: Any, model: str, task: str, args: list[Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        call(tasks(model, task), *args, **options)


@pytest.mark.parametrize(
    ("model", "task", "args"),
    [
        ("feelings", "text-classification", [[]]),
        ("entities", "token-classification", [[]]),
        ("ranks", "reranking", ["query", []]),
    ],
)
def test_no_inputs_give_no_results(tasks: Any, model: str, task: str, args: list[Any]) -> None:
    assert call(tasks(model, task), *args) == []


def test_calls_at_once_and_after_closing() -> None:
    async def several() -> Any:
        async with await webpte.tasks.open(
            "text-classification", FOLDER / "feelings", device="numpy"
        ) as task:
            found = await asyncio.gather(task(SHORT), task("ok"), task(SHORT))
        with pytest.raises(ClosedError):
            await task(SHORT)
        return found

    first, _, last = asyncio.run(several())
    assert first == last == call(opened("text-classification", FOLDER / "feelings"), SHORT)


def test_many_texts_go_in_batches(tasks: Any) -> None:
    texts = [SHORT[:length] for length in range(1, 20)]
    task = tasks("feelings", "text-classification")
    alone = [call(task, text)[0] for text in texts]
    check(call(task, texts), alone)


def test_scores_of_a_reranker_may_be_logits(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER / "ranks", tmp_path / "model")
    first = call(opened("reranking", folder), SHORT, ["a", "b"], return_documents=False)
    assert first[0].keys() == {"corpus_id", "score"}
    identity = {"activation_fn": "torch.nn.modules.linear.Identity"}
    changed(folder, "config.json", sentence_transformers=identity)
    found = call(opened("reranking", folder), SHORT, ["a", "b"])
    for row, plain_row in zip(first, found, strict=True):
        assert row["score"] == pytest.approx(1 / (1 + np.exp(-plain_row["score"])), rel=1e-5)
