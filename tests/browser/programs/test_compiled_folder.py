"""A compiled folder in Chromium, as a page uses it: tensors on the GPU, devices, the demo."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from support.compiling.cases import compile_program, large
from support.compiling.pages import page_of
from support.write.pte_writer import GraphWriter, write_pte
from webpte_host.base.layout import ROOT

SAMPLES = ROOT / "web" / "samples"


def doubled(dtype: str = "float32") -> bytes:
    """Write a program that adds its input, of a size that is no whole word, to itself."""
    g = GraphWriter()
    x, y = g.tensor((3, 7), dtype), g.tensor((3, 7), dtype)
    g.op("aten.add.Tensor", x, x, g.int(1), y)
    g.inputs(x)
    g.outputs(y)
    return write_pte(g)


def rows() -> bytes:
    """Write a program that looks rows up."""
    g = GraphWriter()
    index, y = g.tensor((3,), "int32"), g.tensor((3, 4))
    table = g.prepack(g.tensor((5, 4), constant=np.arange(20, dtype=np.float32).reshape(5, 4)))
    g.op("aten.embedding.default", table, index, g.int(-1), g.bool_(False), g.bool_(False), y)
    g.inputs(index)
    g.outputs(y)
    return write_pte(g)


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a static host with compiled programs."""
    folder = tmp_path_factory.mktemp("site")
    sources = {"digits": SAMPLES / "digits.pte", "doubled": doubled(), "rows": rows()}
    for name, source in sources.items():
        compile_program(source, folder / name, name=f"{name}.pte")
    shutil.copytree(folder / "digits", folder / "apart")
    large(shutil.copytree(folder / "digits", folder / "large"))
    (folder / "apart" / "digits.pte").unlink()
    with page_of(browser, folder) as page:
        yield page


def run(page: Page, code: str, given: Any = None) -> Any:
    """Run the body of an async function, which gets `given`, in the page."""
    said = "const said = (work) => work.then((one) => one, (e) => `${e.name}: ${e.message}`);"
    load = "const load = async (name) => (await import(`./${name}/index.js`));"
    start = "const base = document.baseURI;"
    return page.evaluate(f"async (given) => {{ {said} {load} {start} {code} }}", given)


def test_large_files_of_a_host_without_ranges(page: Page) -> None:
    found, expected = run(
        page,
        """
        const answers = [];
        for (const name of ["large", "digits"]) {
            const program = await (await load(name)).open();
            const [scores] = await program.forward(new Float32Array(784));
            answers.push([...scores.data]);
            program.close();
        }
        return answers;
        """,
    )
    assert found == expected


def test_the_original_files_may_be_elsewhere(page: Page) -> None:
    found = run(
        page,
        """
        const { open } = await load("apart");
        const alone = await said(open());
        const program = await open({ originals: "../digits/" });
        const [scores] = await program.forward(new Float32Array(784));
        const same = await (await load("digits")).open();
        const [expected] = await same.forward(new Float32Array(784));
        program.close();
        same.close();
        return { alone, scores: [...scores.data], expected: [...expected.data] };
        """,
    )
    assert re.fullmatch(
        r"SourceError: .*/apart/digits.pte: the server answered 404", found["alone"]
    )
    assert found["scores"] == found["expected"]


def test_a_tensor_stays_on_the_gpu(page: Page) -> None:
    found = run(
        page,
        """
        const { open } = await load("doubled");
        const { GpuTensor } = await import(`${base}doubled/webpte-gpu.js`);
        const program = await open();
        const x = Float32Array.from({ length: 21 }, (_, i) => i - 10.5);
        const [once] = await program.run("forward", [x], { output: "gpu" });
        const [twice] = await program.forward(once);
        const [again] = await program.run("forward", [once], { output: "gpu" });
        const results = { twice: [...twice.data], shape: again.shape };
        results.again = [...(await again.read()).data];
        const { device } = program;
        const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
        const own = device.createBuffer({ size: 84, usage });
        device.queue.writeBuffer(own, 0, x);
        const [same] = await program.forward(own);
        const [mine] = await program.forward(x);
        results.same = same.data.every((one, i) => one === mine.data[i]);
        once.destroy();
        const mute = device.createBuffer({ size: 84, usage: GPUBufferUsage.COPY_DST });
        const small = device.createBuffer({ size: 80, usage });
        results.errors = [
            await said(program.forward(once)),
            await said(program.forward(mute)),
            await said(program.forward(small)),
            await said(program.forward(new GpuTensor(own, [7, 3]))),
            await said(program.forward(new GpuTensor(own, [3, 7], "int32"))),
            await said(program.run("forward", x)),
        ];
        own.destroy();
        results.gone = await said(program.forward(own));
        const [after] = await program.forward(x);
        results.after = after.data.every((one, i) => one === mine.data[i]);
        program.close();
        results.kept = [...(await again.read()).data].length;
        return results;
        """,
    )
    x = np.arange(21) - 10.5
    assert found["twice"] == (4 * x).tolist()
    assert found["again"] == (4 * x).tolist()
    assert found["shape"] == [3, 7]
    assert found["same"]
    assert found["after"]
    assert found["kept"] == 21
    assert found["errors"][0] == "ClosedError: this GpuTensor was destroyed"
    assert found["errors"][1].startswith("DeviceError: ")
    assert "float32 [3,7] does not fit into a GPUBuffer of 80 bytes" in found["errors"][2]
    assert found["errors"][3].startswith("ResizeError: ")
    assert found["errors"][4].endswith("float32 is needed, not int32")
    assert found["errors"][5].endswith("takes 1 inputs, but 21 were given")
    assert found["gone"].startswith("DeviceError: ")


def test_indices_on_the_gpu_are_refused(page: Page) -> None:
    found = run(
        page,
        """
        const { open } = await load("rows");
        const program = await open();
        const buffer = program.device.createBuffer({ size: 16, usage: GPUBufferUsage.COPY_SRC });
        const results = [
            await said(program.forward(buffer)),
            await said(program.run("forward", [Int32Array.of(0, 1, 9)], { output: "gpu" })),
        ];
        const [y] = await program.run("forward", [Int32Array.of(4, 0, 2)], { output: "gpu" });
        results.push([...(await y.read()).data]);
        program.close();
        return results;
        """,
    )
    assert "give them as an array" in found[0]
    assert found[1].startswith("IndexRangeError: ")
    assert found[2] == [*range(16, 20), *range(4), *range(8, 12)]


def test_a_worker_runs_a_program(page: Page) -> None:
    found = run(
        page,
        """
        const code = `
            onmessage = async ({ data }) => {
                const { open } = await import(data + "doubled/index.js");
                const program = await open();
                const [{ data: made }] = await program.forward(new Float32Array(21).fill(4));
                postMessage([made[0], typeof document]);
            };`;
        const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
        const worker = new Worker(url, { type: "module" });
        const answered = new Promise((resolve, reject) => {
            worker.onmessage = ({ data }) => resolve(data);
            worker.onerror = reject;
        });
        worker.postMessage(base);
        return answered.finally(() => worker.terminate());
        """,
    )
    assert found == [8, "undefined"]
