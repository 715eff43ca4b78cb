"""Tests of the choice of a GPU: by index, name or PCI id, hidden ones, two side by side."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import webpte
from support.devices.native import need_native
from support.graphs.graphs import load
from support.harness.python_process import in_python
from support.harness.samples import add_graph
from webpte.engine.gpu.choose_adapter import AdapterInfo, choose, visible
from webpte.engine.gpu.native import adapters as native
from webpte.engine.gpu.native.dawn import load_dawn
from webpte.errors import DeviceError
from webpte_host.base.device_names import device_name
from webpte_host.commands.devices import table_of

NVIDIA = [
    AdapterInfo(number, "NVIDIA H200", "nvidia", "10de:2335", "Vulkan") for number in range(3)
]
ADAPTERS = (
    *NVIDIA,
    AdapterInfo(3, "AMD Radeon PRO W7900", "amd", "1002:7448", "Vulkan", "radv", 48 << 30),
    AdapterInfo(4, "llvmpipe (LLVM 15)", "mesa", "", "Vulkan", software="a CPU"),
)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ("", 0),
        ("0", 0),
        ("2", 2),
        (" 4 ", 4),
        ("h200", 0),
        ("radeon", 3),
        ("AMD", 3),
        ("1002:7448", 3),
        ("10DE:2335", 0),
        ("llvmpipe (LLVM 15)", 4),
    ],
)
def test_an_adapter_is_chosen(wanted: str, index: int) -> None:
    assert choose(ADAPTERS, wanted) == index


@pytest.mark.parametrize("wanted", ["5", "17", "-1", "geforce", "10de:0000", ":"])
def test_one_that_does_not_exist_names_those_there_are(wanted: str) -> None:
    with pytest.raises(DeviceError) as raised:
        choose(ADAPTERS, wanted)
    assert f"'native:{wanted}'" in str(raised.value)
    assert "native:3 AMD Radeon PRO W7900 (1002:7448, Vulkan)" in str(raised.value)
    assert "native:4 llvmpipe (LLVM 15) (Vulkan)" in str(raised.value)


@pytest.mark.parametrize(
    ("environment", "places"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "2, 7, 0"}, [2, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, [0, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, [1, 3, 4]),
        ({"CUDA_VISIBLE_DEVICES": ""}, [3, 4]),
        ({"CUDA_VISIBLE_DEVICES": "-1", "ROCR_VISIBLE_DEVICES": "0"}, [3, 4]),
        ({"ROCR_VISIBLE_DEVICES": "1"}, [0, 1, 2, 4]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-5d0b2fd11af0cb5e"}, [0, 1, 2, 3, 4]),
    ],
)
def test_variables_hide_and_order_adapters(
    environment: Mapping[str, str], places: list[int]
) -> None:
    assert visible(ADAPTERS, environment) == places


def test_each_backend_counts_for_itself() -> None:
    both = [*NVIDIA[:2], *(AdapterInfo(0, "H200", "", "10de:2335", "D3D12") for _ in range(2))]
    assert visible(both, {"CUDA_VISIBLE_DEVICES": "1"}) == [1, 3]


def test_a_uuid_among_several_cannot_be_followed() -> None:
    with pytest.raises(DeviceError, match=r"CUDA_VISIBLE_DEVICES=GPU-1.* by UUID.*native:INDEX"):
        visible(ADAPTERS, {"CUDA_VISIBLE_DEVICES": "GPU-1"})
    assert visible(NVIDIA[:1], {"CUDA_VISIBLE_DEVICES": "MIG-1"}) == [0]


def test_an_index_that_is_not_there_is_told_from_those_that_are() -> None:
    with pytest.raises(DeviceError) as caught:
        choose(ADAPTERS[4:], "7")
    assert str(caught.value) == (
        "no GPU is called 'native:7'; this machine has native:4 llvmpipe (LLVM 15) (Vulkan)"
    )
    with pytest.raises(DeviceError, match="this machine has none"):
        choose([], "7")


def test_the_table_of_devices() -> None:
    first, *rows, note = table_of(ADAPTERS).splitlines()
    assert first.split()[:2] == ["device", "name"]
    assert len(rows) == 5
    assert "native:3" in rows[3]
    assert "48.0 GiB  radv" in rows[3]
    assert note == "native:4 computes on the CPU: a CPU"
    assert "driver" in table_of(())


@pytest.mark.parametrize("text", ["native", "native:1", "native:10de:2335", "numpy"])
def test_the_option_takes_names_of_devices(text: str) -> None:
    assert device_name("native", "numpy")(text) == text


@pytest.mark.parametrize("text", ["webgpu", "native:", "numpy:1", "cuda"])
def test_the_option_refuses_others(text: str) -> None:
    with pytest.raises(Exception, match="there are native, numpy"):
        device_name("native", "numpy")(text)


def test_adapters_of_this_machine() -> None:
    need_native()
    found = webpte.native_adapters()
    assert [one.index for one in found] == list(range(len(found)))
    assert found[0].name
    assert found[0].backend != "Null"
    info = asyncio.run(webpte.shared_device("native")).info
    assert info.description == found[0].name
    assert info.software == bool(found[0].software)


def test_without_the_list_requests_find_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    need_native()
    listed = webpte.native_adapters()
    monkeypatch.setattr(native, "_ENUMERATE", "missing")
    requested = native.list_adapters(load_dawn())
    assert requested[0].adapter == listed[0]
    assert {one.adapter.name for one in requested} <= {one.name for one in listed}


def test_names_of_one_gpu_share_its_device() -> None:
    need_native()

    async def run() -> None:
        device = await webpte.shared_device("native")
        name = webpte.native_adapters()[0].name
        assert await webpte.shared_device("native:0") is device
        assert await webpte.shared_device(f"native:{name}") is device
        async with await load(add_graph(), device="native:0") as program:
            assert program.device is device
        with pytest.raises(DeviceError, match=f"'native:99'; this machine has native:0 {name[:8]}"):
            await load(add_graph(), device="native:99")
        with pytest.raises(DeviceError, match="no device is called 'native:'"):
            await load(add_graph(), device="native:")

    asyncio.run(run())


_TWO = """
import asyncio, json, numpy as np, webpte
from support.graphs.graphs import load
from support.harness.samples import add_graph

