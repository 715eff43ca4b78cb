"""Markdown of answers: what models write is shown, and nothing in it can change the page."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from time import thread_time

import pytest

from page.shared.html.markdown import CodeBlock, code_blocks, markdown
from page.shared.html.markup import h, render
from support.harness.every import check_every


def shown(text: str) -> str:
    return render(markdown(text))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Hello\nthere", "<p>Hello<br>there</p>"),
        ("one\n\ntwo", "<p>one</p><p>two</p>"),
        ("# Title #", "<h4>Title</h4>"),
        ("**bold** *thin* ~~gone~~", "<p><strong>bold</strong> <em>thin</em> <s>gone</s></p>"),
        ("a `x*y*z` b", "<p>a <code>x*y*z</code> b</p>"),
        ("2 * 3 * 4 and snake_case_name", "<p>2 * 3 * 4 and snake_case_name</p>"),
        ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ("- one\n- two", "<ul><li>one</li><li>two</li></ul>"),
        ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("- a\n  - b\n- c", "<ul><li><p>a</p><ul><li>b</li></ul></li><li>c</li></ul>"),
        ("> quoted\n> more", "<blockquote><p>quoted<br>more</p></blockquote>"),
        ("---", "<hr>"),
        (r"\*not\*", "<p>*not*</p>"),
    ],
)  # fmt: skip
def test_blocks_and_spans(text: str, html: str) -> None:
    assert shown(text) == html


def test_code_is_shown_as_it_is_with_a_button() -> None:
    text = "See:\n```python\nif a < b:\n    print('*')\n```\nand\n~~~\nx\n~~~\n```js\nopen"
    wanted = [CodeBlock("python", "if a < b:\n    print('*')"), CodeBlock("", "x")]
    assert code_blocks(text) == [*wanted, CodeBlock("js", "open")]
    html = render(markdown(text, lambda at: h("button", f"Copy {at}", type="button")))
    assert "if a &lt; b:\n    print(" in html
    assert re.findall(r"Copy (\d)", html) == ["0", "1", "2"]


def test_a_table() -> None:
    html = shown("| a | b |\n|---|:-:|\n| 1 | **2** |\n| 3 |")
    assert html.count("<tr>") == 3
    assert "<td><strong>2</strong></td>" in html
    assert "<td>3</td><td></td>" in html


ALLOWED = {
    *("p", "br", "h4", "h5", "h6", "strong", "em", "s", "code", "a", "ul", "ol", "li", "hr"),
    *("blockquote", "figure", "figcaption", "span", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}


class Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.depth: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        for name, value in attributes:
            assert name in ("href", "target", "rel", "class", "tabindex", "role", "aria-label",
                            "scope", "start")  # fmt: skip
            assert name != "href" or re.match(r"https?://", value or "")
        if tag not in ("br", "hr"):
            self.depth.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag


PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))",
    "[x](https://a.b/\"onclick=alert(1))", "`", "```", "**", "*", "_", "~~", "\n", "\n\n", "- ",
    "1. ", "> ", "| a | b |", "|---|---|", "# ", "    ", "&lt;", "\\", "https://a.b/c?d=e&f",
    "word", " ", "[a](https://b.c)", "]", "(", "data:text/html,x", "'", '"',
]  # fmt: skip


def test_no_text_gives_other_markup() -> None:
    def check(seed: int) -> None:
        rng = random.Random(seed)
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 120)))
        checker = Checker()
        checker.feed(shown(text))
        checker.close()
        assert checker.depth == []

    check_every(range(60), check)


LONG = ["*" * 3000, "`" * 3000, "[" * 3000, "> " * 2000, "- " * 2000, "_a" * 1500, "**a" * 1000]
LONG += ["|" * 3000 + "\n" + "|-" * 1500, "~~a *b" * 500, "a" * 10**6, "https://" * 400]


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:6])
def test_no_text_takes_long(text: str) -> None:
    began = thread_time()
    shown(text)
    assert thread_time() - began < 2
