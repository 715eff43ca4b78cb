"""LoRA training: the steps of PyTorch and PEFT; it stops, fails and goes on as promised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.llm import training_models
from support.llm.training_models import MODELS, check_model, folder, open_model, tokenizer
from support.page.fake_page import SAMPLES
from support.write.weight_files import safetensors_bytes
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import DeviceLostError, InputError, VocabularyError
from webpte.training import Line, LoraTrainer, can_be_taught, can_train_lora, lora_form
from webpte.training.lora_trainer import STEPS_AT_ONCE

LINES: list[Line] = [
    "The ferry leaves at nine.",
    "Close the lower gates.",
    ("Who counts us?", "The gulls do."),
]


def trained(
    script: Callable[[webpte.Program, LoraTrainer], Awaitable[Any]],
    device: Any = "numpy",
    **options: Any,
) -> Any:
    async def all_of_it() -> Any:
        async with await open_model("llama_8w", device, **options) as program:
            return await script(program, LoraTrainer(program, await tokenizer(), rate=5e-3))

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("name", MODELS)
def test_ten_steps_are_those_of_pytorch(name: str) -> None:
    wait(check_model(name, "numpy", 10))


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_steps_are_those_of_pytorch(name: str) -> None:
    wait(check_model(name, "numpy", 100))


def test_weights_stay_on_a_gpu_between_steps() -> None:
    """The simulated device has buffers and submissions as a GPU has."""
    wait(check_model("llama_8w", SimulatedDevice(), 3))


def test_lines_are_learned_and_spoken(tmp_path: Path) -> None:
    async def script(program: webpte.Program, trainer: LoraTrainer) -> None:
        plain = await program.forward(np.array([[0, 5, 6]]), np.array([0]))
        found = [loss async for loss in trainer.learn(LINES, steps=30)]
        assert trainer.steps == len(found) == 30
        assert np.mean(found[-4:]) < 0.8 * np.mean(found[:4])
        np.testing.assert_array_equal(
            await program.forward(np.array([[0, 5, 6]]), np.array([0])), plain
        )
        lora = await trainer.use("mine")
        assert webpte.llm.lora_in_use(program) is lora
        spoken = await program.forward(np.array([[0, 5, 6]]), np.array([0]))
        assert np.abs(spoken[0] - plain[0]).max() > 0.1
        (await trainer.save()).write(tmp_path / "mine")
        again = await webpte.llm.load_lora(program, tmp_path / "mine")
        await webpte.llm.use_lora(program, again)
        np.testing.assert_array_equal(
            await program.forward(np.array([[0, 5, 6]]), np.array([0])), spoken
        )
        await trainer.load(tmp_path / "mine")
        assert trainer.steps == 0
        async for loss in trainer.learn(LINES, steps=1):
            assert loss < np.mean(found[:4])

    trained(script)


def test_it_stops_in_each_way() -> None:
    async def script(_program: webpte.Program, trainer: LoraTrainer) -> None:
        async for _ in trainer.learn(LINES, steps=100):
            break
        assert trainer.steps == STEPS_AT_ONCE
        learning = trainer.learn(LINES, steps=100)  # at once, while the first still ends
        await anext(learning)
        trainer.stop()
        assert len([loss async for loss in learning]) == STEPS_AT_ONCE - 1
        assert trainer.steps == 2 * STEPS_AT_ONCE
        first, second = trainer.learn(LINES, steps=4), trainer.learn(LINES, steps=4)
        both = await asyncio.gather(anext(first), anext(second), return_exceptions=True)
        assert isinstance(both[0], float)
        assert isinstance(both[1], InputError)
        assert "in training" in str(both[1])
        task = asyncio.ensure_future(anext(trainer.learn(LINES, steps=100)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = trainer.steps
        assert len([loss async for loss in trainer.learn(LINES, steps=2)]) == 2
        assert trainer.steps == before + 2
        assert [loss async for loss in trainer.learn(LINES, steps=0)] == []

    trained(script)


def test_a_lost_device_loses_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webpte.training.lora_trainer.KEEP_EVERY", 4)
    device = SimulatedDevice()

    async def script(program: webpte.Program, trainer: LoraTrainer) -> None:
        assert len([loss async for loss in trainer.learn(LINES, steps=8)]) == 8
        device.lost = True
        with pytest.raises(DeviceLostError):
            await anext(trainer.learn(LINES, steps=4))
        assert trainer.steps == 4
        await program.recover(SimulatedDevice())
        found = [loss async for loss in trainer.learn(LINES, steps=2)]
        assert trainer.steps == 6
        assert all(map(np.isfinite, found))

    trained(script, device)


def test_what_does_not_fit_is_told() -> None:
    async def script(program: webpte.Program, trainer: LoraTrainer) -> None:
        rows = np.zeros((2, 24), np.int64)
        with pytest.raises(InputError, match=r"integers \[2, 24\], not int64 \[2, 23\]"):
            await trainer.step(rows[:, 1:], rows)
        with pytest.raises(InputError, match=r"integers \[2, 24\], not float64"):
            await trainer.step(rows, rows * 0.5)
        trainer.rate = float("nan")
        with pytest.raises(InputError, match="rate nan"):
            await trainer.step(rows, rows)
        trainer.rate = 1e30
        with pytest.raises(InputError, match="train with a lower rate"):
            async for _ in trainer.learn(LINES, steps=12):
                pass
        saved = await trainer.save()
        fewer: dict[str, Any] = {"config": {**saved.config, "r": 4}, "name": "other"}
        arrays = {
            f"base_model.model.model.layers.0.mlp.up_proj.lora_{side}.weight": np.zeros(
                shape, np.float32
            )
            for side, shape in (("A", (4, 32)), ("B", (64, 4)))
        }
        with pytest.raises(InputError, match=r"other has no layer 'model.layers.0.self_attn"):
            await trainer.load(safetensors_bytes(arrays), **fewer)
        wide = {name: np.zeros((9, 9), np.float32) for name in arrays}
        with pytest.raises(InputError):
            await trainer.load(safetensors_bytes(wide), **fewer)
        strange = {name.replace("up_proj", "other"): one for name, one in arrays.items()}
        with pytest.raises(InputError, match="which this program does not train"):
            await trainer.load(safetensors_bytes(strange), **fewer)
        with pytest.raises(VocabularyError):
            LoraTrainer(
                program, await webpte.text.load_tokenizer(SAMPLES / "stories.tokenizer.json")
            )

    trained(script)


def test_a_program_without_room_says_so() -> None:
    async def script(_program: webpte.Program, trainer: LoraTrainer) -> None:
        with pytest.raises(InputError, match="lora=4"):
            await trainer.use()

    trained(script, lora=None)


def test_other_programs_cannot_be_trained() -> None:
    plain = wait(webpte.inspect(folder() / "llama_8w.pte"))
    assert "learn" not in plain
    with pytest.raises(InputError, match="training=True"):
        lora_form(plain)
    methods = wait(webpte.inspect(folder() / "llama_8w.pte", optional=["learn"]))
    assert can_train_lora(methods)
    assert not can_be_taught(methods)
    teach = wait(webpte.inspect(SAMPLES / "teach.pte"))
    assert not can_train_lora(teach)
    with pytest.raises(InputError, match="'learn' and 'get_lora'; this one has: learn, predict"):
        lora_form(teach)
    assert not can_train_lora({**methods, "learn": teach["learn"]})
    assert lora_form(methods).rank == training_models.RANK