x = np.arange(6, dtype=np.float32).reshape(2, 3)

async def main():
    found = webpte.native_adapters()
    first, second = [await load(add_graph(), device=f"native:{i}") for i in (0, 1)]
    assert first.device is not second.device
    # Interleaved: both have calls in flight, and a result of one goes into the other by the host.
    calls = [program.forward(x + i) for i in range(8) for program in (first, second)]
    sums = [(await asyncio.wait_for(call, 60))[0] for call in calls]
    right = all(np.array_equal(y, x + n // 2 + np.arange(3)) for n, y in enumerate(sums))
    (there,) = await first.forward(x, output="gpu")
    try:
        await second.forward(there)
        refused = ""
    except webpte.WebpteError as error:
        refused = str(error)
    first.device.destroy()  # a loss is one device's
    (after,) = await second.forward(x)
    await first.recover()
    (again,) = await first.forward(x)
    right = right and np.array_equal(after, again)
    for program in (first, second):
        program.close()
    print(json.dumps([len(found), bool(right), refused]))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Vulkan's way to name a driver twice")
def test_two_devices_side_by_side(tmp_path: Path) -> None:
    need_native()
    files = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not files:
        pytest.skip("lavapipe is not installed: a driver that can be registered twice")
    copies = [tmp_path / name for name in ("first.json", "second.json")]
    for copy in copies:
        copy.write_bytes(files[0].read_bytes())
    named = ":".join(map(str, copies))
    done = in_python(_TWO, VK_DRIVER_FILES=named, VK_ICD_FILENAMES=named)
    assert done.returncode == 0, done.stderr
    count, right, refused = json.loads(done.stdout)
    assert (count, right) == (2, True)
    assert "device" in refused
