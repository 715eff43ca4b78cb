"""`Program.check`: outputs against a reference's, from arrays or from a file."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.plain_matrices import with_matrices
from support.graphs.graphs import remembering, wait
from webpte.engine.call.options import DeveloperOptions, safer_variant, variant_label
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import InputError
from webpte.program import call_log_of
from webpte_export.suite_writer import MAX_EXAMPLE_BYTES, Call, Tolerance, write_example

SAMPLES = Path(__file__).resolve().parents[3] / "web" / "samples"
X = np.linspace(-3, 3, 37 * 41, dtype=np.float32).reshape(37, 41)
Y = np.flip(X)


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


async def checked(*given: Any, path: Any = SAMPLES / "add.pte", **how: Any) -> Any:
    async with await webpte.load(path, device=SimulatedDevice()) as program:
        return await program.check(*given, **how)


def test_arrays_that_agree() -> None:
    found = wait(checked([X, Y], [X + Y]))
    assert found.agrees
    assert found.method == "forward"
    assert found.variant == "as suits the adapter"
    assert found.worst.used < 1
    assert "agrees" in str(found)


def test_the_worst_element_is_named() -> None:
    wanted = X + Y
    wanted[3, 5] += 1
    found = wait(checked([X, Y], wanted))
    assert not found.agrees
    assert (found.worst.output, found.worst.index) == ("output0", (3, 5))
    assert found.worst.wanted == pytest.approx(found.worst.actual + 1)
    assert "differs, output0[3, 5] is" in str(found)
    assert wait(checked([X, Y], wanted, atol=1.0)).agrees


def test_another_shape_does_not_agree() -> None:
    found = wait(checked([X, Y], [np.zeros(3, np.float32)]))
    assert not found.agrees
    assert found.worst is None
    assert "another shape: [37, 41] here, [3] there" in str(found)


def test_the_example_beside_the_program(tmp_path: Path) -> None:
    path = tmp_path / "add.pte"
    path.write_bytes((SAMPLES / "add.pte").read_bytes())
    with pytest.raises(InputError, match=r"add\.check\.npz cannot be read"):
        wait(checked(path=path))
    (tmp_path / "add.check.npz").write_bytes(npz(input0=X, input1=Y, output0=X + Y))
    assert wait(checked(path=path)).agrees
    assert wait(checked(path=str(path))).agrees
    off = npz(input0=X, input1=Y, output0=X + Y + 0.01, atol=0.1)
    (tmp_path / "add.check.npz").write_bytes(off)
    assert wait(checked(path=path)).agrees
    assert not wait(checked(path=path, atol=1e-4)).agrees


def test_a_program_from_bytes_has_no_example() -> None:
    data = (SAMPLES / "add.pte").read_bytes()
    with pytest.raises(InputError, match="not loaded from a path or a URL"):
        wait(checked(path=data))
    example = npz(input0=X, input1=Y, output0=X + Y)
    assert wait(checked(example, path=data)).agrees


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input0": X, "output0": X}, "lacks input1"),
        ({"input0": X, "input1": X}, "has no outputs"),
        ({"input0": X, "input1": X, "output1": X}, "output1 is neither"),
        ({"input0": X, "input1": X, "output0": X, "rtol": X}, "rtol must be one number"),
        ({"input0": X, "input1": X, "output0": X, "atol": np.float32(-1)}, "atol must be one"),
    ],
)
def test_examples_that_do_not_fit(arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        wait(checked(npz(**arrays)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([X, Y],), "without expected"),
        ((None, [X]), "without inputs"),
        (([X, Y], [None]), "nothing is compared"),
        ((b"no archive",), "bytes"),
    ],
)
def test_arguments_that_do_not_fit(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        wait(checked(*given))


def test_state_stays_as_it_was() -> None:
    async def go() -> None:
        async with await webpte.load(remembering(), device=SimulatedDevice()) as program:
            x = np.full((1, 1, 1, 2), 5, np.float32)
            (first,) = await program.forward(x, np.array([0]))
            calls = call_log_of(program).calls("forward")
            found = await program.check([x * 2, np.array([1])], [first])
            assert not found.agrees
            assert call_log_of(program).calls("forward") == calls
            (again,) = await program.forward(x, np.array([0]))
            np.testing.assert_array_equal(again, first)

    wait(go())


def test_safer_variants_end_with_numpy() -> None:
    info = with_matrices(DeviceInfo("webgpu"))
    options: Any = webpte.Options(fuse=False)
    labels = []
    while (safer := safer_variant(options, info)) is not None:
        labels.append(safer.label)
        if safer.options is None:
            break
        options = safer.options
        assert not options.fuse
    first = "without subgroup matrices"
    assert labels == [first, "without f16", "with plain kernels", "on NumPy"]
    last = "without f16, without subgroup matrices, with plain kernels, without fusion"
    assert variant_label(options, info) == last
    assert safer_variant(options, DeviceInfo("numpy")) is None
    assert variant_label(options, DeviceInfo("numpy")) == "NumPy"


def test_subgroup_matrices_are_a_variant_of_their_own() -> None:
    info = replace(with_matrices(DeviceInfo("webgpu")), prefers_subgroup_matrices=False)
    chosen = DeveloperOptions(subgroup_matrices=True)
    assert variant_label(chosen, info) == "with subgroup matrices"
    without = DeveloperOptions(subgroup_matrices=False)
    assert variant_label(without, info) == "without subgroup matrices"
    software = DeviceInfo("webgpu", software=True)
    safer = safer_variant(webpte.Options(), software)
    assert safer is not None
    assert safer.label == "on NumPy"


def test_the_exporter_writes_examples_that_are_not_too_large(tmp_path: Path) -> None:
    path = tmp_path / "add.check.npz"
    call = Call((X, Y), (X + Y,))
    assert write_example(path, call, Tolerance(1e-3, 1e-4))
    found = wait(checked(path))
    assert found.agrees
    assert (found.tolerance.atol, found.tolerance.rtol) == (1e-3, 1e-4)
    large = np.zeros(MAX_EXAMPLE_BYTES, np.uint8)
    assert not write_example(path, Call((large, large), (large,)), Tolerance(0, 0))
    assert not path.exists()  # not even the example of an earlier export


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.check.npz")), ids=lambda path: path.stem)
def test_the_samples_agree_with_their_examples(path: Path) -> None:
    async def go() -> None:
        program = path.with_name(path.name.removesuffix(".check.npz") + ".pte")
        async with await webpte.load(program, device=SimulatedDevice()) as loaded:
            assert (await loaded.check()).agrees

    wait(go())
