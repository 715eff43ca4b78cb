"""The documentation as HTML: complete, without broken links, under the page's policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from webpte_host.base.progress import Display
from webpte_host.harness.browser import open_browser
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site
from webpte_host.site.reference import write_docs
from webpte_host.site.reference_pages import DOCS, MODULES, address


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "out"
    write_docs(out, Display())
    return out


def pages(out: Path) -> Iterator[Path]:
    """Yield all pages except the examples."""
    return (path for path in out.rglob("*.html") if "examples" not in path.parts)


def test_every_page_and_module_is_there(out: Path) -> None:
    for path in DOCS.rglob("*.md"):
        assert (out / address(path.relative_to(DOCS).as_posix())).is_file(), path
    for module in MODULES:
        text = (out / "api" / f"{module.replace('.', '/')}.html").read_text(encoding="utf-8")
        assert f"<title>{module} " in text
    reference = (out / "api/webpte.html").read_text(encoding="utf-8")
    assert 'id="Program.forward"' in reference
    assert "always returns a tuple, one item per output" in reference


def test_links_lead_somewhere_and_nothing_is_inline(out: Path) -> None:
    for path in pages(out):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<style|<script| style=|=\"[^\":]*\.md[\"#]", text), path
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if "://" in link or link.startswith("data:"):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), (path, link)
            if anchor and target.suffix == ".html":
                assert f'id="{anchor}"' in target.read_text(encoding="utf-8"), (path, link)


def test_the_policy_of_the_page_lets_it_be_seen(out: Path) -> None:
    with Site(port=0, mounts=[Mount("/docs/", out)]) as site, open_browser() as browser:
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        for name in ("inside/how_it_works.html", "api/webpte.html"):
            page.goto(f"{site.url}docs/{name}")
            ground = page.evaluate("getComputedStyle(document.body).fontFamily")
            assert "sans" in ground
        page.goto(f"{site.url}docs/inside/how_it_works.html")
        drawn = page.locator("main img").evaluate_all("all => all.map(i => i.naturalWidth)")
        assert len(drawn) == 6
        assert min(drawn) > 0
        assert said == []
