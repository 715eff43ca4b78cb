"""The package for npm in Firefox: one program, a chat that streams, and an error."""

from __future__ import annotations

import pytest

from support.npm.checks import PROMPT_CHECKS, check_creation
from support.npm.host import npm_host
from webpte_host.harness.firefox import FirefoxBrowser

RUN = "async () => [await scenarios.errors(), await scenarios.chats()]"


@pytest.mark.thorough  # Chromium has more of it, and test_page.py Firefox
def test_a_page_imports_it(
    firefox: FirefoxBrowser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with npm_host(tmp_path_factory.mktemp("npm")) as host:
        page = firefox.new_page()
        page.goto(host.url)
        page.wait_for("() => Boolean(globalThis.scenarios)")
        errors, chats = page.evaluate(RUN)
        page.close()
    assert errors["shape"]["name"] == "InputError"
    assert "[37, 41]" in errors["shape"]["message"]
    said = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chats["chunks"]]
    assert "".join(said) == "A cow says moo!"
    assert chats["cut"]["name"] == "AbortError"


PROMPTS = """async (names) => {
    const found = { creation: await scenarios.creation() };
    for (const name of names) found[name] = await scenarios[name]();
    return found;
}"""


@pytest.mark.thorough
def test_the_prompt_api(firefox: FirefoxBrowser, tmp_path_factory: pytest.TempPathFactory) -> None:
    with npm_host(tmp_path_factory.mktemp("npm")) as host:
        page = firefox.new_page()
        page.goto(f"{host.url}prompt.html")
        page.wait_for("() => Boolean(globalThis.scenarios)")
        found = page.evaluate(PROMPTS, list(PROMPT_CHECKS))
        page.close()
    check_creation(found.pop("creation"))
    for name, scenario in found.items():
        PROMPT_CHECKS[name](scenario)
