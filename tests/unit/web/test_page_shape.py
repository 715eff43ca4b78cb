"""The shape of the page: shared parts, the core, sections and views, and which may import which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import page

PAGE = Path(page.__file__).parent
SECTIONS = sorted(path.name for path in (PAGE / "sections").iterdir() if path.is_dir())
COMMON = {"shared", "browser"}  # imported by all
MAY_IMPORT = {
    "browser": COMMON,
    "shared": COMMON,
    "core": COMMON | {"core"},
    "sections": COMMON | {"core", "sections"},
    "views": COMMON | {"core", "views"},
}


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the names after `page.` of all imports of the page in a module, late ones included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (tuple(one.split(".")[1:]) for one in named if one.split(".")[0] == "page")


def modules(part: str) -> list[Path]:
    folder = PAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PAGE / f"{part}.py"]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_parts_import_only_what_is_below_them(part: str) -> None:
    found = [(path, names) for path in modules(part) for names in imports_of(path)]
    assert found
    wrong = {(path.name, names[0]) for path, names in found if names[0] not in MAY_IMPORT[part]}
    assert not wrong


def test_sections_do_not_import_each_other() -> None:
    """Parts of two sections are in `core` or `shared`, calls of others in `core/interfaces.py`."""
    assert len(SECTIONS) > 10
    for section in SECTIONS:
        for path in modules(f"sections/{section}"):
            used = {names[1] for names in imports_of(path) if names[0] == "sections"}
            assert used <= {section}, path.relative_to(PAGE)


def test_every_section_has_a_controller_or_a_view() -> None:
    for section in SECTIONS:
        names = {path.name for path in (PAGE / "sections" / section).iterdir()}
        assert names & {"controller.py", "view.py"}, section


def test_only_the_application_imports_sections() -> None:
    importers = {
        path.relative_to(PAGE).as_posix()
        for path in PAGE.rglob("*.py")
        if path.parent.parent.name != "sections"
        and any(n[0] == "sections" for n in imports_of(path))
    }
    assert importers == {"app.py"}


def test_the_walk_sees_late_imports(tmp_path: Path) -> None:
    module = tmp_path / "some.py"
    module.write_text(
        "import page.a.b\ndef run():\n    from page.c import d, e\n    import numpy\n"
    )
    assert set(imports_of(module)) == {("a", "b"), ("c", "d"), ("c", "e")}
