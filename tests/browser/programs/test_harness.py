"""The basis of the other browser tests: adapter, isolation, policy, Python in the page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Route
from playwright.sync_api import Error as PlaywrightError

from support.devices.recorded import ADD, RELU
from support.harness import limits
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.base.errors import PageLostError, PagePythonError, message_of
from webpte_host.commands import verify
from webpte_host.harness import browser
from webpte_host.harness.browser import Harness
from webpte_host.setup import chromium


def test_adapter_exists(harness: Harness) -> None:
    adapter = harness.adapter()
    assert adapter is not None
    assert adapter["vendor"]


def test_adapter_exists_in_worker(harness: Harness) -> None:
    code = "import js; return await js.navigator.gpu.requestAdapter() is not None"
    assert harness.python(code) is True


def test_page_is_isolated(harness: Harness) -> None:
    assert harness.page.evaluate("() => [isSecureContext, crossOriginIsolated]") == [True, True]


@pytest.mark.parametrize(
    ("code", "directive"),
    [
        ("script.src = 'https://example.com/a.js'", "script-src-elem"),
        ("script.textContent = 'globalThis.inline = 1'", "script-src-elem"),
    ],
)
def test_policy_blocks_scripts(harness: Harness, code: str, directive: str) -> None:
    blocked = harness.page.evaluate(f"""() => new Promise((resolve) => {{
        document.addEventListener("securitypolicyviolation",
            (event) => resolve(event.effectiveDirective), {{once: true}});
        const script = document.createElement("script");
        {code};
        document.head.append(script);
        setTimeout(() => resolve("not blocked"), {limits.BROWSER_MS});
    }})""")
    assert blocked == directive


def test_numpy_round_trip(harness: Harness) -> None:
    code = "import numpy as np; return np.array(values, np.float32).reshape(2, 3).T"
    assert harness.python(code, values=[1, 2, 3, 4, 5, 6.5]) == [[1, 4], [2, 5], [3, 6.5]]


def test_flatbuffers_is_there(harness: Harness) -> None:
    assert harness.python("import flatbuffers; return flatbuffers.__name__") == "flatbuffers"


def test_webpte_imports_with_its_shaders(harness: Harness) -> None:
    code = """
    from importlib.resources import files
    import webpte
    shaders = [item.name for item in (files("webpte") / "wgsl" / "gemm").iterdir()]
    return [webpte.__version__, shaders]
    """
    version, shaders = harness.python(code)
    assert version
    assert any(name.endswith(".wgsl") for name in shaders)


def test_what_python_starts_with_comes_compiled_and_with_its_source(harness: Harness) -> None:
    code = """
        import linecache, sys
        names = ("asyncio.tasks", "dataclasses", "inspect", "re._parser", "typing", "zipfile")
        library = {name: sys.modules[name] for name in names}
        compiled = [name for name, one in library.items() if one.__spec__.origin.endswith(".pyc")]
        code = library["inspect"].signature.__code__
        line = linecache.getline(code.co_filename, code.co_firstlineno, vars(library["inspect"]))
        return [compiled == [*names], line.strip()[:14]]
    """
    assert harness.python(dedent(code)) == [True, "def signature("]


def test_state_is_shared_between_calls(harness: Harness) -> None:
    harness.python("global kept\nkept = 41")
    assert harness.python("return kept + 1") == 42


def test_text_arrives_unchanged(harness: Harness) -> None:
    text = 'a "quote", a \\ and\na line, and ü'
    assert harness.python("return [text, '''x\n  y''']", text=text) == [text, "x\n  y"]


def test_error_carries_traceback(harness: Harness) -> None:
    with pytest.raises(PagePythonError, match=r"line 2.*\n.*1 / 0") as caught:
        harness.python("x = 0\ny = 1 / 0")
    assert caught.value.summary == "ZeroDivisionError: division by zero"
    assert message_of(caught.value) is None


def test_errors_of_webpte_are_told_without_a_traceback(harness: Harness) -> None:
    with pytest.raises(PagePythonError) as caught:
        harness.python("import webpte\nawait webpte.load(b'# No program')")
    assert (message_of(caught.value) or "").startswith("bytes: not an ExecuTorch program")


def test_python_that_computes_is_waited_for(harness: Harness) -> None:
    """It is not given up, even if a busy machine hardly gives it a processor."""
    code = """
    import time
    start = time.process_time()
    while time.process_time() - start < seconds: pass
    return "done"
    """
    assert harness.python(code, timeout=0.5, seconds=2) == "done"


@pytest.mark.thorough
def test_python_that_reports_progress_is_waited_for(harness: Harness) -> None:
    """Code that waits, as for a network, shows only by its reports of progress that it works."""
    code = """
    import asyncio
    for step in range(steps):
        report_progress("wait", step, steps)
        await asyncio.sleep(0.5)
    return steps
    """
    seen: list[str] = []
    timeout = limits.HANG_SECONDS
    steps = 3 * timeout
    assert harness.python(code, timeout=timeout, watcher=seen.append, steps=steps) == steps
    assert all(re.fullmatch(rf"wait \d+ of {steps}", doing) for doing in seen)
    assert len(set(seen)) > 1


# Long kernels, one after the other.
_BUSY_GPU = """
import time
from pyodide.code import run_js
dispatch = await run_js('''(async () => {
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const module = device.createShaderModule({ code: `
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main() {
      var v = x[0];
      for (var i = 0u; i < x[1]; i++) { v = v * 1664525u + 1013904223u + x[2]; }
      x[0] = v;
    }` });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const buffer = device.createBuffer({ size: 16, usage: 0x80 | 0x8 });
  const entries = [{ binding: 0, resource: { buffer } }];
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  return async (count) => {
    device.queue.writeBuffer(buffer, 0, new Uint32Array([1, 10_000_000, 0, 0]));
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < count; i++) pass.dispatchWorkgroups(1);
    pass.end();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
  };
})()''')

