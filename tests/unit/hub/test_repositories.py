"""Repositories by name: lists, choices, files on disk, tokens, errors."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import webpte
from support.graphs.graphs import chain
from support.harness.task_cases import models_folder
from support.hub.hub_site import TOKEN, HubSite, files_of, repositories
from support.npm.caller import Caller
from support.write.pte_writer import write_pte
from webpte.engine.open import hub_cache
from webpte.engine.open.hub_name import HubName, name_of_address, parse_name
from webpte.errors import (
    DigestError,
    InputError,
    RepositoryAccessError,
    RepositoryError,
    RepositoryNameError,
    SourceError,
    UnsupportedError,
)
from webpte.hub import layouts
from webpte.llm import Chat
from webpte_host.base.layout import ROOT
from webpte_host.commands.bench import main as bench
from webpte_serve.api.load_models import open_model as open_of_text
from webpte_serve.openai import open_model

SAMPLES = ROOT / "web" / "samples"
OFFICIAL = "hf:executorch-community/Stories-ExecuTorch-WebGPU"
MANSION = "hf:software-mansion/Stories-ExecuTorch"
ALONE = "hf:someone/feelings"
_KOKORO = ("duration_predictor", "synthesizer")


@pytest.fixture(scope="module")
def running() -> Iterator[HubSite]:
    with HubSite() as site:
        yield site


@pytest.fixture
def site(running: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubSite:
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    monkeypatch.setenv("WEBPTE_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    running.repositories.clear()
    for name, files in repositories(SAMPLES, models_folder()).items():
        running.add(name, files)
    running.gated, running.closed, running.page, running.cut = set(), set(), 1000, 0
    running.paths()
    return running


def run(work: Any) -> Any:
    return asyncio.run(work)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hf:a/b", HubName("a", "b")),
        ("hf:a/b@v1.0", HubName("a", "b", "", "v1.0")),
        ("hf:a/b/c d/e.pte", HubName("a", "b", "c d/e.pte")),
        ("hf:a/b/c/@refs/pr/1", HubName("a", "b", "c", "refs/pr/1")),
    ],
)
def test_names_are_parsed(text: str, name: HubName) -> None:
    assert parse_name(text) == name
    assert parse_name(str(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:a",
        "hf:a/",
        "hf:a//b",
        "hf:/a/b",
        "hf:a/b/../c",
        "hf:a/b@",
        "hf:a/b@../x",
        "hf:a/b/c\\d",
        "hf:a/b/c\nd",
        "hf:a b/c",
        "hf:../b",
        "hf:a/b@x@y",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(RepositoryNameError, match="write hf:OWNER/NAME"):
        run(webpte.hub.files(text))


def test_addresses_of_the_hub_are_names(site: HubSite) -> None:
    url = site.url
    assert name_of_address(f"{url}/a/b") == HubName("a", "b")
    assert name_of_address(f"{url}/a/b/tree/v1/x") == HubName("a", "b", "x", "v1")
    found = name_of_address(f"{url}/a/b/resolve/refs%2Fpr%2F1/x%20y.pte?download=true")
    assert found == HubName("a", "b", "x y.pte", "refs/pr/1")
    others = ("/datasets/b", "/a", "/api/models", "/a/b/discussions", "/a/b/resolve/main/..%2Fc")
    for place in others:
        assert name_of_address(url + place) is None, place
    assert name_of_address("https://example.org/a/b") is None


def test_files_are_listed_by_page_with_what_runs(site: HubSite) -> None:
    site.page = 3
    found = run(webpte.hub.files(MANSION))
    assert sum(path.startswith("/api/") for path in site.paths()) == 5
    assert {one.path for one in found} == set(site.repositories[MANSION[3:]])
    programs = {one.path: one for one in found if one.backend}
    told = {path: (one.backend, one.precision, one.runs) for path, one in programs.items()}
    assert told["1b/coreml/stories_1b_coreml_fp16.pte"] == ("Core ML", "fp16", False)
    assert told["3b/mlx/stories_3b_mlx_int4.pte"] == ("MLX", "int4", False)
    assert told["1b/vulkan/stories_1b_vulkan_fp32.pte"] == ("Vulkan", "fp32", True)
    (chosen,) = [one.path for one in found if one.chosen]
    assert chosen == found[0].path == "1b/vulkan/stories_1b_vulkan_8da4w.pte"
    data = site.repositories[MANSION[3:]][chosen]
    assert (found[0].size, found[0].sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("paths", "half", "best"),
    [
        (["m_xnnpack_fp32.pte", "m_vulkan_fp16.pte"], True, "m_vulkan_fp16.pte"),
        (["m_vulkan_fp32.pte", "m_vulkan_fp16.pte"], True, "m_vulkan_fp16.pte"),
        (["m_vulkan_fp32.pte", "m_vulkan_fp16.pte"], False, "m_vulkan_fp32.pte"),
        (["l/vulkan/m_l.pte", "s/vulkan/m_s.pte"], True, "s/vulkan/m_s.pte"),
        (["m_xnnpack_fp32.pte", "m_xnnpack_8da4w.pte"], True, "m_xnnpack_8da4w.pte"),
        (["m_coreml_fp16.pte", "model.pte"], True, "model.pte"),
    ],
)
def test_the_file_that_suits_is_chosen(
    paths: list[str], half: bool, best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [replace(one, runs=one.runs or one.title == "XNNPACK") for one in layouts.BACKENDS]
    monkeypatch.setattr(layouts, "BACKENDS", tuple(runs))
    for path in paths:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes(9 if "fp16" in path or "l/" in path else 5))
    found = run(webpte.hub.files(tmp_path, half=half))
    assert [one.path for one in found if one.chosen] == [best]


def test_programs_of_other_backends_are_named(site: HubSite) -> None:
    site.add("a/b", {"m_coreml_fp16.pte": b"c", "qnn/m_qnn_int8.pte": b"q"})
    with pytest.raises(RepositoryError, match="Core ML, QNN, and none for Vulkan"):
        run(webpte.load("hf:a/b", device="numpy"))
    with pytest.raises(webpte.errors.FormatError):  # named, it is opened
        run(webpte.load("hf:a/b/m_coreml_fp16.pte", device="numpy"))


def test_parts_of_a_model_are_one_program(site: HubSite) -> None:
    parts = {"encoder": write_pte(chain(2)), "decoder": write_pte(chain(3))}
    files = {f"xnnpack/m_{name}_xnnpack_fp16.pte": data for name, data in parts.items()}
    slower = {"xnnpack/m_decoder_xnnpack_fp32.pte": b"x" * 99}
    site.add("a/b", {"m_coreml.pte": b"c", **slower, **files})

    async def work(name: str) -> Any:
        async with await webpte.load(name, device="numpy") as program:
            return program.name, set(program.methods)

    assert run(work("hf:a/b")) == ("b", {"encoder", "decoder"})
    one, (method,) = run(work("hf:a/b/xnnpack/m_encoder_xnnpack_fp16.pte"))
    assert (one, method) == ("m_encoder_xnnpack_fp16.pte", "forward")
    found = run(webpte.hub.files("hf:a/b"))
    assert {one.path for one in found if one.chosen} == set(files)
    forecast = run(webpte.forecast("hf:a/b", device="numpy"))
    assert forecast.program == "b"


def test_programs_that_may_not_belong_together_are_not_joined(site: HubSite) -> None:
    site.add("a/b", {"candy_vulkan_fp16.pte": b"e", "mosaic_vulkan_fp16.pte": b"de"})
    with pytest.raises(RepositoryError, match="several programs: name one of them, candy"):
        run(webpte.load("hf:a/b", device="numpy"))


def test_repositories_without_programs_are_told(site: HubSite) -> None:
    site.add("a/b", {"config.json": b"{}"})
    with pytest.raises(RepositoryError, match=r"hf:a/b has no program \(\.pte\)"):
        run(webpte.load("hf:a/b", device="numpy"))
    with pytest.raises(RepositoryError, match="hf:a/b/sub has no program"):
        run(webpte.load("hf:a/b/sub", device="numpy"))


# ---- opening


@pytest.mark.parametrize("name", [OFFICIAL, MANSION, f"{MANSION}/1b@v1"])
def test_a_language_model_answers(site: HubSite, name: str) -> None:
    async def work() -> str:
        async with await webpte.llm.load(name, device="numpy") as program:
            tokenizer = await webpte.text.load_tokenizer(name)
            chat = Chat(program, tokenizer)
            return "".join([piece async for piece in chat.send("What does a cow say?")])

    assert "moo" in run(work()).lower()


@pytest.mark.parametrize("name", [OFFICIAL, MANSION])
def test_a_task_is_found_in_the_files(site: HubSite, name: str) -> None:
    async def work() -> Any:
        async with await webpte.tasks.open(name, device="numpy") as task:
            return task.name, await task("A cat", max_new_tokens=3)

    task, answer = run(work())
    assert task == "text-generation"
    assert answer[0]["generated_text"].startswith("A cat")


def test_a_lone_program_opens_its_task(site: HubSite) -> None:
    async def work() -> Any:
        async with await webpte.tasks.open(ALONE, device="numpy") as task:
            found = task.name, await task("What a day!")
        folder = models_folder() / "feelings"
        async with await webpte.tasks.open("text-classification", folder, device="numpy") as task:
            return found, await task("What a day!")

    (name, answer), expected = run(work())
    assert (name, answer) == ("text-classification", expected)


def test_programs_are_described_and_served(site: HubSite) -> None:
    async def work() -> None:
        assert "forward" in await webpte.inspect(OFFICIAL)
        forecast = await webpte.forecast(f"{MANSION}/1b", device="numpy")
        assert forecast.program == "stories_1b_vulkan_8da4w.pte"
        model = await open_model(OFFICIAL, device="numpy")
        assert model.name == "Stories-ExecuTorch-WebGPU"
        model.program.close()

    run(work())


def test_models_of_no_known_task_are_told(site: HubSite) -> None:
    site.add("a/b", {"model.pte": (SAMPLES / "add.pte").read_bytes()})
    with pytest.raises(InputError, match="name the task"):
        run(webpte.tasks.open("hf:a/b", device="numpy"))

    async def work() -> None:
        async with await webpte.load("hf:a/b", device="numpy") as program:
            assert program.name == "model.pte"

    run(work())


@pytest.mark.parametrize("name", [OFFICIAL, MANSION, ALONE])
def test_folders_are_opened_as_repositories(site: HubSite, name: str, tmp_path: Path) -> None:
    for path, data in site.repositories[name[3:]].items():
        place = tmp_path / "copy" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    async def work() -> str:
        async with await webpte.tasks.open(tmp_path / "copy", device="numpy") as task:
            return task.name

    assert run(work()) == ("text-classification" if name == ALONE else "text-generation")
    assert site.paths() == []


def test_voices_of_other_kinds_are_refused_with_a_way_out(site: HubSite) -> None:
    parts = {f"xnnpack/{name}_std_xnnpack_fp32.pte": write_pte(chain(2)) for name in _KOKORO}
    card = b"---\npipeline_tag: text-to-speech\n---\n"
    site.add("a/kokoro", {"README.md": card, "voices/heart.bin": bytes(8), **parts})
    for given in (["hf:a/kokoro"], ["text-to-speech", "hf:a/kokoro"]):
        with pytest.raises(UnsupportedError, match=r"phonemes .* load it by webpte\.load"):
            run(webpte.tasks.open(*given, device="numpy"))

    async def work() -> None:
        async with await webpte.load("hf:a/kokoro", device="numpy") as program:
            assert set(program.methods) == set(_KOKORO)

    run(work())


# ---- the network


def test_files_are_fetched_once_and_kept(site: HubSite, tmp_path: Path) -> None:
    async def work() -> None:
        (await webpte.load(OFFICIAL, device="numpy")).close()

    run(work())
    assert (
        site.paths().count(
            "/executorch-community/Stories-ExecuTorch-WebGPU/resolve/main/stories.pte"
        )
        == 1
    )
    run(work())
    assert not any(path.endswith(".pte") for path in site.paths())
    assert not list(tmp_path.rglob("*.part"))


def test_without_a_network_what_was_kept_is_opened(
    site: HubSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        (await webpte.load(OFFICIAL, device="numpy")).close()

    run(work())
    with HubSite() as gone:
        pass
    for name in ("HF_ENDPOINT", "http_proxy"):
        monkeypatch.setenv(name, gone.url)
    run(work())
    with pytest.raises(RepositoryError, match="cannot be listed"):
        run(webpte.load(ALONE, device="numpy"))


def test_a_fetch_goes_on_where_it_stopped(site: HubSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_cache, "PAUSE", 0.001)
    site.cut = 3

    async def work() -> None:
        (await webpte.load(OFFICIAL, device="numpy")).close()

    run(work())
    ranges = [ranged for stored, path, ranged, _ in site.asked if stored]
    starts = [int(one.removeprefix("bytes=").rstrip("-") or 0) for one in ranges]
    assert len(starts) >= 4
    assert starts[0] == 0
    assert starts[1:4] == sorted(set(starts[1:4]))
    assert starts[1] > 0


def test_a_wrong_file_is_named_and_not_kept(site: HubSite, tmp_path: Path) -> None:
    files = site.repositories[OFFICIAL[3:]]
    files["stories.pte"] = files["stories.pte"][:-1] + b"?"  # the manifest has another hash
    with pytest.raises(DigestError, match=r"^stories\.pte: its SHA-256 is"):
        run(webpte.load(OFFICIAL, device="numpy"))
    assert not list(tmp_path.rglob("*.pte*"))


def test_a_damaged_file_is_not_kept(site: HubSite, tmp_path: Path) -> None:
    for digest, data in list(site.contents.items()):
        site.contents[digest] = bytes(len(data))  # other bytes than the list names
    with pytest.raises(DigestError, match=r"stories_1b_vulkan_8da4w\.pte"):
        run(webpte.load(MANSION, device="numpy"))
    assert not list(tmp_path.rglob("*.pte*"))


def test_a_small_file_is_checked_by_the_manifest(site: HubSite, tmp_path: Path) -> None:
    data = (SAMPLES / "add.pte").read_bytes()
    digest = hashlib.sha256(b"other").hexdigest()
    content = {"programs": {"main": {"add.pte": digest}}}
    site.add("a/b", {"add.pte": data, "manifest.json": json.dumps(content).encode()})
    with pytest.raises(DigestError, match=r"add\.pte"):
        run(webpte.load("hf:a/b", device="numpy"))


@pytest.mark.parametrize(
    "content",
    [
        lambda path, digest: {"files": [{"name": path, "sha256": digest}]},
        lambda path, digest: {"a": {"b": [{"file": path, "hash": f"sha256:{digest}"}]}},
        lambda path, digest: {path: digest},
        lambda path, digest: {"files": {path: {"bytes": 3, "sha256": digest.upper()}}},
        lambda path, digest: [{"path": path, "sha256": digest, "role": "model"}],
    ],
)
def test_hashes_are_found_in_any_manifest(content: Any, site: HubSite) -> None:
    data = (SAMPLES / "add.pte").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    listed = json.dumps(content("add.pte", digest)).encode()
    site.add("a/b", {"add.pte": data, "manifest.json": listed})
    (file,) = [one for one in run(webpte.hub.files("hf:a/b")) if one.chosen]
    assert (file.sha256, file.backend) == (digest, "WebGPU")


@pytest.mark.parametrize(
    "content", [{"name": "app"}, {"path": "path", "sha256": {"path": {}}}, {"path": "a" * 64}, []]
)
def test_other_lists_say_nothing_of_programs(content: Any, site: HubSite) -> None:
    listed = json.dumps(content).encode()
    site.add("a/b", {"m_xnnpack.pte": b"x", "path": b"p", "sha256": b"s", "manifest.json": listed})
    (program, *_) = run(webpte.hub.files("hf:a/b"))
    assert (program.path, program.backend, program.sha256) == ("m_xnnpack.pte", "XNNPACK", "")


def test_a_token_goes_to_the_hub_alone(site: HubSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.closed.add(MANSION[3:])
    with pytest.raises(RepositoryAccessError, match="HF_TOKEN"):
        run(webpte.load(MANSION, device="numpy"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    site.asked.clear()

    async def work() -> None:
        (await webpte.load(MANSION, device="numpy")).close()

    run(work())
    stored = [token for stores, _, _, token in site.asked if stores]
    assert stored
    assert not any(stored)
    assert all(token == f"Bearer {TOKEN}" for stores, _, _, token in site.asked if not stores)
    kept = b"".join(
        path.read_bytes() for path in hub_cache.cache_folder().rglob("*") if path.is_file()
    )
    assert TOKEN.encode() not in kept


def test_errors_say_what_to_do(site: HubSite) -> None:
    site.gated.add(ALONE[3:])
    with pytest.raises(RepositoryAccessError, match=r"gated: accept its terms at http.*/someone/"):
        run(webpte.load(ALONE, device="numpy"))
    with pytest.raises(RepositoryAccessError, match="check the name"):
        run(webpte.load("hf:no/such", device="numpy"))
    with pytest.raises(RepositoryError, match="no revision 'v9'"):
        run(webpte.load(f"{OFFICIAL}@v9", device="numpy"))
    with pytest.raises(RepositoryError, match="no such folder"):
        run(webpte.hub.files("no/such/folder"))
    site.repositories[ALONE[3:]] = {}


@pytest.mark.parametrize("body", [b"", b"{}", b"[1, null]", b'[{"type": "file"}]', b"[" * 5000])
def test_broken_lists_are_errors(
    site: HubSite, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(address: str) -> Any:
        return 200, {}, body

    monkeypatch.setattr(hub_cache, "get", get)
    with pytest.raises(SourceError):
        run(webpte.load(OFFICIAL, device="numpy"))


def test_a_list_does_not_go_on_elsewhere(site: HubSite, monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(address: str) -> Any:
        return 200, {"link": '<https://example.org/x>; rel="next"'}, b"[]"

    monkeypatch.setattr(hub_cache, "get", get)
    with pytest.raises(RepositoryError, match="at another address"):
        run(webpte.hub.files(OFFICIAL))


def test_paths_outside_of_a_repository_are_left_out(
    site: HubSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["../a.pte", "/a.pte", "a//b.pte", "a\\b.pte", "b.pte"]
    listed = [{"type": "file", "path": path, "size": 1, "oid": "ab"} for path in paths]

    async def get(address: str) -> Any:
        return 200, {}, json.dumps(listed).encode()

    monkeypatch.setattr(hub_cache, "get", get)
    assert [one.path for one in run(webpte.hub.files(OFFICIAL))] == ["b.pte"]


def test_folders_are_read_as_bytes() -> None:
    """The imitation serves files without changes."""
    assert files_of(models_folder() / "music").keys() == {"model.pte"}


def test_the_api_serves_a_name(site: HubSite) -> None:
    async def work() -> None:
        for text, name in ((OFFICIAL, "Stories-ExecuTorch-WebGPU"), (f"mine={MANSION}", "mine")):
            model = await open_of_text(text, "numpy", 4, 1)
            assert model.name == name
            model.program.close()

    run(work())


def test_javascript_takes_a_name(site: HubSite) -> None:
    async def work() -> None:
        caller = Caller()
        first, *_ = await caller.call("hub_files", MANSION)
        assert (first["backend"], first["chosen"]) == ("Vulkan", True)
        program = await caller.call("load", f"{MANSION}/1b", {"device": "numpy"})
        assert program["name"] == "stories_1b_vulkan_8da4w.pte"
        task = await caller.call("task", None, ALONE, {"device": "numpy"})
        assert task["name"] == "text-classification"
        client = await caller.call("openai", {"": OFFICIAL}, {"device": "numpy"})
        assert [one["id"] for one in client["models"]] == ["Stories-ExecuTorch-WebGPU"]
        for made in (program, task, client):
            await caller.call("close", made["handle"])

    run(work())


def test_the_bench_takes_a_name(site: HubSite, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench(["hf:a/b", "--prefill", "8", "--draft", "c.pte"])
    assert "take a file" in capsys.readouterr().err
