"""`serve.py docs` without its packages, with which tests/site/test_docs.py runs it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import webpte
from webpte_host.cli import main
from webpte_host.site.reference_pages import DOCS, MODULES, address, anchor_of, sections


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("speed.md", "speed.html"),
        ("fusion.md#a-rule", "fusion.html#a-rule"),
        ("#here", "#here"),
        ("README.md", "index.html"),
        ("examples/README.md", "examples/index.html"),
        ("pictures/way.svg", "pictures/way.svg"),
        ("https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_lead_to_html(link: str, target: str) -> None:
    assert address(link) == target


def test_anchors_are_those_of_github() -> None:
    title = "What stays on the host, and how to see it"
    assert anchor_of(title) == "what-stays-on-the-host-and-how-to-see-it"


def test_the_navigation_is_the_list_of_pages() -> None:
    one, two = "## One\n\n[a](x/a.md), [b](b.md)\n", "## Two\n\n- [c.md](c.md#d)\n"
    text = f"# A\n\n{one}\n## Empty\n\n{two}"
    assert list(sections(text)) == [("One", ["x/a.md", "b.md"]), ("Two", ["c.md"])]
    listed = [page for _, pages in sections((DOCS / "README.md").read_text()) for page in pages]
    assert "start/first_model.md" in listed


def test_every_public_module_is_in_the_reference() -> None:
    modules = {
        f"webpte.{name}" for name in webpte.__all__ if isinstance(getattr(webpte, name), ModuleType)
    }
    assert modules | {"webpte", "webpte_export"} == set(MODULES)


def test_other_files_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    assert main(["docs", str(tmp_path)]) == 1
    assert "has other files in it" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "kept"
