"""The package for npm in a page: a module that a page imports, with Python in its worker.

tests/support/npm/page.js has the page's side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from support.compiling.cases import compile_program
from support.docs.documents import blocks_of
from support.harness import extent
from support.harness.task_cases import models_folder
from support.hub.hub_site import HubSite, files_of
from support.npm.host import run, scenario_page
from support.page.page_visit import wait_until
from support.page.session_code import CHAT, session_code
from webpte_host.base.layout import ROOT, WEB

ANSWER = "A cow says moo!"
DOCUMENT = ROOT / "docs/use/javascript.md"
IMPORT = 'import * as webpte from "webpte";\n\n'

# Runs an example, and returns the logged values.
LOGGED = """async () => {
    const said = [], console = { log: (...words) => said.push(...words) };
    const program = await webpte.load("samples/sigmoid.pte");
    { %s }
    await program.close();
    return said;
}"""


# Runs code, and returns the logged values.
SAID = """async () => {
    const said = [];
    const plain = (one) => (one?.data ? { data: [...one.data], shape: one.shape } : one);
    const console = { log: (...words) => said.push(...words.map(plain)) };
    %s
    { %s }
    return said;
}"""


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page that has imported the package; all tests share it, and its worker."""
    folder = tmp_path_factory.mktemp("npm")
    compile_program(WEB / "samples" / "add.pte", folder / "add")
    with scenario_page(browser, folder) as page:
        yield page


def test_two_programs_run_at_once(page: Page) -> None:
    x = np.linspace(-4, 4, 37 * 41, dtype=np.float32)
    found = run(page, "twoPrograms", x.tolist())
    assert found["stages"][0] == "python"
    assert {"fetch", "read", "compile"} <= set(found["stages"])
    assert found["shape"] == [37, 41]
    np.testing.assert_allclose(found["y"], 1 / (1 + np.exp(-x)), atol=1e-5)
    assert found["same"]
    assert found["sums"] == [3 * (1.5 - 4)]  # the sample is three times the sum
    assert found["ticks"] > 10, "the page stood still while Python started"


def test_errors_cross_with_their_class(page: Page) -> None:
    found = run(page, "errors")
    names = {key: error["name"] for key, error in found.items()}
    assert names == {
        "shape": "InputError",
        "buffer": "InputError",
        "closed": "ClosedError",
        "missing": "SourceError",
        "foreign": "OtherFileError",
        "folder": "SourceError",
    }
    assert all(error["isError"] for error in found.values())
    # What to do with a buffer is in the message.
    assert [key for key, error in found.items() if not error["advice"]] == ["buffer"]
    assert found["shape"]["code"] == "input"
    assert "[37, 41]" in found["shape"]["message"]
    assert "webpte/here" in found["buffer"]["message"]
    assert "404" in found["missing"]["message"]
    assert "404" in found["folder"]["message"]
    assert found["foreign"]["advice"] == found["foreign"]["details"]["advice"]


@pytest.mark.thorough
def test_a_tensor_stays_on_the_gpu(page: Page) -> None:
    found = run(page, "keptOnTheGpu")
    once = 1 / (1 + np.exp(-0.5))
    assert found["shape"] == [37, 41]
    np.testing.assert_allclose(found["values"], [once, 1 / (1 + np.exp(-once)), once], atol=1e-5)
    assert found["destroyed"]["name"] == found["closed"]["name"] == "ClosedError"
    assert found["destroyed"]["message"] == "this GpuTensor was destroyed"


def test_a_load_is_cancelled(page: Page) -> None:
    found = run(page, "cancelledLoads")
    assert found["before"]["name"] == "AbortError"
    assert found["during"]["message"] == "enough"
    assert found["methods"] == ["forward"]


def test_a_chat_is_answered_in_openais_objects(page: Page) -> None:
    found = run(page, "chats")
    whole, chunks = found["whole"], found["chunks"]
    assert (whole["object"], whole["model"]) == ("chat.completion", "teller")
    assert whole["choices"][0]["message"]["content"] == ANSWER
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    said = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    assert len(said) > 3
    assert "".join(said) == ANSWER
    assert found["two"] == [ANSWER, "Two plus three is five."]
    assert found["broken"] == 3
    assert found["cut"]["name"] == "AbortError"
    wrong = found["wrong"]
    assert (wrong["name"], wrong["details"]["param"]) == ("RequestError", "temperature")
    assert found["embedding"]["name"] == "RequestError"


@pytest.mark.thorough
def test_repositories_of_a_hub_by_name(page: Page) -> None:
    with HubSite() as hub:
        hub.add("someone/feelings", files_of(models_folder() / "feelings"))
        found = run(page, "repositories", hub.url)
    assert (found["chosen"]["path"], found["chosen"]["chosen"]) == ("model.pte", True)
    assert found["name"] == "text-classification"
    assert found["best"][0]["label"] == "glad"
    assert found["missing"]["name"] == "RepositoryAccessError"


