"""Finds the fenced blocks of README.md and docs/, and runs each kind of them."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from webpte_host import cli
from webpte_host.base.layout import PYSRC, ROOT
from webpte_host.commands import test_command

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
_TORCH = ("torch", "executorch", "webpte_export")
_CHOICES = re.compile(r"\w+(\|\w+)+")


@dataclass(frozen=True)
class Block:
    """A fenced block: `document` is its path from the root, `line` the fence's, from 1 on."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first(self) -> str:
        """The first line that is not empty, which identifies a block in tables."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    @property
    def code(self) -> str:
        """The Python without the indentation of lines for the middle of a file."""
        first, _, rest = self.text.partition("\n")
        return f"\n{textwrap.dedent(rest)}" if first.startswith("#") else self.text

    @property
    def needs_torch(self) -> bool:
        if self.language != "python":
            return False
        names = {node.id for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Name)}
        words = re.findall(r"^(?:from|import) (\w+)", self.text, re.M)
        return not names.isdisjoint(_TORCH) or not set(words).isdisjoint(_TORCH)


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def prose(path: Path) -> str:
    """Return a document without its fenced blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    found = list(_FENCE.finditer(text))
    fences = len(re.findall(r"^ *```", text, re.M))
    assert fences == 2 * len(found), f"{name}: a fence without its end, or inside of another"
    return [
        Block(
            name,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            textwrap.dedent(match["text"]),
        )
        for match in found
    ]


def all_blocks() -> list[Block]:
    return [block for path in documents() for block in blocks_of(path)]


def compiled(block: Block) -> Any:
    """Compile a block; it may `await` outside of functions, as in notebooks and PyScript."""
    padding = "\n" * block.line  # so that errors name the document's lines
    return compile(padding + block.code, block.document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


async def run_python(block: Block, scope: dict[str, Any]) -> None:
    result = eval(compiled(block), scope)
    if inspect.isawaitable(result):
        await result


# Shell


class _Parsed(BaseException):
    """A signal, not an error: a command's arguments were accepted."""


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each line, without comments and variables; text for `cat` is left out."""
    text = re.sub(r"<<'(\w+)'.*?^\1$", "", block.text, flags=re.M | re.S)
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            del words[0]
        if words:
            yield words


def alternatives(words: list[str]) -> list[list[str]]:
    """Expand a synopsis, such as `[--device webgpu|numpy]`, to its commands."""
    plain = [word.strip("[]") for word in words]
    at = next((i for i, word in enumerate(plain) if _CHOICES.fullmatch(word)), None)
    if at is None:
        return [plain]
    return [[*plain[:at], choice, *plain[at + 1 :]] for choice in plain[at].split("|")]


def check_serve(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the command's own parser accepts the arguments after `serve.py`."""
    if words[:1] == ["test"]:
        options = {word for word in words[1:] if word.startswith("--")}
        assert options <= set(re.findall(r"--[\w-]+", test_command._USAGE)), words
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, arguments: Any = None) -> Any:
        raise _Parsed(parse(parser, arguments))

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
        try:
            cli.main(words)
        except _Parsed:
            return
        except SystemExit:
            pass  # argparse has printed the problem
    raise AssertionError(f"serve.py does not take {words}")


def is_module(name: str) -> bool:
    """Tell whether this is a module of the project that can run with `-m`."""
    path = name.replace(".", "/")
    return any(
        (folder / f"{path}.py").is_file() or (folder / path / "__main__.py").is_file()
        for folder in (PYSRC, ROOT / "tests")
    )