await dispatch(1)
started = time.monotonic()
while time.monotonic() - started < seconds:
    await dispatch(1)
return "done"
"""


@pytest.mark.thorough
@pytest.mark.skipif(
    chromium.chosen_adapter() == "hardware", reason="a GPU that computes takes no processor's time"
)
def test_a_gpu_that_computes_is_waited_for(harness: Harness) -> None:
    """Python is idle all the while, as it is while kernels are compiled."""
    assert harness.python(_BUSY_GPU, timeout=1, seconds=3) == "done"


@pytest.mark.thorough
def test_python_that_waits_for_ever_is_reported(fresh_harness: Harness) -> None:
    code = """
    import asyncio
    report_progress("compile", 3, 8)
    await asyncio.Future()
    """
    seconds = limits.HANG_SECONDS
    # On a busy machine even an idle page waits for a processor, which counts as activity.
    told = (
        rf"no progress (and no CPU activity )?for ({seconds}|{10 * seconds}) s.* "
        r"\(compile 3 of 8\); "
        r"Python waits in .*_body \(<harness>:4\).*; another device of its GPU answers"
    )
    with pytest.raises(PageLostError, match=told):
        fresh_harness.python(code, timeout=seconds)
    assert fresh_harness.lost
    with pytest.raises(PageLostError, match="lost before"):  # at once: nobody answers any more
        fresh_harness.python("return 1")


@pytest.mark.thorough
def test_python_that_computes_for_ever_is_reported(
    fresh_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "_ANSWER_MS", 2000)  # it computes all the while
    told = (
        r"no progress for 5 s, though the browser is busy \(no stage reported\); "
        "Python does not answer; another device of its GPU answers"
    )
    with pytest.raises(PageLostError, match=told):
        fresh_harness.python("while True: pass", timeout=0.5)
    assert fresh_harness.lost


def test_crashed_page_is_reported(workshop: BrowserContext) -> None:
    harness = Harness(workshop.new_page())  # with or without Python
    with contextlib.suppress(PlaywrightError):
        harness.page.goto("chrome://crash", timeout=limits.BROWSER_MS)
    with pytest.raises(PageLostError, match="crashed"):
        harness.python("return 1")
    assert harness.lost
    harness.close()


# Runs in the page in place of a suite's programs.
_IN_PAGE = """
import asyncio
if entry["case"] == "waits":
    report_progress("compile", 3, 8)
    await asyncio.Future()
row = {"op": entry["op"], "case": entry["case"], "verdict": "passed", "error": None}
return {**row, "outputs": [], "ops": [], "ms": 1}
"""

# In its own process, because a process can have only one Playwright at a time.
_VERIFY = """
import sys
from webpte_host.commands import verify; from webpte_host.setup import environment
environment.inside = lambda: True
verify._IN_PAGE = sys.argv.pop(1)
sys.exit(verify.main(sys.argv[1:]))
"""

# In its own process, too, because a stuck page is killed with all other pages of the process.
_STUCK = """
import os, signal
from webpte_host.base.errors import PageLostError
from webpte_host.harness.browser import Harness, open_browser
from webpte_host.serving.server import Site
from webpte_host.harness.watchdog import BrowserProcesses

