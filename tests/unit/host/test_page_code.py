"""Python that serve.py sends to a page: it imports names that exist."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

FEWEST = 3  # texts with imports: less means that they are not found


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Yield where a string of serve.py is that has imports of this project, and the string."""
    for path in sorted((root / "pysrc" / "webpte_host").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if "import webpte" in node.value or "from webpte" in node.value:
                yield f"{path.name}:{node.lineno}", node.value


def missing(text: str) -> list[str]:
    """Return the imports of this project in a text that fail; none if it is no Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in found if (node.module or "").split(".")[0].startswith("webpte")]
    return [
        f"from {node.module} import {name.name}"
        for node in ours
        for name in node.names
        if not has(node.module or "", name.name)
    ]


def has(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(find_spec(f"{module}.{name}"))
    except ModuleNotFoundError as error:
        return error.name in ("js", "pyodide")  # there are such modules in a page only


def test_imports_in_pages_exist(root: Path) -> None:
    checked = {where: missing(text) for where, text in texts(root)}
    assert len(checked) >= FEWEST
    assert not {where: names for where, names in checked.items() if names}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from webpte import bench", ["from webpte import bench"]),
        ("from webpte.llm import bench, no", ["from webpte.llm import no"]),
        ("from webpte.engine.gpu.webgpu.device import WebGPUDevice", []),
        ("import webpte, and more", []),
    ],
)
def test_what_is_found(text: str, expected: list[str]) -> None:
    assert missing(text) == expected
