"""Compiled encoders of texts: their description, the calls that texts become, and their vectors."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.compiling.hostile import check_changes, check_refused_task
from support.compiling.node import modules_in, run
from support.harness.task_cases import models_folder
from support.write.pte_writer import GraphWriter, write_pte
from webpte.errors import InputError, UnsupportedError
from webpte.llm.text.sequences import EncodedText, cut_texts
from webpte_host.base.layout import ROOT

Table = dict[str, Any]
SAMPLES = ROOT / "web" / "samples"
MODEL = "vectors"  # of tests/data/tasks: takes tokens and their mask, returns 16 numbers per token


def texts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("tokenizer*.json")}


def compiled(source: Path, out: Path, **options: Any) -> Table:
    asyncio.run(webpte.compile(source, out, **options))
    table: Table = json.loads((out / "program.json").read_text("utf-8"))
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled encoder."""
    out, source = tmp_path_factory.mktemp("compiled") / "out", models_folder() / MODEL
    compiled(source, out, task="feature-extraction", more=texts_of(source))
    return out


@pytest.fixture(scope="module")
def described(folder: Path) -> Table:
    table: Table = json.loads((folder / "program.json").read_text("utf-8"))
    return table


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return modules_in(tmp_path_factory.mktemp("modules"))


def shapes_of(table: Table) -> list[list[int]]:
    return [plan["shapes"][0] for plan in table["methods"]["forward"]["plans"]]


def test_the_description_of_an_encoder(folder: Path, described: Table) -> None:
    assert described["task"] == {
        "name": "feature-extraction",
        "method": "forward",
        "input": {
            "kind": "sentences",
            "frame": [[0, 0], [None, 0], [2, 0]],
            "pad": 1,
            "longest": 64,
            "tokenizer": "tokenizer.json",
            "config": "tokenizer_config.json",
        },
        "outputs": [{"kind": "vectors", "pooling": "mean", "outputs": [0]}],
    }
    assert shapes_of(described) == [[rows, n] for rows in (1, 8) for n in (8, 16, 32, 64)]
    assert (folder / "webpte-sentences.js").is_file()
    assert not list(folder.glob("webpte-t*.js"))


def test_a_sentence_encoder_by_its_card(tmp_path: Path) -> None:
    card = json.loads((SAMPLES / "words.json").read_text("utf-8"))
    more = {"tokenizer.json": (SAMPLES / "words.tokenizer.json").read_bytes()}
    more |= {"tokenizers.js": b"", "jinja.js": b""}
    calls = {"forward": [[np.zeros((rows, 30), np.int64)] for rows in (1, 3)]}
    words = SAMPLES / "words.pte"
    table = compiled(words, tmp_path / "out", task=card, more=more, examples=calls)
    assert shapes_of(table) == [[1, 30], [3, 30]]
    assert table["task"]["title"] == "Keyword search"
    given = table["task"]["input"]
    assert (given["pad"], given["longest"]) == (0, 30)
    assert given["examples"] == ["Which dog plays in a garden?"]
    assert (tmp_path / "out" / "tokenizers.js").exists()
    assert not (tmp_path / "out" / "jinja.js").exists()  # of chats
    (tmp_path / "out" / "webpte-sentences.js").unlink()
    table = compiled(words, tmp_path / "out", task=card)
    assert table["task"]["input"] == {"kind": "numbers"}


def test_a_task_of_texts_needs_the_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes texts: give its tokenizer"):
        compiled(models_folder() / MODEL, tmp_path / "out", task="feature-extraction")
    for model, task in (("entities", "token-classification"), ("ranks", "reranking")):
        with pytest.raises(UnsupportedError, match=f"{task} cannot be compiled with its"):
            compiled(models_folder() / model, tmp_path / "out", task=task)
    assert not (tmp_path / "out").exists()


def test_padding_needs_a_mask(tmp_path: Path) -> None:
    """Vectors of single tokens would depend on the padding of a compiled shape."""
    g = GraphWriter()
    tokens, y = g.tensor((2, 12), "int64"), g.tensor((2, 12, 4))
    table = g.prepack(g.tensor((400, 4), constant=np.zeros((400, 4), np.float32)))
    g.op("aten.embedding.default", table, tokens, g.int(-1), g.bool_(False), g.bool_(False), y)
    for value_id in (tokens, y):
        g.host(value_id, dynamic=True)
    g.inputs(tokens)
    g.outputs(y)
    (tmp_path / "model.pte").write_bytes(write_pte(g))
    more = texts_of(models_folder() / MODEL)
    (tmp_path / "tokenizer.json").write_bytes(more["tokenizer.json"])
    with pytest.raises(UnsupportedError, match="takes no mask of the padding; export it with"):
        compiled(tmp_path, tmp_path / "out", task="feature-extraction", more=more)


