"""Language models of optimum-executorch answer as in ExecuTorch: they take `cache_position`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.llm.optimum_programs import answers, files
from support.page.conversations import tokens_of
from support.write.pte_writer import GraphWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.ops.attention.cache_packing import PACKINGS
from webpte.errors import InputError, WebpteError
from webpte.llm import Generator, Seq2Seq
from webpte.llm.cache.pack_cache import kv_cache_bytes
from webpte.llm.generation import ignore_stops

KINDS = list(PACKINGS)
PROGRAMS = ["custom", "quantized", "masked", "static", "hybrid"]
AHEAD = ["custom", "quantized"]  # those whose caches follow the position


async def opened(name: str, device: str, **options: Any) -> webpte.Program:
    on: Any = SimulatedDevice() if device == "simulated" else device
    return await webpte.llm.load(files()[f"{name}.pte"], device=on, **options)


@pytest.mark.parametrize("device", ["numpy", "simulated"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tokens_are_those_of_executorch(name: str, device: str) -> None:
    async def run() -> None:
        wanted, prompt = answers()[name], answers()["prompt"]
        async with await opened(name, device) as program:
            generator = Generator(program)
            await tokens_of(generator.generate([9, 9, 4, 30, 2, 63, 8, 7, 6, 5], 9))
            answer = generator.generate(prompt, len(wanted))
            ignore_stops(answer)
            assert await tokens_of(answer) == wanted
            if device == "simulated" and name in AHEAD:
                assert answer.stats.step_by_step is None
                assert answer.stats.submissions < len(wanted) - 1
            else:
                assert answer.stats.step_by_step is not None

    wait(run())


@pytest.mark.parametrize("name", AHEAD)
def test_sampled_tokens_are_the_same_ahead_and_one_by_one(name: str) -> None:
    async def run() -> None:
        async with await opened(name, "simulated") as program:
            generator, how = Generator(program), cast("Any", {"temperature": 0.9, "seed": 5})
            ahead = await tokens_of(generator.generate(answers()["prompt"], 20, **how))
            single = generator.generate(answers()["prompt"], 20, steps_ahead=1, **how)
            assert await tokens_of(single) == ahead

    wait(run())


def test_an_answer_ends_at_the_stop_token_of_the_program() -> None:
    async def run() -> None:
        wanted = answers()["custom"]
        async with await opened("custom", "numpy") as program:
            generator = Generator(program)
            assert generator.eos == {2}
            assert generator.max_context == 32
            answer = generator.generate(answers()["prompt"], 20)
            assert await tokens_of(answer) == wanted[: wanted.index(2)]

    wait(run())


@pytest.mark.parametrize("name", ["custom", "masked"])
def test_a_guess_is_refused_or_right(name: str) -> None:
    async def run() -> None:
        async with await opened(name, "simulated") as program:
            prompt = answers()["prompt"] * 2
            plain = await tokens_of(Generator(program).generate(prompt, 12))
            answer = Generator(program).generate(prompt, 12, speculate="lookup")
            assert await tokens_of(answer) == plain
            assert bool(answer.stats.proposed_tokens) is (name in AHEAD)

    wait(run())


@pytest.mark.parametrize("device", ["numpy", "simulated"])
@pytest.mark.parametrize("name", ["custom", "quantized", "hybrid"])
def test_the_context_of_caches_beside_delegates_can_be_shorter(name: str, device: str) -> None:
    async def run() -> None:
        prompt = answers()["prompt"]
        async with await opened(name, device) as program:
            wanted = await tokens_of(everything(Generator(program), prompt, 14))
            whole = program.memory().by_kind["state"] if device == "simulated" else 0
        async with await opened(name, device, max_context=20, kv_cache="f32") as program:
            generator = Generator(program)
            most = 7 if name == "hybrid" else 20  # a call of its window
            assert (generator.max_context, generator.max_chunk) == (20, most)
            assert await tokens_of(everything(generator, prompt, 30)) == wanted
            long = [token % 60 + 3 for token in range(20)]
            assert len(await tokens_of(everything(generator, long, 4))) == 1
            with pytest.raises(WebpteError, match=str(most)):
                await program.forward(np.zeros((1, 21), np.int64), np.arange(21))
            if device == "simulated":
                assert program.memory().by_kind["state"] < whole

    wait(run())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["custom", "quantized", "hybrid"])
def test_caches_beside_delegates_can_have_fewer_bits(name: str, kind: str) -> None:
    """In Gemma 3, whose windows are rings, the caches of the layer that sees all tokens."""

    async def run() -> None:
        prompt = answers()["prompt"]
        async with await opened(name, "simulated") as program:
            plain = everything(Generator(program), prompt, 14)
            wanted = await tokens_of(plain)
            told, calls = kv_cache_bytes(program), len(program.graph().nodes)
            whole = program.memory().by_kind["state"]
        found = []
        for device in ("numpy", "simulated"):
            async with await opened(name, device, kv_cache=kind) as program:
                answer = everything(Generator(program), prompt, 14)
                found.append(await tokens_of(answer))
                assert kv_cache_bytes(program) == {}  # already packed
        assert found[0] == found[1]
        assert found[0][:9] == wanted[:9]
        async with await opened(name, "simulated", kv_cache=kind, max_context=20) as program:
            answer = everything(Generator(program), prompt, 14)
            assert await tokens_of(answer) == found[0]
            assert answer.stats.step_by_step == plain.stats.step_by_step
            assert len(program.graph().nodes) == calls
            saved = (told["file"] - told[kind]) + told[kind] * (32 - 20) // 32
            assert program.memory().by_kind["state"] == whole - saved

    wait(run())


@pytest.mark.parametrize("options", [{}, {"kv_cache": "int8"}, {"max_context": 20}])
def test_caches_beside_delegates_are_in_the_forecast(options: dict[str, Any]) -> None:
    async def run() -> None:
        forecast = await webpte.llm.forecast(
            files()["quantized.pte"], device=SimulatedDevice(), **options
        )
        async with await opened("quantized", "simulated", **options) as program:
            await tokens_of(everything(Generator(program), answers()["prompt"], 2))
            assert program.memory().by_kind["state"] == forecast.state

    wait(run())


def everything(generator: Generator, prompt: list[int], count: int) -> Any:
    answer = generator.generate(prompt, count)
    ignore_stops(answer)
    return answer


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("custom", {"max_context": 32}, r"kernels .* use its caches, of positions 32 of FLOAT"),
        ("masked", {"max_context": 16}, "its state is used by operators other than attention"),
        ("static", {"kv_cache": "f16"}, "its state is used by operators other than attention"),
        ("custom", {"lora": 4}, "does not name its linear layers .* export it with"),
    ],
)
def test_an_option_that_a_program_cannot_have(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(WebpteError, match=message):
        wait(opened(name, "numpy", **options))


SIZE = 7


def encoder_decoder() -> dict[str, GraphWriter]:
    """Write an encoder, and a decoder that takes its output before the position.

    The token after each is the next, and the token at the greatest input is never chosen.
    """
    encoder, decoder = GraphWriter(), GraphWriter()
    x = encoder.tensor((1, SIZE))
    encoder.inputs(x)
    encoder.outputs(encoder.op("aten.neg.default", x, encoder.tensor((1, SIZE))))
    following = np.roll(np.eye(SIZE, dtype=np.float32), 1, axis=1)
    tokens, hidden = decoder.tensor((1, 1), "int64"), decoder.tensor((1, SIZE))
    position, dims = decoder.tensor((1,), "int64"), (1, 1, SIZE)
    table = decoder.tensor(following.shape, constant=following)
    rows = decoder.op("aten.embedding.default", table, tokens, decoder.tensor(dims))
    number = decoder.symint()
    zero = decoder.int(0)
    decoder.op("et_vk.select_as_symint.default", position, zero, zero, number)
    out = decoder.op("aten.add.Tensor", rows, hidden, decoder.int(1), decoder.tensor(dims))
    decoder.inputs(tokens, hidden, position)
    decoder.outputs(out)
    return {"encoder": encoder, "text_decoder": decoder}


@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_a_decoder_may_take_the_position_last(device: str) -> None:
    async def run() -> None:
        on: Any = SimulatedDevice() if device == "simulated" else device
        more = {"decoder_start_token_id": 1, "get_eos_id": 6, "get_max_seq_len": 9}
        file = write_pte(methods=encoder_decoder(), constant_methods=more)
        async with await webpte.load(file, device=on) as program:
            model = Seq2Seq(program)
            assert (model.start, model.max_context) == ((1,), 9)
            assert model.eos == {6}
            assert await tokens_of(model.generate(np.zeros((1, SIZE), np.float32))) == [2, 3, 4, 5]
            source = np.zeros((1, SIZE), np.float32)
            source[0, 4], source[0, 5] = 3, -3
            assert await tokens_of(model.generate(source, 3)) == [5, 5, 5]

    wait(run())


def test_a_program_without_a_cache_says_what_to_do() -> None:
    async def run() -> None:
        g = GraphWriter()
        tokens = g.tensor((1, 4), "int64")
        table = g.tensor((SIZE, SIZE), constant=np.eye(SIZE, dtype=np.float32))
        g.inputs(tokens)
        g.outputs(g.op("aten.embedding.default", table, tokens, g.tensor((1, 4, SIZE))))
        async with await webpte.load(write_pte(g), device="numpy") as program:
            with pytest.raises(InputError, match=r"Without a cache .* export it with one"):
                Generator(program)

    wait(run())