with Site() as site, open_browser() as browser:
    harness = Harness.open(browser, site, stuck_seconds=5)
    for pid in BrowserProcesses().find(b"--type=renderer"):
        os.kill(pid, signal.SIGSTOP)
    try:
        harness.python("return 1")
    except PageLostError as error:
        print(error, harness.lost)
"""


def run_script(root: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(root / "pysrc")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.thorough
def test_verify_goes_on_after_a_hanging_case(root: Path, tmp_path: Path) -> None:
    golden = {"path": "g.bin", "shape": [1], "dtype": "float32", "output_index": 0}
    base = {"op": "op", "pte": "a.pte", "inputs": [], "golden": golden, "atol": 0, "rtol": 0}
    manifest = [{**base, "case": case} for case in ("first", "waits", "last")]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    seconds = limits.HANG_SECONDS
    done = run_script(root, _VERIFY, _IN_PAGE, str(tmp_path), "--timeout", str(seconds))
    assert re.search(r"^1/3 .* op__waits: compile 3 of 8, \d+ s$", done.stdout, re.MULTILINE)
    said = [line for line in done.stdout.splitlines() if "/3 " not in line]
    failed, *rest = [line for line in said if not line.startswith("adapter: ")]  # where it is a GPU
    told = (
        rf"no progress (and no CPU activity )?for ({seconds}|{10 * seconds}) s.* "
        r"\(compile 3 of 8\); Python waits in .*; another device of its GPU answers"
    )
    assert re.fullmatch(f"FAILED op__waits: {told}", failed)
    assert rest == ["2 passed, 1 failed"]
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.thorough
def test_a_page_that_does_not_answer_is_killed(root: Path) -> None:
    done = run_script(root, _STUCK)
    assert (done.stdout, done.stderr) == ("the page did not answer for 5 s True\n", "")


@pytest.mark.thorough
def test_verify_compares_variants_in_one_page(harness: Harness) -> None:
    """relu(x) + x, which is fused as chosen; the suite's files are made up on the way."""
    g = GraphWriter()
    x = g.tensor((2,))
    out = g.op(ADD, g.op(RELU, x, g.tensor((2,))), x, g.int(1), g.tensor((2,)))
    g.inputs(x)
    g.outputs(out)
    floats = {
        "x": np.array([-1, 2], np.float32).tobytes(),
        "y": np.array([-1, 4], np.float32).tobytes(),
    }
    files = {"chain.pte": write_pte(g), **floats}
    tensor = {"shape": [2], "dtype": "float32"}
    raw = {"op": "chain", "case": "a", "pte": "chain.pte", "atol": 0, "rtol": 0}
    entry = {**raw, "inputs": [{"path": "x", **tensor}], "golden": {"path": "y", **tensor}}

    def fulfill(route: Route) -> None:
        route.fulfill(body=files[route.request.url.rpartition("/")[2]])

    harness.page.route("**/made-up/*", fulfill)
    found = harness.python(
        verify._FIND_VARIANTS, requested=["fuse", "f16", "fuse+subgroup_matrices"]
    )
    variants = [one for one in found if one["label"] in ("as chosen", "without fusion")]
    given: dict[str, Any] = {"entry": entry, "prefix": "/made-up/"}
    chosen, single = [harness.python(verify._IN_PAGE, variant=one, **given) for one in variants]
    harness.page.unroute("**/made-up/*")
    assert [one["label"] for one in found][:3] == ["as chosen", "without fusion", "without f16"]
    assert (chosen["error"], single["error"]) == (None, None)
    assert (single["difference"], single["other_kernels"]) == (0.0, True)


def test_tuned_choices_are_kept_by_the_browser(harness: Harness) -> None:
    code = """
        from webpte import DeviceInfo
        from webpte.engine.gpu.tuning_cache import keep_choices, kept_choices

        info = DeviceInfo("webgpu", "nobody's")
        before = await kept_choices(info)
        await keep_choices(info, (("a", "1"), ("b", "1")))
        await keep_choices(info, (("b", "2"),))
        return before, await kept_choices(info), await kept_choices(DeviceInfo("webgpu"))
    """
    assert harness.python(code) == [[], [["a", "1"], ["b", "2"]], []]
    assert harness.page.evaluate("() => caches.delete('webpte-settings')") is True