# A tokenizer whose tokens are numbers in the text, and a program that multiplies tokens by 1, 2, 3
# and by their mask.
PROGRAM = """
const { openTask } = await import("./sentences.mjs");
class Tokenizer {
    encode(text) { return { ids: text.split(" ").filter(Boolean).map(Number) }; }
}
const libraries = { tokenizers: { Tokenizer } };
const calls = [];
const width = 3;
const program = {
    run: async (name, [{ data: tokens, shape }, { data: mask }]) => {
        calls.push(shape);
        const data = new Float32Array(tokens.length * width);
        data.forEach((_, i) => {
            const at = Math.floor(i / width);
            data[i] = tokens[at] * mask[at] * (i % width + 1);
        });
        return [{ dtype: "float32", shape: [...shape, width], data }];
    },
};
const task = openTask(program, given.table, new URL(given.base));
const answer = (texts, options) => task.answer(texts, { libraries, ...options });
"""
ANSWERS = """
const [one] = await answer(given.texts, given.options);
const plain = (vector) => [...vector];
if (one.values) one.values = plain(one.values);
else one.vectors = one.vectors.map(plain);
return [one, calls];
"""


def answered(modules: Path, folder: Path, table: Table, texts: Any, **options: Any) -> Any:
    """Return the result of texts, with its vectors as lists, and the shapes of the calls."""
    given = {"table": table, "base": f"{folder.as_uri()}/", "texts": texts, "options": options}
    return run(modules, PROGRAM + ANSWERS, given)


def framed(text: str, longest: int = 64) -> np.ndarray:
    """Return the mean of the tokens' vectors of the program above."""
    tokens = [0, *list(map(int, text.split()))[: longest - 2], 2]
    return np.mean(tokens) * np.arange(1.0, 4.0)


def test_texts_become_rows_in_few_calls(modules: Path, folder: Path, described: Table) -> None:
    texts = [" ".join(map(str, range(5, 5 + count))) for count in (3, 100, 0, 7, 2, 20, 1, 1, 4, 3)]
    result, calls = answered(modules, folder, described, texts, normalize=False)
    assert result["kind"] == "similarities"
    assert result["texts"] == texts
    found, wanted = np.array(result["vectors"]), np.array([framed(text) for text in texts])
    assert np.allclose(found, wanted, rtol=1e-6)
    # The longest text of a call decides about its length.
    assert calls == [[8, 64], [1, 8], [1, 8]]
    units = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(result["similarities"], units @ units.T, atol=1e-6)


def test_a_single_text_and_another_pooling(modules: Path, folder: Path, described: Table) -> None:
    table = copy.deepcopy(described)
    table["task"]["input"]["frame"] = [[7, 0], [None, 0]]
    result, calls = answered(modules, folder, table, "1 2 3", pooling="cls")
    assert result["kind"] == "curve"
    assert np.allclose(result["values"], np.array([1, 2, 3]) / np.sqrt(14), rtol=1e-6)
    assert calls == [[1, 8]]


def test_wrong_texts_and_options(modules: Path, folder: Path, described: Table) -> None:
    code = """
    const said = [];
    for (const call of given.calls) {
        const failed = ({ name, message }) => `${name}: ${message}`;
        said.push(await answer(...call).then(() => "taken", failed));
    }
    return said;
    """
    calls = [[[], {}], [["a", 1], {}], [None, {}], ["1", {"pooling": "toString"}]]
    given = {"table": described, "base": f"{folder.as_uri()}/", "calls": calls}
    texts = "InputError: the program takes a text, or a list of texts"
    assert run(modules, PROGRAM + code, given) == [
        *(texts, texts, texts),
        "InputError: pooling is toString; there are mean, cls",
    ]


def test_a_classifier_of_texts(tmp_path: Path, modules: Path) -> None:
    source = models_folder() / "feelings"
    more = texts_of(source)
    table = compiled(source, tmp_path / "out", task="text-classification", more=more)
    assert table["task"]["outputs"] == [{**SCORES, "outputs": [0]}]
    code = PROGRAM.replace("shape: [...shape, width]", "shape: [shape[0], width]").replace(
        "tokens.length * width", "shape[0] * width"
    )
    results = {
        given: run(
            modules,
            code + "return answer(given.texts, { topK: 2 });",
            {"table": table, "base": f"{(tmp_path / 'out').as_uri()}/", "texts": list(given)},
        )
        for given in (("1 2", "3"), ("3",))
    }
    (first, second), (alone,) = results.values()
    assert (first["title"], second["title"]) == ("1 2", "3")
    assert alone["scores"] == second["scores"]
    # The first token of each row, [CLS] or 2, times 1, 2 and 3.
    wanted = np.exp([6, 4, 2]) / np.exp([6, 4, 2]).sum()
    assert [one["label"] for one in alone["scores"]] == ["glad", "calm"]
    assert np.allclose([one["score"] for one in alone["scores"]], wanted[:2])