@pytest.mark.thorough
def test_tasks_by_name(page: Page) -> None:
    found = run(page, "tasks")
    assert "image-classification" in found["names"]
    (best,) = found["best"]
    assert best["label"] == "glad"
    np.testing.assert_allclose(best["score"], 0.8016524, atol=1e-3)
    assert [len(rows) for rows in found["several"]] == [2, 2]
    assert len(found["shape"]) == 2
    assert found["unknown"]["name"] == "InputError"
    assert "topk" in found["unknown"]["message"]
    first, *others = found["pictures"]["scores"]
    assert len(first) > 1
    assert others == [first] * 4
    assert found["pictures"]["empty"]["name"] == "InputError"


@pytest.mark.thorough
def test_further_methods_of_tasks(page: Page) -> None:
    found = run(page, "methods")
    assert [one["name"] for one in found["added"]] == ["ok.txt", "foxes.md"]
    assert found["added"][1]["sections"][-1]["heading"] == "Foxes"
    assert found["stages"] == ["add"]
    assert sorted(one["document"] for one in found["found"]) == ["foxes.md", "ok.txt"]
    assert (found["wrong"]["name"], found["closed"]["name"]) == ("InputError", "ClosedError")
    assert found["cut"]["name"] == "AbortError"
    assert (found["head"], found["none"]) == ("MThd", "undefined")


@pytest.mark.thorough
def test_one_look_serves_several_prompts(page: Page) -> None:
    found = run(page, "looks")
    assert (found["height"], found["width"], found["shape"]) == (17, 23, [17, 23])
    assert found["asked"] == found["alone"]
    assert found["asked"][0] != found["asked"][1]
    assert found["cut"]["name"] == "AbortError"
    assert found["closed"]["name"] == found["late"]["name"] == "ClosedError"


@pytest.mark.thorough
def test_a_call_within_a_stream_is_answered(page: Page) -> None:
    found = run(page, "withinAStream")
    assert len(found["pieces"]) > 2
    assert "".join(found["pieces"]) == found["whole"]
    assert found["within"][0] == found["within"][1]


def test_the_examples_of_the_document(page: Page) -> None:
    blocks = [block for block in blocks_of(DOCUMENT) if block.language == "js"]
    texts = [block.text.removeprefix(IMPORT) for block in blocks]
    ran = [text for text in texts if not text.startswith(("import", "webpte.configure"))]
    program, chat, task, documents, masks, wrong = (page.evaluate(LOGGED % text) for text in ran)
    assert [1, 10] in program
    assert chat[0]
    assert task[0][0].keys() == {"label", "score"}
    assert "Cut them in spring." in documents[0]
    assert masks[0] == [200, 320]
    assert len(masks[1]) == len(masks[2]) > 1
    assert "[37, 41]" in wrong[0]


COMPILED = 'import { open, Tensor } from "webpte/run";'


def test_the_code_of_the_page_runs(page: Page) -> None:
    """The Python view's code in JavaScript, with the package and with a compiled folder."""
    changes = [(0, "ramp", ""), (1, "typed", "0.5")]
    for language, imported in (("javascript", IMPORT), ("compiled", COMPILED)):
        code, (first, second) = session_code("add.pte", language, *changes)
        assert imported.strip() in code
        body = code.replace(imported.strip(), "").replace('from "webpte/run"', "")
        parts = 'const { open, Tensor } = await import("./package/run/index.js");'
        (found,) = page.evaluate(SAID % (parts if language == "compiled" else "", body))
        assert found["shape"] == [37, 41]
        np.testing.assert_allclose(found["data"], 3 * (first + second).reshape(-1), rtol=1e-6)


def test_the_code_of_a_chat_runs(page: Page) -> None:
    code, _ = session_code(CHAT, "javascript")
    body = code.replace(IMPORT.strip(), "").replace("llama_tiny_q4.pte", "samples/stories.pte")
    assert "".join(page.evaluate(SAID % ("", body)))


@pytest.mark.thorough
def test_a_runtime_ends_and_another_cannot_start(page: Page) -> None:
    """The shared worker ends here: the last test that uses it."""
    found = run(page, "ends")
    assert [error["name"] for error in found["late"]] == ["ClosedError", "ClosedError"]
    assert [error["name"] for error in found["failed"]] == ["StartError"] * 3
    assert "nowhere/pyodide.mjs" in found["failed"][0]["message"]
    assert found["ended"]
    assert found["configured"]["code"] == "started"


@pytest.mark.thorough
@pytest.mark.skipif(not extent.everything(), reason="starts Python once more; runs with --all")
def test_buffers_of_the_gpu_in_a_worker_of_ones_own(page: Page) -> None:
    found = run(page, "here")
    np.testing.assert_allclose(found["value"], 1 / (1 + np.exp(-0.5)), atol=1e-5)
    assert found["isBuffer"]
    assert found["refused"]["code"] == "main_thread"


HAS_COMPILED = """async () => {
    const kept = await (await caches.open("webpte-bytecode")).keys();
    return kept.some(({ url }) => new URL(url).search.includes("pyodide"));
}"""


@pytest.mark.thorough
def test_compiled_modules_are_kept_for_the_next_visit(page: Page) -> None:
    wait_until(page, HAS_COMPILED)
