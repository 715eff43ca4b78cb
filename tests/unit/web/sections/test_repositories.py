"""Repositories of the Hub in the page: by name, by address, by a link; several programs to choose
from."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from page.app import App
from page.browser import Source
from page.core.hub_models import HUB_MODELS
from page.shared.html.units import bytes_text
from support.graphs.graphs import chain
from support.harness.task_cases import models_folder
from support.hub.hub_site import repositories
from support.page.fake_page import SAMPLES, FakeBrowser, File, drive
from support.page.library_page import settle
from support.page.markup import check
from support.write.pte_writer import write_pte
from webpte.engine.files.source import FileSource
from webpte.engine.open import hub_cache
from webpte.engine.open.hub_name import HubName, parse_name
from webpte.errors import SourceError

HUB = "https://hub.test"
OFFICIAL = "executorch-community/Stories-ExecuTorch-WebGPU"
MANSION = "software-mansion/Stories-ExecuTorch"

LISTED = ("executorch-community/Qwen3-0.6B-ExecuTorch-WebGPU", "software-mansion/Qwen3-ExecuTorch")
ALONE = "someone/feelings"
CHOSEN = "1b/vulkan/stories_1b_vulkan_8da4w.pte"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
    """Put repositories on a hub of files; returns their paths by address."""
    monkeypatch.setenv("HF_ENDPOINT", HUB)
    places: dict[str, Path] = {}
    lists: dict[str, bytes] = {}
    listed = repositories(SAMPLES, models_folder())
    parts = {"encoder": write_pte(chain(2)), "decoder": write_pte(chain(3))}
    files = {f"m_{name}_vulkan_fp16.pte": data for name, data in parts.items()}
    listed[LISTED[0]] = listed[OFFICIAL]
    listed[LISTED[1]] = {
        path.replace("1b/", "1_7b/"): data for path, data in listed[MANSION].items()
    }
    listed["someone/parts"] = files
    listed["someone/choices"] = files | {"m_decoder_xnnpack_fp32.pte": parts["decoder"]}
    for name, files in listed.items():
        entries = []
        for path, data in files.items():
            place = tmp_path / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            places[f"{HUB}/{name}/resolve/main/{path}"] = place
            oid = hashlib.sha256(data).hexdigest()
            entry = {"type": "file", "path": path, "size": len(data), "oid": oid}
            entries.append(entry | {"lfs": {"oid": oid}})
        lists[f"{HUB}/api/models/{name}/tree/main?recursive=true"] = json.dumps(entries).encode()

    async def get(address: str) -> Any:
        if "down" in places:
            raise SourceError(f"{address}: no network")
        return (200, {}, lists[address]) if address in lists else (401, {}, b"")

    async def open_cached(name: HubName, path: str, file: Any, progress: Any) -> FileSource:
        return FileSource(places[unquote(name.root + path)])

    monkeypatch.setattr(hub_cache, "get", get)
    monkeypatch.setattr(hub_cache, "open_cached", open_cached)
    return places


def source_of(app: App) -> Source:
    session = app._state.session
    assert session is not None
    return session.source


async def opened(app: App, browser: FakeBrowser, hub: dict[str, Path], text: str) -> None:
    browser.elsewhere = {**hub}
    await app.receive({"act": "open-url", "fields": {"url": text}})
    await settle()


@pytest.mark.parametrize(
    "text", [f"hf:{OFFICIAL}", f" {HUB}/{OFFICIAL} ", f"{HUB}/{OFFICIAL}/tree/main"]
)
def test_a_language_model_opens_as_a_chat(hub: dict[str, Path], text: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, browser, hub, text)
        source = source_of(app)
        assert (source.name, source.task) == ("stories.pte", "text-generation")
        assert source.address == f"{HUB}/{OFFICIAL}/resolve/main/stories.pte"
        assert app._state.front == "chat"
        assert "tokenizer.json" in browser.html["view-chat"]
        assert browser.other["address"] == f"?url={source.address}&view=chat"

    drive(script)


def test_what_would_run_is_listed_to_choose_from(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.elsewhere = {**hub}
        opening = app.receive({"act": "open-url", "fields": {"url": f"hf:{MANSION}"}})
        await settle()
        asked = browser.html["arriving"]
        check(asked)
        assert f"hf:{MANSION} has 4 programs" in asked
        assert "2 more programs are for Core ML, MLX." in asked
        assert asked.index(CHOSEN) < asked.index("1b/vulkan/stories_1b_vulkan_fp32.pte")
        assert "Vulkan, 1.60 MiB" in asked
        await app.receive({"act": "open-variant", "fields": {"file": CHOSEN}})
        await opening
        await settle()
        assert source_of(app).address == f"{HUB}/{MANSION}/resolve/main/{CHOSEN}"
        assert app._state.front == "chat"
        assert "tokenizer.json" in browser.html["view-chat"]  # two folders above the program

    drive(script)


def test_the_parts_of_a_model_open_together(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, browser, hub, "hf:someone/parts")
        source, session = source_of(app), app._state.session
        assert session is not None
        assert (source.name, source.address) == ("parts", "hf:someone/parts")
        assert set(session.methods) == {"encoder", "decoder"}
        sizes = [place.stat().st_size for address, place in hub.items() if "/parts/" in address]
        assert source.size == sum(sizes)
        assert browser.other["address"].startswith("?url=hf:someone/parts")
        for method in ("encoder", "decoder"):
            await app.receive({"act": "method", "value": method})
            await app.receive({"act": "run"})
            assert session.results[method].outputs
        assert not browser.html.get("error")

    drive(script)


def test_a_part_can_be_chosen_alone(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.elsewhere = {**hub}
        for answer, methods in (
            ("", {"encoder", "decoder"}),
            ("m_decoder_xnnpack_fp32.pte", {"forward"}),
        ):
            act = {"act": "open-url", "fields": {"url": "hf:someone/choices"}}
            opening = app.receive(act)
            await settle()
            asked = browser.html["arriving"]
            check(asked)
            assert asked.index("all parts: decoder, encoder") < asked.index("m_decoder")
            await app.receive({"act": "open-variant", "fields": {"file": answer}})
            await opening
            await settle()
            session = app._state.session
            assert session is not None
            assert set(session.methods) == methods

    drive(script)


def test_the_question_ends_with_the_opening(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.elsewhere = {**hub}
        opening = app.receive({"act": "link", "url": f"hf:{MANSION}"})
        await settle()
        await app.receive({"act": "cancel-opening"})
        await opening
        assert app._state.session is None
        await app.receive({"act": "open-variant", "fields": {"file": CHOSEN}})  # too late
        assert app._state.session is None
        assert HUB in browser.unkept  # a link has named it

    drive(script)


@pytest.mark.parametrize("text", [f"hf:{MANSION}/{CHOSEN}", f"{HUB}/{MANSION}/blob/main/{CHOSEN}"])
def test_a_named_file_is_not_asked_for(hub: dict[str, Path], text: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, browser, hub, text)
        assert source_of(app).name == CHOSEN.rpartition("/")[2]
        assert app._state.front == "chat"

    drive(script)


def test_a_task_opens_its_view(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, browser, hub, f"hf:{ALONE}")
        assert source_of(app).task == "text-classification"
        assert app._state.front == "task"
        assert "cannot be used" not in browser.html["view-task"]

    drive(script)


def test_an_address_opens_without_a_list(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        hub["down"] = Path()
        await opened(app, browser, hub, f"{HUB}/{OFFICIAL}/resolve/main/stories.pte")
        assert source_of(app).name == "stories.pte"

    drive(script)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hf:nobody/nothing", "check the name"),
        ("hf:nothing", "is not a name in the Hub"),
        (f"hf:{MANSION}/4b", "has no program (.pte)"),
    ],
)
def test_errors_say_what_to_do(hub: dict[str, Path], text: str, told: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await opened(app, browser, hub, text)
        assert told in browser.html["error"]
        assert app._state.session is None

    drive(script)


@pytest.mark.parametrize(("name", "view"), [(MANSION, "chat"), (OFFICIAL, "chat"), (ALONE, "task")])
def test_a_dropped_folder_opens_as_a_repository(name: str, view: str) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        files = repositories(SAMPLES, models_folder())[name]
        await app.receive(
            {
                "act": "open-file",
                "files": [File(path.rpartition("/")[2], data) for path, data in files.items()],
                "paths": [f"copy/{path}" for path in files],
            }
        )
        await settle()
        assert "error" not in browser.html.get("error", "")
        assert app._state.front == view
        shown = browser.html[f"view-{view}"]
        assert "tokenizer.json" in shown if view == "chat" else "cannot be used" not in shown

    drive(script)


def test_a_dropped_folder_with_a_wrong_file_is_refused() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        files = repositories(SAMPLES, models_folder())[OFFICIAL]
        files["stories.pte"] = files["stories.pte"][:-1] + b"?"
        given = [File(path, data) for path, data in files.items()]
        paths = [f"copy/{path}" for path in files]
        await app.receive({"act": "open-file", "files": given, "paths": paths})
        assert "SHA-256 is" in browser.html["error"]
        assert "stories.pte" in browser.html["error"]
        assert app._state.session is None

    drive(script)


# ---- the list of models to download


def offered(html: str) -> dict[str, tuple[str, str, str]]:
    """Return the facts, the name in the Hub and the button of each listed model, by its title."""
    check(html)
    rows = re.findall(r"<li>.*?</li>", html, re.DOTALL)
    found = {}
    for row in rows:
        title = re.search(r"<a [^>]*>([^<]+)</a>", row)
        name = re.search(r'name="url" value="([^"]+)"', row)
        assert title is not None
        assert name is not None
        text = re.sub(r"<[^>]+>", "\n", row)
        found[title[1]] = (" ".join(text.split()), name[1], text.split()[-1])
    return found


def test_listed_models_have_names_and_sizes(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        listed = offered(browser.html["hub-models"])
        assert len(listed) == len(HUB_MODELS) > 4
        for model in HUB_MODELS:
            facts, name, button = listed[model.title]
            assert str(parse_name(name)) == name == model.name
            assert bytes_text(model.size) in facts
            assert button == "Download"
        assert "on the CPU" in browser.html["hub-models"]  # there is no adapter

    drive(script)


@pytest.mark.parametrize(("title", "at"), [("Qwen3 0.6B", 0), ("Qwen3 1.7B", 1)])
def test_a_listed_model_becomes_a_chat(hub: dict[str, Path], title: str, at: int) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        browser.elsewhere = {**hub}
        _, name, _ = offered(browser.html["hub-models"])[title]
        opening = asyncio.ensure_future(app.receive({"act": "open-url", "fields": {"url": name}}))
        if at == 1:  # several programs would run: the page asks
            file = CHOSEN.replace("1b/", "1_7b/", 1)
            while file not in browser.html.get("arriving", ""):
                await settle()
            await app.receive({"act": "open-variant", "fields": {"file": file}})
        await opening
        while not app._state.kept:
            await settle()
        assert source_of(app).address.startswith(f"{HUB}/{LISTED[at]}/resolve/main/")
        assert app._state.front == "chat"
        assert "tokenizer.json" in browser.html["view-chat"]
        facts, _, button = offered(browser.html["hub-models"])[title]
        assert "downloaded" in facts
        assert button == "Open"
        rest = {t: b for t, (_, _, b) in offered(browser.html["hub-models"]).items() if t != title}
        assert set(rest.values()) == {"Download"}
        assert title in offered(browser.html["view-chat"])

    drive(script)


def test_a_listed_model_that_is_gone_is_an_error(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        _, name, _ = offered(browser.html["hub-models"])["Llama 3.2 1B Instruct"]
        await opened(app, browser, hub, name)
        assert name in browser.html["error"]
        assert 'data-act="retry"' in browser.html["error"]
        assert app._state.session is None

    drive(script)


def test_models_that_do_not_fit_are_told(hub: dict[str, Path]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        app._state.narrow = True
        browser.library.quota = 500_000_000
        await app.receive({"act": "library-refresh"})
        listed = offered(browser.html["hub-models"])
        assert "too large" not in listed["Qwen3 0.6B"][0]
        assert "of storage left" not in listed["Qwen3 0.6B"][0]
        assert "477 MiB of storage left" in listed["Gemma 3 1B Instruct"][0]
        assert "too large for a phone" in listed["Qwen3 4B"][0]

    drive(script)
