"""Compiled language models: their plans, and how `generate` calls them, in Node."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.draft_pairs import Shape, decoder_model
from webpte.compiling import runtime_files
from webpte.compiling.device_classes import LEAST, MOST, DeviceClass
from webpte.compiling.language import language_tables
from webpte.compiling.plans import plan_table, whole_delegate
from webpte.engine.gpu.recording.device import RecordingDevice
from webpte.engine.run.request import RunRequest
from webpte.program import build_of
from webpte_host.base.layout import ROOT

LLAMA = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
MODULES = Path(runtime_files.__file__).parent / "runtime"
CHUNKS = [1, 2, 4, 8, 16, 32, 63]
Table = dict[str, Any]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compiled") / "out"
    asyncio.run(webpte.compile(LLAMA, out))
    return out


def test_methods_that_sample(llama: Path) -> None:
    table: Table = json.loads((llama / "program.json").read_text("utf-8"))
    names = {"method": "forward", "greedy": "forward.greedy", "sampled": "forward.sampled"}
    sizes = {"chunks": CHUNKS, "context": 128, "vocabulary": 512, "stop": []}
    assert table["language"] == names | sizes | {"rewinds": True, "ahead": True}
    assert "forward" not in table["methods"]
    assert table["methods"]["get_max_seq_len"]["values"] == [64]
    for name, inputs in (("forward.greedy", 2), ("forward.sampled", 5)):
        method = table["methods"][name]
        assert len(method["inputs"]) == inputs
        plans = method["plans"]
        assert [plan["shapes"][0] for plan in plans] == [[1, count] for count in CHUNKS]
        for plan in plans:
            assert [one for one, *_ in plan["when"]] == [["element", 1, 0]]
            assert plan["results"][0]["shape"] in ([1], [1, 1])
            last = 128 - plan["shapes"][0][1]
            assert plan["bounds"][0][1:3] == [0, last]


def test_a_step_on_a_computers_gpu_has_fewer_dispatches(llama: Path) -> None:
    names = "desktop.json", "program.json"
    desktop, every = (json.loads((llama / name).read_text("utf-8")) for name in names)
    assert dispatches_of_a_step(desktop) < dispatches_of_a_step(every)
    rows = {row["file"]: row for row in json.loads((llama / "devices.json").read_text("utf-8"))}
    assert next(iter(rows)) == "software.json"
    assert list(rows)[-2:] == list(names)
    assert [rows[name]["limits"] for name in names] == [desktop["device"]["limits"], {}]
    assert rows["desktop.json"]["limits"]["maxStorageBuffersPerShaderStage"] == 10


def dispatches_of_a_step(table: Table) -> int:
    return len(table["methods"]["forward.greedy"]["plans"][0]["dispatches"])


def test_a_call_has_as_many_dispatches_as_through_python() -> None:
    """Beside the argmax, for one token and for the longest prompt of a call, in one call."""
    program = decoder_model(Shape(1, 64, 128, 4, 2, 64, context=2304, chunk=2047, rotary=True))

    async def counts(kind: DeviceClass) -> tuple[list[int], list[int], list[int]]:
        device = RecordingDevice(kind.info)
        options = webpte.Options(tuned=False)
        async with await webpte.load(program, device=device, options=options) as loaded:
            body = whole_delegate(build_of(loaded).methods["forward"])
            own = []
            for count in (1, 2047):
                given = [np.zeros((1, count), np.int64), np.zeros(1, np.int64)]
                own.append(
                    len((await plan_table(body, device, RunRequest(given)))[1]["dispatches"])
                )
            tables = await language_tables(loaded, device)
            assert tables is not None
            plans = tables[0]["forward.greedy"]["plans"]
            found = {p["shapes"][0][1]: p for p in plans}
            labels = [found[count]["labels"] for count in (1, max(found))]
        assert all(each[-1] == "aten.argmax.default" for each in labels)
        rest = [sum(label != "aten.argmax.default" for label in each) for each in labels]
        return tables[1]["chunks"], own, rest

    chunks, own, compiled = asyncio.run(counts(MOST))
    assert chunks == [*(1 << power for power in range(11)), 2047]
    assert compiled == own
    chunks, own, compiled = asyncio.run(counts(LEAST))
    assert chunks == [1 << power for power in range(10)]  # less memory
    assert compiled[0] == own[0]


def test_caches_and_weights_are_shared(llama: Path) -> None:
    async def transfers() -> int:
        device = RecordingDevice()
        async with await webpte.load(LLAMA, device=device, options=webpte.Options(tuned=False)):
            return len(device.transfers)

    table: Table = json.loads((llama / "program.json").read_text("utf-8"))
    assert len(table["constants"]) == asyncio.run(transfers())
    written = {row[0] for row in table["constants"]}
    assert written <= bound(table, "forward.greedy") & bound(table, "forward.sampled")


def bound(table: Table, method: str) -> set[int]:
    """Return the buffers that the plans of a method bind."""
    dispatches = [d for plan in table["methods"][method]["plans"] for d in plan["dispatches"]]
    return {buffer for _, resources, _ in dispatches for buffer, *_ in resources}


def test_the_module_is_there_for_language_models_alone(llama: Path, tmp_path: Path) -> None:
    asyncio.run(webpte.compile(ROOT / "web" / "samples" / "add.pte", tmp_path / "add"))
    assert (llama / runtime_files.LANGUAGE).is_file()
    assert not (tmp_path / "add" / runtime_files.LANGUAGE).exists()


MODEL = Path(__file__).with_name("summing_model.js").read_text("utf-8")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("node") is None:
        pytest.skip("there is no Node")
    folder = tmp_path_factory.mktemp("modules")
    text = runtime_files.bundled(MODULES / "language.js")
    (folder / "language.mjs").write_text(text, "utf-8")
    return folder


def run(modules: Path, code: str, **given: Any) -> Any:
    text = f"const given = {json.dumps(given)};\n{MODEL}\n"
    (modules / "run.mjs").write_text(
        f"{text}const done = await (async () => {{ {code} }})();\n"
        "console.log(JSON.stringify(done));\n",
        "utf-8",
    )
    command = ["node", "run.mjs"]
    done = subprocess.run(command, cwd=modules, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sums(prompt: list[int], count: int) -> list[int]:
    """Return the tokens that follow a prompt."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sum(tokens) % 50)
    return tokens[len(prompt) :]