ROWS = """
const { openTask } = await import("./sentences.mjs");
class Tokenizer {
    encode(text) { return { ids: text.split(" ").filter(Boolean).map(Number) }; }
}
const found = [];
const run = async (name, [{ data, shape: [rows, length] }, { data: mask }]) => {
    const count = mask.subarray(0, length).reduce((a, b) => a + b);
    found.push([...data.subarray(0, count)]);
    return [{ dtype: "float32", shape: [rows, 3], data: new Float32Array(3 * rows) }];
};
const task = openTask({ run }, given.table, new URL(given.base));
for (const pair of given.pairs) {
    const [one] = await task.answer([pair], { libraries: { tokenizers: { Tokenizer } } });
    found.push(one.title);
}
return found;
"""


def test_pairs_of_texts_are_cut_as_in_python(tmp_path: Path, modules: Path) -> None:
    source = models_folder() / "verdicts"
    more = texts_of(source)
    table = compiled(source, tmp_path / "out", task="text-classification", more=more)
    given = table["task"]["input"]
    special = [token for token, _, _ in given["pair"] if token is not None]
    assert [text for _, _, text in given["pair"]].count(None) == len(special) == 3
    room = given["longest"] - len(special)
    lengths = [(3, 2), (1, 200), (200, 1), (200, 200), (room // 2, 200), (90, room - 10), (2, 0)]
    pairs, wanted = [], list[Any]()
    for first, second in lengths:
        numbers = list(range(5, 5 + first)), list(range(300, 300 + second))
        text, other = (" ".join(map(str, one)) for one in numbers)
        pairs.append({"text": text, "text_pair": other})
        encoded = [EncodedText(tuple(one)) for one in numbers if one]
        free = given["longest"] - (3 if second else 2)
        parts = [list(one.tokens) for one in cut_texts(encoded, free)]
        frame = given["pair"] if second else [[*one, 0] for one in given["frame"]]
        wanted.append([n for t, _, at in frame for n in (parts[at] if t is None else [t])])
        wanted.append(f"{text} | {other}" if second else text)
    base = f"{(tmp_path / 'out').as_uri()}/"
    assert run(modules, ROWS, {"table": table, "base": base, "pairs": pairs}) == wanted


SCORES = {"kind": "scores", "labels": ["sad", "calm", "glad"], "function": "softmax"}
# Tasks that are wrong in a single place.
BROKEN: dict[str, Callable[[Table], Any]] = {
    "no method": lambda t: t.update(method="__proto__"),
    "a tokenizer elsewhere": lambda t: t["input"].update(tokenizer="../tokenizer.json"),
    "a config elsewhere": lambda t: t["input"].update(config="https://a.b/c.json"),
    "no frame": lambda t: t["input"].pop("frame"),
    "no text in the frame": lambda t: t["input"].update(frame=[[1, 0]]),
    "two texts in the frame": lambda t: t["input"].update(frame=[[None, 0], [None, 1]]),
    "a token that is none": lambda t: t["input"].update(frame=[["1", 0], [None, 0]]),
    "padding": lambda t: t["input"].update(pad=1.5),
    "a pair of one text": lambda t: t["input"].update(pair=[[None, 0, 0], [2, 0, None]]),
    "a pair of other texts": lambda t: t["input"].update(pair=[[None, 0, 0], [None, 1, 2]]),
    "texts without room": lambda t: t["input"].update(longest=2),
    "texts beyond the shapes": lambda t: t["input"].update(longest=65),
    "no results": lambda t: t.update(outputs=[]),
    "a result's kind": lambda t: t["outputs"][0].update(kind="scores"),
    "a result of no output": lambda t: t["outputs"][0].update(outputs=[4]),
    "a pooling": lambda t: t["outputs"][0].update(pooling="constructor"),
    "scores of tokens": lambda t: t["outputs"][0].update(SCORES),
    "scores without labels": lambda t: t["outputs"][0].update(kind="scores"),
}


def test_hostile_tasks_are_refused(modules: Path, described: Table) -> None:
    check_refused_task(modules, "sentences", described, BROKEN)


def test_whatever_changes_only_typed_errors_follow(modules: Path, described: Table) -> None:
    table = copy.deepcopy(described)
    del table["methods"]["forward"]["plans"][:-1]
    table["constants"], table["kernels"] = table["constants"][:2], table["kernels"][:2]
    table["methods"]["forward"]["plans"][0]["dispatches"] = []
    check_changes(modules, "sentences", table)
