"""The part of a program that takes LoRAs: loads them, and switches between them.

See docs/use/chat.md.
"""

from __future__ import annotations

import asyncio
from typing import Any

from webpte.engine.call.call_context import CallContext, CallLog
from webpte.engine.files.download import Download, Progress
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.errors import InputError
from webpte.inspection.inspecting import Inspected
from webpte.llm.lora.files import read_lora
from webpte.llm.lora.slots import LoraSlots
from webpte.llm.lora.switch import (
    Lora,
    LoraTargets,
    ZeroBuffer,
    allocated_by,
    check_fits,
    copies_on,
    submit_copies,
    weights_of,
)


class TakesLora(Inspected):
    """The methods of `Program` for LoRA."""

    _log: CallLog
    _recovery: asyncio.Lock  # held while the build is replaced

    def _init_lora(self, slots: LoraSlots | None) -> None:
        self._slots = slots
        self._loras: dict[int, Lora] = {}
        self._lora: Lora | None = None
        self._zeros = ZeroBuffer()

    @property
    def lora(self) -> Lora | None:
        """The LoRA in use; None: the model as it was exported."""
        return self._lora

    async def load_lora(
        self,
        source: Any,
        *,
        config: Any = None,
        alpha: float | None = None,
        name: str | None = None,
        keep: bool = False,
        progress: Progress | None = None,
        download: Download | None = None,
    ) -> Lora:
        """Read a LoRA and put it on the GPU, beside those that are there; `use_lora` chooses it.

        source  a folder or its address, with adapter_model.safetensors and adapter_config.json as
                PEFT writes them; or a .safetensors or .ptd file with that JSON beside it; or the
                bytes of one
        config  the JSON, where it is elsewhere: a path, a URL, bytes, or a dict
        alpha   the scale times the rank, in place of the JSON
        name    its name, by default that of the folder or file
        keep, progress, download   as for `load`
        """
        self._log.check_open()
        fetch: dict[str, Any] = {"keep": keep, "progress": progress, "download": download}
        weights = await read_lora(source, config=config, alpha=alpha, name=name, **fetch)
        self._log.check_open()
        build = self._build
        slots = check_fits(self._slots, self.name, weights)
        lora = Lora(weights)
        if not isinstance(build.device, str):
            with build.lifetime.lease():
                await copies_on(lora, build.device, build.lifetime, slots)
        self._loras[id(lora)] = lora
        return lora

    async def use_lora(self, lora: Lora | None) -> None:
        """Compute with a LoRA from the next call on; None: with the model as it was exported.

        Calls that are under way end with the one that they began with. A KV cache belongs to the
        LoRA that it was computed with: conversations are computed anew (`webpte.llm`).
        """
        self._log.check_open()
        if lora is not None:
            if self._loras.get(id(lora)) is not lora:
                raise InputError(f"{lora.name} was not loaded by {self.name}; call load_lora first")
            check_fits(self._slots, self.name, weights_of(lora))
        if self._slots is None or lora is self._lora:
            return
        async with self._recovery:
            await self._switch(self._slots, lora)

    async def _switch(self, slots: LoraSlots, lora: Lora | None) -> None:
        build = self._build
        with build.lifetime.lease(), CallContext():
            async with build.quiet():
                on_host = [one for one in build.delegates if isinstance(one, NumpyDelegate)]
                targets = LoraTargets(slots, build.all_gpu_delegates, on_host)
                copies = await targets.copies(lora, build.lifetime, self._zeros)
                build.lifetime.check()
                weights = None if lora is None else weights_of(lora)
                if not isinstance(build.device, str):
                    submit_copies(build.device, copies)
                targets.set_arrays(weights)
                slots.store(weights)
                self._lora = lora
                self._log.loras += 1
                for method in build.methods:
                    self._log.count(method)  # caches are those of another LoRA

    def _lora_buffers(self) -> dict[int, int]:
        """Return the GPU buffers of the loaded LoRAs, with their bytes."""
        return {
            buffer: n for lora in self._loras.values() for buffer, n in allocated_by(lora).items()
        }

    def _close_loras(self) -> None:
        for lora in self._loras.values():
            lora.close()
        self._loras = {}
