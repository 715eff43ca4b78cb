"""Every fenced block of README.md and docs/ is run, or listed below with the reason why not.

The Python blocks of a document run one after the other, in the environment of `PREPARED`. Blocks
that need PyTorch run in test_torch_blocks.py. Commands are parsed by their own parsers; JSON is
parsed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.docs.document_scopes import PREPARED, Prepared
from support.docs.documents import (
    Block,
    all_blocks,
    alternatives,
    blocks_of,
    check_serve,
    commands,
    compiled,
    documents,
    is_module,
    run_python,
)
from support.graphs.graphs import wait
from support.harness.every import check_every
from webpte.inspection import kernel_rates
from webpte.llm import Generator
from webpte.training import Learner, LoraTrainer
from webpte_host.base.layout import ROOT

MOST_TOKENS = 5
MOST_STEPS = 3

# (document, first line): why it is not run. Python among them is compiled.
NOT_RUN = {
    (
        "docs/use/compiled.md",
        '<script type="module">',
    ): "programs/test_compiled.py opens such folders",
    (
        "docs/use/compiled.md",
        '<script type="module" src',
    ): "programs/test_compiled_demo.py opens such a page",
    ("docs/use/compiled.md", 'import { open } from "webpte/run"'): "of npm; unit/npm/test_run.py",
    (
        "docs/start/camera_page.md",
        "<!doctype html>",
    ): "test_compiled_demo.py looks through a camera",
    (
        "docs/start/camera_page.md",
        'import { open } from "webpte/run"',
    ): "of npm; unit/npm/test_run.py",
    (
        "docs/use/tasks.md",
        'reader = await webpte.tasks.open("optical-character-recognition", "/models/ocr/")',
    ): "the model of `models add ocr`",
    ("docs/use/export.md", "out/m.pte: 0.01 MB, of which weights 0.01 MB (8w)"): "what is printed",
    ("docs/inside/extending.md", "# pysrc/webpte/"): "test_extending.py does what it says",
    ("docs/inside/extending.md", "# tests/"): "test_extending.py does what it says",
    ("docs/start/first_model.md", "Exporting my_model:make"): "what is printed",
    ("docs/start/first_model.md", "webpte: http://localhost"): "what is printed",
    ("docs/start/first_model.md", "input0: float32"): "what is printed",
    ("docs/start/first_model.md", "1 passed, 0 failed"): "what is printed",
    (
        "docs/use/library.md",
        "program = await",
    ): "a browser's files; tests/browser/storage/test_library.py",
    (
        "docs/use/library.md",
        "for file in await webpte.hub",
    ): "of the Hub; tests/unit/hub/test_repositories.py",
    (
        "docs/use/library.md",
        "download = webpte",
    ): "for a browser; test_broken_downloads.py",
    (
        "docs/use/javascript.md",
        "import { RuntimeHere }",
    ): "for a worker; support/npm/page.js has it, too",
    ("docs/use/javascript.md", "webpte.configure"): "support/npm/page.js has it, too",
    (
        "docs/use/export.md",
        'program = await webpte.load("https',
    ): "an address, for the browser only",
    (
        "docs/use/serve.md",
        "import openai",
    ): "needs a server; tests/unit/serve/api/test_api.py has one",
    (
        "docs/use/serve.md",
        "import ray",
    ): "needs Ray; tests/cluster/test_ray_data.py does the same",
    ("docs/use/serve.md", "http_options:"): "a file for Ray Serve",
    ("docs/inside/extending.md", "session = self.state.idle_session()"): "lines of a method",
    ("docs/use/python.md", "<!doctype html>"): "files; tests/browser/page/test_modes.py",
    ("docs/use/python.md", "import micropip"): "micropip is a package of Pyodide",
}
# Their JavaScript runs in tests/browser/programs, test_npm.py and test_prompt_api.py.
IN_PAGES = ("docs/use/javascript.md", "docs/use/prompt_api.md")
# Commands, and modules behind `python -m`, that are no part of this project.
OTHER_COMMANDS = {"pip", "export", "cat", "npm", "npx", "ray", "serve", ".webpte/native/bin/python"}
OTHER_MODULES = {"pytest", "build", "http.server", "twine"}


def reason(block: Block) -> str | None:
    """Return why a block is not run."""
    for (document, beginning), why in NOT_RUN.items():
        if block.document == document and block.first.startswith(beginning):
            return why
    return None


def has_python(path: Path) -> bool:
    return any(_is_run(block) for block in blocks_of(path))


def _is_run(block: Block) -> bool:
    return block.language == "python" and not block.needs_torch and reason(block) is None


@pytest.mark.parametrize(
    "path", [path for path in documents() if has_python(path)], ids=lambda path: path.stem
)
def test_python(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert name in PREPARED, f"{name} has Python: say in PREPARED what its blocks find"
    prepared = PREPARED[name]
    for target, source in prepared.files.items():
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, str):
            (tmp_path / target).write_text(source, encoding="utf-8")
        else:
            (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / target)
    monkeypatch.chdir(tmp_path)
    wait(_run_all(path, prepared, monkeypatch))
    printed = capsys.readouterr().out
    for expected in prepared.printed:
        assert expected in printed
    for made in tmp_path.glob("*.json"):
        json.loads(made.read_text(encoding="utf-8"))


async def _run_all(path: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    load_tokenizer, device = webpte.text.load_tokenizer, prepared.device()
    open_task = webpte.tasks.open

    def here(load: Any) -> Any:
        async def load_here(source: Any, **options: Any) -> Any:
            return await load(_local(source), **{**options, **prepared.options, "device": device})

        return load_here

    async def load_tokenizer_here(source: Any, **options: Any) -> Any:
        return await load_tokenizer(_local(source), **options)

    async def open_task_here(task: str, source: Any, **options: Any) -> Any:
        return await open_task(task, source, **{**options, "device": device})

    load_here = here(webpte.load)
    for package in (webpte, webpte.llm):
        monkeypatch.setattr(package, "load", here(package.load))
        monkeypatch.setattr(package, "forecast", here(package.forecast))
    monkeypatch.setattr(webpte.tasks, "open", open_task_here)
    monkeypatch.setattr(webpte.text, "load_tokenizer", load_tokenizer_here)
    _shorten(monkeypatch)

    async def opened(given: Mapping[str, Any]) -> dict[str, Any]:
        names = dict(given)
        for key, value in given.items():
            if isinstance(value, Path) and value.suffix == ".json":
                names[key] = await load_tokenizer(value)
            elif isinstance(value, Path | bytes):
                names[key] = await load_here(value)
        return names

    scope = await opened(prepared.scope)
    for block in blocks_of(path):
        for beginning, names in prepared.instead.items():
            scope |= await opened(names) if block.first.startswith(beginning) else {}
        if _is_run(block):
            await run_python(block, scope)


def _local(source: Any) -> Any:
    """Map a page's absolute address to the current folder."""
    return source.lstrip("/") if isinstance(source, str) else source


