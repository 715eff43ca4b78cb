"""The open program once more, with its method `learn` and room for a LoRA.

The program of the session stays as it was loaded; the GPU has the weights of both once.
"""

from __future__ import annotations

from typing import Any

from page.core.session import Session
from page.shared.persistence.codec import Codec
from webpte import Program
from webpte.llm import lora_in_use, use_lora
from webpte.training import LoraTrainer, lora_rank


class TrainedProgram:
    """A program with its trainer. `outdated`: there were steps since it last answered."""

    def __init__(self, program: Program, codec: Codec) -> None:
        self._program = program
        self.trainer = LoraTrainer(program, codec.tokenizer, template=codec.template)
        self.outdated = True

    @classmethod
    async def load(cls, engine: Any, session: Session, codec: Codec) -> TrainedProgram:
        source = session.source
        program: Program = await engine.load(
            source.data,
            data=source.extra,
            device=session.device,
            name=source.name,
            max_context=source.max_context,
            kv_cache=source.kv_cache,
            lora=lora_rank(session.methods),
            training=True,
        )
        try:
            return cls(program, codec)
        except BaseException:
            program.close()
            raise

    async def recover(self) -> None:
        """Build the program anew if the GPU was lost; the trainer goes on from its kept weights."""
        program = self._program
        if program.device_info.kind != "numpy" and program.device.lost:
            await program.recover()

    async def prepared(self, trained: bool) -> Program:
        """Return the original program, or the trained one."""
        if not trained:
            await use_lora(self._program, None)
        elif self.outdated or lora_in_use(self._program) is None:
            await self.trainer.use()
            self.outdated = False
        return self._program

    def close(self) -> None:
        self._program.close()
