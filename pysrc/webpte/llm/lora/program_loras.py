"""LoRAs of a program: loads them, and switches between them. See docs/use/chat.md."""

from __future__ import annotations

from typing import Any

from webpte.engine.call.call import CallContext
from webpte.engine.files.download import Download, Progress
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.errors import InputError
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
from webpte.program import Program, attach, attached, build_of, call_log_of, rebuilding


class ProgramLoras:
    """The LoRAs of a program, and the slots that receive the LoRA in use.

    slots  the room for LoRAs that the program was loaded with; None if it has no room
    """

    def __init__(self, program: Program, slots: LoraSlots | None) -> None:
        self._program = program
        self._slots = slots
        self._loaded: dict[int, Lora] = {}
        self._zeros = ZeroBuffer()
        self.used: Lora | None = None

    @property
    def allocated(self) -> dict[int, int]:
        """Size in bytes of the loaded LoRAs' GPU buffers, by number."""
        buffers: dict[int, int] = {}
        for lora in self._loaded.values():
            buffers |= allocated_by(lora)
        return buffers

    def close(self) -> None:
        """Free the memory of all LoRAs."""
        for lora in self._loaded.values():
            lora.close()
        self._loaded = {}

    async def load(self, source: Any, **reading: Any) -> Lora:
        """Read a LoRA and put it on the GPU."""
        program, log = self._program, call_log_of(self._program)
        log.check_open()
        weights = await read_lora(source, **reading)
        log.check_open()
        build = build_of(program)
        slots = check_fits(self._slots, program.name, weights)
        lora = Lora(weights)
        if not isinstance(build.device, str):
            with build.lifetime.lease():
                await copies_on(lora, build.device, build.lifetime, slots)
        self._loaded[id(lora)] = lora
        return lora

    async def use(self, lora: Lora | None) -> None:
        """Compute with a LoRA from the next call on; None: with the model as exported."""
        program = self._program
        call_log_of(program).check_open()
        if lora is not None:
            if self._loaded.get(id(lora)) is not lora:
                raise InputError(
                    f"{lora.name} was not loaded for {program.name}; call load_lora first"
                )
            check_fits(self._slots, program.name, weights_of(lora))
        if self._slots is None or lora is self.used:
            return
        async with rebuilding(program):
            await self._switch(self._slots, lora)

    async def _switch(self, slots: LoraSlots, lora: Lora | None) -> None:
        build, log = build_of(self._program), call_log_of(self._program)
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
                self.used = lora
                log.weights += 1
                for method in build.methods:
                    # counts as a call, because caches belong to the LoRA that computed them
                    log.count(method)


def give_room(program: Program, slots: LoraSlots) -> None:
    """Let a program that was built with these slots take LoRAs."""
    attach(program, ProgramLoras(program, slots))


async def load_lora(
    program: Program,
    source: Any,
    *,
    config: Any = None,
    alpha: float | None = None,
    name: str | None = None,
    keep: bool = False,
    progress: Progress | None = None,
    download: Download | None = None,
) -> Lora:
    """Read a LoRA and put it on the GPU, in addition to the loaded LoRAs; `use_lora` chooses it.

    program has room for it: `webpte.llm.load(..., lora=RANK)`

    source  a folder or its address, with adapter_model.safetensors and adapter_config.json as
            PEFT writes them; or a .safetensors or .ptd file with that JSON in the same folder; or
            the bytes of such a file
    config  the JSON, if it is in another place: a path, a URL, bytes, or a dict
    alpha   the scale times the rank, in place of the JSON
    name    its name, by default the name of the folder or file
    keep, progress, download   as for `webpte.load`
    """
    fetch: dict[str, Any] = {"keep": keep, "progress": progress, "download": download}
    return await _loras_of(program).load(source, config=config, alpha=alpha, name=name, **fetch)


async def use_lora(program: Program, lora: Lora | None) -> None:
    """Compute with a LoRA from the next call on; None: with the model as exported.

    Calls that are under way end with the LoRA that they began with. A KV cache belongs to the LoRA
    that computed it: conversations are computed again (`webpte.llm`).
    """
    await _loras_of(program).use(lora)


def lora_in_use(program: Program) -> Lora | None:
    """Return the LoRA that a program computes with; None: the model as exported."""
    return _loras_of(program).used


def _loras_of(program: Program) -> ProgramLoras:
    return attached(program, ProgramLoras) or ProgramLoras(program, None)
