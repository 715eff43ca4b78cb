"""Writes the documentation as HTML; run by `reference.py` in an environment with pdoc.

OUT/index.html          docs/README.md, and so on for every page
OUT/api/                the public modules, by pdoc, with unformatted docstrings
OUT/webpte-docs.css     for all pages but the reference, light and dark
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from webpte_host.base.layout import ROOT
from webpte_host.site.reference import MARK

DOCS = ROOT / "docs"
TEMPLATES = Path(__file__).with_name("reference_templates")
MODULES = (
    *("webpte", "webpte.errors", "webpte.vision", "webpte.report", "webpte.training"),
    *(
        "webpte.hub",
        "webpte.library",
        "webpte.llm",
        "webpte.retrieval",
        "webpte.speech",
        "webpte.tasks",
        "webpte.text",
        "webpte_export",
    ),
)
_OF_REFERENCE = "api/reference.css"
_SHEETS = (
    *("resources/bootstrap-reboot.min.css", "theme.css", "layout.css", "content.css"),
    "reference.css",
)
_LISTED = re.compile(r"^## (?P<section>.+)$|\]\((?P<page>[\w/]+\.md)|^# .*", re.M)


def main(out: Path) -> None:
    shutil.copytree(DOCS, out, ignore=shutil.ignore_patterns("*.md", ".*", "__pycache__"))
    navigation = list(sections((DOCS / "README.md").read_text(encoding="utf-8")))
    for path in sorted(DOCS.rglob("*.md")):
        target = out / address(path.relative_to(DOCS).as_posix())
        target.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(target.relative_to(out).parts) - 1)
        text = framed(path.read_text(encoding="utf-8"), navigation, up)
        target.write_text(text, encoding="utf-8")
    write_reference(out / "api")
    write_styles(out)


def address(link: str) -> str:
    """Rewrite a link to a Markdown file: `a.md#b` to `a.html#b`."""
    if "://" in link:
        return link
    name, mark, anchor = link.partition("#")
    if name.endswith(".md"):
        folder, slash, file = name.rpartition("/")
        name = f"{folder}{slash}{'index' if file == 'README.md' else file.removesuffix('.md')}.html"
    return f"{name}{mark}{anchor}"


def anchor_of(title: str) -> str:
    """Return a heading's anchor, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of the list of pages with the pages below each, in order."""
    section, pages = "", list[str]()
    for match in _LISTED.finditer(text):
        if match["section"]:
            if pages:
                yield section, pages
            section, pages = match["section"], []
        elif match["page"]:
            pages.append(match["page"])
    if pages:
        yield section, pages


def framed(text: str, navigation: list[tuple[str, list[str]]], up: str) -> str:
    """Return a complete page; `up` is the relative path to the top folder."""
    title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), "webpte")
    items = [f'<p><a href="{up}index.html">Documentation</a></p>']
    for section, pages in navigation:
        links = "".join(
            f'<li><a href="{up}{address(page)}">{Path(page).stem.replace("_", " ")}</a></li>'
            for page in pages
        )
        items.append(f"<p>{escape(section)}</p><ul>{links}</ul>")
    items.append(f'<p><a href="{up}api/webpte.html">API</a></p>')
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · webpte</title>\n"
        f'<link rel="icon" href="data:,">\n<link rel="stylesheet" href="{up}{MARK}">\n'
        f'</head>\n<body class="page">\n<nav aria-label="Pages">{"".join(items)}</nav>\n'
        f"<main>\n{rendered(text)}</main>\n</body>\n</html>\n"
    )


def rendered(text: str) -> str:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"highlight": highlighted}).enable("table")
    tokens = markdown.parse(text)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor_of(plain(tokens[at + 1])))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", address(str(child.attrGet("href"))))
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    # Wide tables scroll on their own, not with the page.
    html = html.replace("<table>", '<div class="wide" tabindex="0"><table>')
    return html.replace("</table>", "</table></div>")


def plain(token: Any) -> str:
    return "".join(child.content for child in token.children or ())


def highlighted(code: str, language: str, _attributes: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""  # markdown-it escapes it
    inside: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return f'<pre class="pdoc-code" tabindex="0"><code>{inside}</code></pre>'


def write_reference(out: Path) -> None:
    import pdoc
    from pdoc import render

    render.configure(template_directory=TEMPLATES, search=False, show_source=False)
    for name in MODULES:  # pages have the short names that users import
        import_module(name).__name__ = name
    first, *others = MODULES
    # Only the named modules of the package.
    pdoc.pdoc(first, rf"!{first}\..*", *others, output_directory=out)
    (out / "index.html").unlink(missing_ok=True)


def write_styles(out: Path) -> None:
    """Write the stylesheet of the pages, and of the reference: pdoc's, then webpte's."""
    from pdoc import render
    from pygments.formatters import HtmlFormatter

    light, dark = (
        HtmlFormatter(style=style).get_style_defs(".pdoc-code")
        for style in ("default", "github-dark")
    )
    code = f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    for target, sheets in ((out / MARK, ("docs.css",)), (out / _OF_REFERENCE, _SHEETS)):
        texts = [render.env.get_template(name).render() for name in sheets]
        target.write_text("\n".join([*texts, code]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
