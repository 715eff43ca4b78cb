"""Pictures prepared by the kernels of a GPU have the bits of NumPy's."""

from __future__ import annotations

import asyncio

from support.devices.native import need_native
from support.harness import extent
from support.seeing.scaling import check_steps, every_steps
from webpte.engine.gpu.native.device import NativeDevice


def test_every_filter_and_size() -> None:
    need_native()

    async def run() -> None:
        await check_steps(await NativeDevice.create(), iter(extent.share(list(every_steps()))))

    asyncio.run(run())