PROMPT = [3, 1, 4, 1, 5, 9, 2]


def test_prompts_go_in_chunks_and_steps_in_batches(modules: Path) -> None:
    code = f"return [await answer({PROMPT}, {{ maxNewTokens: 12 }}), log];"
    found, log = run(modules, code)
    assert found == sums(PROMPT, 12)
    assert log[:2] == [["f.greedy", [3, 1, 4, 1], 0], ["f.greedy", [1, 5, 9, 2], 3]]
    assert log[2:] == [[1, 7, False], [2, 8, True], [4, 10, True], [4, 14, True]]
    found, log = run(modules, code, facts={"rewinds": False})
    assert found == sums(PROMPT, 12)
    assert log[:3] == [
        ["f.greedy", [3, 1, 4, 1], 0],
        ["f.greedy", [5, 9], 4],
        ["f.greedy", [2], 6],
    ]


def test_the_sizes_of_a_prompts_calls(modules: Path) -> None:
    code = f"""
    const {{ chunksOf }} = await import("./language.mjs");
    const asked = [[2047, 2047], [512, 512], [65, 65], [65, 200], [100, 100], [1, 900], [0, 9]];
    const chunks = {[2**power for power in range(10)]};
    const sizes = (rewinds) => asked.map((one) => chunksOf(...one, chunks, rewinds));
    return [sizes(true), sizes(false)];
    """
    found, plain = run(modules, code)
    assert found == [[512] * 4, [512], [64, 1], [64, 1], [64, 64], [1], []]
    assert plain[0] == [512] * 3 + [256, 128, 64, 32, 16, 8, 4, 2, 1]
    assert plain[4] == [64, 32, 4]


def test_an_answer_ends_where_the_context_is_full(modules: Path) -> None:
    (found,) = run(modules, f"return [await answer({PROMPT})];")
    assert found == sums(PROMPT, 40 - len(PROMPT) + 1)


def test_stop_tokens_are_not_yielded(modules: Path) -> None:
    tokens = sums(PROMPT, 9)
    stop = tokens[6]
    expected = tokens[: tokens.index(stop)]
    code = f"""
    const own = await answer({PROMPT});
    return [own, await answer({PROMPT}, {{ stop: [{stop}] }})];
    """
    own, given = run(modules, code, facts={"stop": [stop]})
    assert own == given == expected


def test_what_is_in_the_caches_is_not_computed_again(modules: Path) -> None:
    tokens = sums(PROMPT, 5)
    longer = [*PROMPT, *tokens[:4], 7, 8]
    code = f"""
    await answer({PROMPT}, {{ maxNewTokens: 5 }});
    log.length = 0;
    return [await answer({longer}, {{ maxNewTokens: 2 }}), log[0], log[1]];
    """
    found, *calls = run(modules, code)
    assert found == sums(longer, 2)
    assert calls[0] == ["f.greedy", [7, 8], len(longer) - 2]
    found, *calls = run(modules, code, facts={"rewinds": False, "ahead": False})
    assert found == sums(longer, 2)
    assert calls[0][2] in (0, len(longer) - 2)


