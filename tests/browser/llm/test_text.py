"""Tokenizers in the page return the same tokens and texts as in CPython."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.harness.texts import FOLDER, KINDS, TEXTS
from support.page.page import python
from webpte.llm.text import Tokenizer, load_tokenizer
from webpte.llm.text.tokenizer_json import JAVASCRIPT
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site

# What is compared, in both places: tokens, texts, and pieces of text as they come.
FACTS = """
def facts(tokenizer, texts):
    found = []
    for text in texts:
        plain, whole = tokenizer.encode(text, special=False), tokenizer.encode(text)
        stream = tokenizer.stream()
        pieces = [stream.feed(token) for token in whole] + [stream.flush()]
        texts_of = [tokenizer.decode([*whole, 100_000], special) for special in (False, True)]
        found.append([plain, whole, *texts_of, pieces])
    tokens, mask = tokenizer.encode_batch(texts, 7, pad=0)
    return [found, tokens.tolist(), mask.tolist(), tokenizer.vocabulary, dict(tokenizer.special)]
"""

# Strings go as their UTF-16: half characters would not survive JSON otherwise.
IN_PAGE = (
    FACTS
    + """
texts = [bytes.fromhex(text).decode("utf-16-le", "surrogatepass") for text in texts]
tokenizer = await webpte.text.load_tokenizer(url)
import json
return json.dumps(facts(tokenizer, texts))
"""
)


def facts(tokenizer: Tokenizer) -> list[Any]:
    scope: dict[str, Any] = {}
    exec(FACTS, scope)
    found: list[Any] = json.loads(json.dumps(scope["facts"](tokenizer, TEXTS)))
    return found


def in_page(harness: Harness, url: str) -> list[Any]:
    sent = [text.encode("utf-16-le", "surrogatepass").hex() for text in TEXTS]
    found: list[Any] = json.loads(python(harness, IN_PAGE, url=url, texts=sent))
    return found


def in_cpython(name: str) -> Tokenizer:
    """Load a tokenizer in another thread: Playwright's event loop runs in the main thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(load_tokenizer(FOLDER / name))).result()


@pytest.mark.parametrize(
    "name", [f"{kind}/tokenizer.json" for kind in KINDS] + ["bytes/tokenizer.model"]
)
def test_the_same_tokens_as_in_cpython(harness: Harness, name: str) -> None:
    wanted, found = facts(in_cpython(name)), in_page(harness, f"/data/text/{name}")
    for text, row, expected in zip(TEXTS, found[0], wanted[0], strict=True):
        assert row == expected, repr(text)
    assert found[1:] == wanted[1:]


CHAT_TEMPLATE = """
tokenizer = await webpte.text.load_tokenizer("/data/text/bytes/tokenizer.json")
prompt = tokenizer.template.render([{"role": "user", "content": "Hi"}])
wrong = tokenizer.template.render
problems = [
    await raises(webpte.errors.ChatTemplateError, webpte.text.ChatTemplate.load("{% if %}")),
    await raises(webpte.errors.TextError, webpte.text.load_tokenizer({"model": {}})),
    await raises(webpte.errors.SourceError, webpte.text.load_tokenizer("/data/text/none.json")),
]
try:
    tokenizer.template.render([{"role": "nobody", "content": "Hi"}])
except webpte.errors.ChatTemplateError as error:
    problems.append(str(error))
return [prompt, tokenizer.encode(prompt, special=False), problems]
"""


def test_a_chat_template_and_what_can_be_wrong(harness: Harness) -> None:
    prompt, tokens, problems = python(harness, CHAT_TEMPLATE)
    assert prompt == "<|begin|><|user|>Hi<|end|><|assistant|>"
    assert tokens == in_cpython("bytes/tokenizer.json").encode(prompt, special=False)
    syntax, no_tokenizer, no_file, role = problems
    assert "the chat template is wrong in line 1" in syntax
    assert "@huggingface/tokenizers does not take it" in no_tokenizer
    assert "404" in no_file
    assert "no such role: nobody" in role


ELSEWHERE = """
from webpte.engine.browser.libraries import load_javascript_module
library = await load_javascript_module("../tokenizers/nothing.cjs", url, sha256)
problem = await raises(
    webpte.errors.PackageError,
    load_javascript_module("../tokenizers/nothing.cjs", url, "0" * 64),
)
return [hasattr(library, "Tokenizer"), problem]
"""


def test_a_page_of_others_takes_the_library_from_elsewhere(harness: Harness, site: Site) -> None:
    url = f"{site.url}runtime/tokenizers/tokenizers.min.cjs"
    found, problem = python(harness, ELSEWHERE, url=url, sha256=JAVASCRIPT.sha256)
    assert found
    assert "nothing.cjs: the server answered 404" in problem
    assert "tokenizers.min.cjs: not the version that webpte needs" in problem