def _shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the numbers of tokens and steps, and the size of the benchmark's GEMM."""
    monkeypatch.setattr(kernel_rates, "FOR_A_GLANCE", kernel_rates.Limits(64, 8))
    generate, learn = Generator.generate, Learner.learn

    def generate_little(self: Generator, tokens: Any, max_new_tokens: int, **options: Any) -> Any:
        return generate(self, tokens, min(max_new_tokens, MOST_TOKENS), **options)

    def learn_little(self: Learner, given: Any, labels: Any, steps: int, **options: Any) -> Any:
        return learn(self, given, labels, min(steps, MOST_STEPS), **options)

    monkeypatch.setattr(Generator, "generate", generate_little)
    monkeypatch.setattr(Learner, "learn", learn_little)
    train = LoraTrainer.learn

    def train_little(self: LoraTrainer, lines: Any, steps: int, **options: Any) -> Any:
        return train(self, lines, min(steps, MOST_STEPS), **options)

    monkeypatch.setattr(LoraTrainer, "learn", train_little)


def test_each_block_is_run_or_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is checked on its own, without its environment."""
    check_every(all_blocks(), lambda block: _check_block(block, monkeypatch))


def _check_block(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    if block.language == "python":
        compiled(block)
    elif reason(block) is not None:
        return
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "js":
        assert block.document in IN_PAGES
    elif block.language == "sh":
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        for words in commands(block):
            _check_command(words, monkeypatch)
    else:
        pytest.fail(f"{block}: neither run nor in NOT_RUN ({block.language or 'no language'})")


def _check_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program, *rest = words
    if program not in ("python", "python3"):
        assert program in OTHER_COMMANDS, words
    elif rest[0] == "serve.py":
        for arguments in alternatives(rest[1:]):
            check_serve(arguments, monkeypatch)
    elif "-m" in rest:
        module = rest[rest.index("-m") + 1]
        assert is_module(module) or module in OTHER_MODULES, words
    else:
        assert (ROOT / rest[0]).is_file(), words


def test_the_table_has_nothing_that_is_gone() -> None:
    there = {path.relative_to(ROOT).as_posix() for path in documents()}
    blocks = all_blocks()
    for document, beginning in NOT_RUN:
        matching = [b for b in blocks if b.document == document and b.first.startswith(beginning)]
        assert matching or document not in there, (document, beginning)


def test_what_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of commands can fail."""
    for words in ("verify s --colour red", "models paint", "test --quickly", "sing"):
        with pytest.raises(AssertionError):
            check_serve(words.split(), monkeypatch)
    with pytest.raises(AssertionError):
        _check_command(["python", "-m", "webpte_export.samples.cook"], monkeypatch)