def test_other_calls_make_the_caches_unknown(modules: Path) -> None:
    code = f"""
    await answer({PROMPT}, {{ maxNewTokens: 2 }});
    language.disturb();
    log.length = 0;
    await answer({PROMPT}, {{ maxNewTokens: 1 }});
    return log[0];
    """
    assert run(modules, code) == ["f.greedy", [3, 1, 4, 1], 0]


def test_steps_end_where_a_plan_ends(modules: Path) -> None:
    found, log = run(
        modules, f"return [await answer({PROMPT}, {{ maxNewTokens: 12 }}), log];", until=11
    )
    assert found == sums(PROMPT, 12)
    steps = [row for row in log if isinstance(row[0], int)]
    assert sum(count for count, *_ in steps) == 11
    assert any(at + count == 12 for count, at, _ in steps)


def test_step_by_step_where_tokens_cannot_stay_on_the_gpu(modules: Path) -> None:
    code = f"return [await answer({PROMPT}, {{ maxNewTokens: 4 }}), log.slice(2)];"
    found, steps = run(modules, code, facts={"ahead": False})
    assert found == sums(PROMPT, 4)
    assert steps == [[1, 7, False], [1, 8, False], [1, 9, False]]


def test_a_sampler_gets_its_settings(modules: Path) -> None:
    code = f"""
    const seen = [];
    const before = inner.run;
    inner.run = async (name, values) => {{
        seen.push([name, values.slice(2).map((one) => (one.length ? [...one] : one))]);
        return before(name, values);
    }};
    const drawn = {{ temperature: 0.5, topK: 7, topP: 0.25, seed: 2n ** 40n + 3n }};
    await answer({PROMPT}, {{ maxNewTokens: 1, ...drawn }});
    return seen;
    """
    seen = run(modules, code)
    assert [name for name, _ in seen] == ["f.greedy", "f.sampled"]
    assert seen[-1][1] == [7, [0.5, 7, 0.25, 0, 1, 0, 0, 0], [3, 256]]


WRONG = {
    "[]": "InputError: a prompt has tokens from 0 to 49",
    "[50]": "InputError: a prompt has tokens from 0 to 49",
    "[1.5]": "InputError: a prompt has tokens from 0 to 49",
    "Array(41).fill(1)": "InputError: a prompt of 41 tokens is over the 40 of the context",
    "[1], { temperature: -1 }": "InputError: temperature must be 0 or more, not -1",
    "[1], { topP: 0 }": "InputError: topP must be above 0 and at most 1, not 0",
    "[1], { temperature: 1, seed: -3 }": (
        "InputError: a seed must be an integer from 0 to 2^64 - 1, not -3"
    ),
}


def test_wrong_options_are_refused(modules: Path) -> None:
    calls = ", ".join(f"await answer({given})" for given in WRONG)
    found = run(modules, f"return [{calls}, await answer([1], {{ maxNewTokens: 1 }})];")
    assert found == [*([said] for said in WRONG.values()), [1]]


def test_answers_are_given_one_at_a_time(modules: Path) -> None:
    code = f"""
    const first = language.generate({PROMPT});
    const token = (await first.next()).value;
    const [said] = await answer([1]);
    await first.return();
    return [token, said, await answer({PROMPT}, {{ maxNewTokens: 3 }})];
    """
    token, said, after = run(modules, code)
    assert said.startswith("WebpteError: one answer at a time")
    assert [token, *after] == [sums(PROMPT, 1)[0], *sums(PROMPT, 3)]


def test_an_answer_that_is_aborted(modules: Path) -> None:
    code = f"""
    const stop = new AbortController();
    const found = [];
    try {{
        for await (const token of language.generate({PROMPT}, {{ signal: stop.signal }})) {{
            found.push(token);
            if (found.length === 4) stop.abort();
        }}
    }} catch (error) {{ found.push(error.name); }}
    return [found, await answer({PROMPT}, {{ maxNewTokens: 6 }})];
    """
    found, after = run(modules, code)
    assert found == [*sums(PROMPT, 4), "AbortError"]
    assert after == sums(PROMPT, 6)


@pytest.mark.parametrize("failing", range(1, 7))
def test_after_an_error_the_next_answer_is_right(modules: Path, failing: int) -> None:
    twice = ", ".join([f"await answer({PROMPT}, {{ maxNewTokens: 9 }})"] * 2)
    first, second = run(modules, f"return [{twice}];", failing=failing)
    assert first[-1] == "Error: it failed"
    assert first[:-1] == sums(PROMPT, 9)[: len(first) - 1]
    assert second == sums(PROMPT, 9)
