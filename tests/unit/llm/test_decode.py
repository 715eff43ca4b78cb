"""Steps decoded ahead of the host: the same tokens and the same caches as one by one."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import runs
from support.graphs.graphs import wait
from support.harness import extent
from support.page.conversations import cancelled_after, greedy, load, tokens_of
from webpte.engine.call.gpu_tensor import upload
from webpte.engine.dtypes import DTYPES
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import ClosedError, ContextError, DeviceError, ExecutionError, InputError
from webpte.llm import Generation, Generator
from webpte.llm import decode_loop as decode
from webpte.llm.decode_loop import StepPacer

PROMPT, TURN = [5, 9, 33, 7], [81, 402]


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sizes of batches independent of the machine."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)


@pytest.fixture(params=extent.some(["llama_tiny_q4"], "llama_tiny_fp32"))
def path(root: Path, request: pytest.FixtureRequest) -> Path:
    return root / "tests/data/llm" / f"{request.param}.pte"


async def on_device(path: Path) -> tuple[SimulatedDevice, Generator]:
    device = SimulatedDevice()
    return device, Generator(await webpte.load(path, device=device, strict=True))


async def collect(answer: Generation, found: list[int]) -> None:
    async for token in answer:
        found.append(token)


@pytest.mark.parametrize("steps", extent.share([1, 2, 4, 16]))
def test_the_same_tokens_however_many_steps_are_ahead(path: Path, steps: int) -> None:
    async def run() -> None:
        _, generator = await on_device(path)
        answer = generator.generate(PROMPT, 21, steps_ahead=steps)
        found = await tokens_of(answer)
        assert found == await greedy(path, PROMPT, 21)
        if steps == 1:
            assert answer.stats.step_by_step == "steps_ahead is 1"
            assert answer.stats.submissions == 20
        else:
            assert answer.stats.step_by_step is None
            # 1, 2, 4 and so on, and never more than are asked for.
            assert answer.stats.submissions == {2: 11, 4: 7, 16: 6}[steps]
        # The cache is the same, too: the next answer depends on all of it.
        more = await tokens_of(generator.continue_(TURN, 9, steps_ahead=steps))
        assert more == await greedy(path, [*PROMPT, *found, *TURN], 9)

    wait(run())


SAMPLED: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9},
    {"temperature": 1.2, "min_p": 0.02, "repetition_penalty": 1.4},
    {"temperature": 0.0, "repetition_penalty": 1.3},
]


@pytest.mark.parametrize("sampled", extent.some([SAMPLED[2]], *SAMPLED), ids=str)
def test_sampled_tokens_are_those_of_numpy(q4: Path, sampled: dict[str, Any]) -> None:
    """Compare answers for all numbers of steps ahead, also after a broken off answer."""

    async def conversation(generator: Generator, steps: int) -> list[list[int]]:
        said: list[list[int]] = []
        for turn in (PROMPT, TURN):
            answer = generator.continue_(turn, 30, seed=7, steps_ahead=steps, **sampled)
            said.append([await anext(answer) for _ in range(11)])
        last = generator.continue_([3], 6, seed=8, steps_ahead=steps, **sampled)
        said.append(await tokens_of(last))
        return said

    async def run() -> None:
        wanted = await conversation(Generator(await load(q4)), 16)
        assert len({token for said in wanted for token in said}) > 6
        for steps in extent.some([4, 16], 1):
            device, generator = await on_device(q4)
            assert await conversation(generator, steps) == wanted
            if steps > 1:
                assert len(runs(device)) < 28

    wait(run())


@pytest.mark.parametrize("taken", extent.share(range(1, 13), 6))
def test_a_break_at_any_token_of_a_batch_leaves_the_same_cache(q4: Path, taken: int) -> None:
    async def run() -> None:
        _, generator = await on_device(q4)
        found: list[int] = []
        async for token in generator.generate(PROMPT, 40):
            found.append(token)
            if len(found) == taken:
                break
        assert generator.context == (*PROMPT, *found)
        assert generator.pending == (found[-1],)
        more = await tokens_of(generator.continue_(TURN, 5))
        assert more == await greedy(q4, [*PROMPT, *found, *TURN], 5)

    wait(run())


def test_a_stop_token_in_the_middle_of_a_batch(q4: Path) -> None:
    async def run() -> None:
        free = await greedy(q4, PROMPT, 12)
        for stop in extent.share(list(dict.fromkeys(free))):
            _, generator = await on_device(q4)
            found = await tokens_of(generator.generate(PROMPT, 12, stop=[stop]))
            assert found == free[: free.index(stop)]
            assert generator.context == (*PROMPT, *found, stop)
            more = await tokens_of(generator.continue_([], 4))
            assert more == await greedy(q4, [*PROMPT, *found, stop], 4)

    wait(run())


def test_a_full_context_ends_steps_ahead(q4: Path) -> None:
    async def run() -> None:
        _, generator = await on_device(q4)
        prompt = [i % 300 for i in range(110)]
        found = await tokens_of(generator.generate(prompt, 50))
        assert found == await greedy(q4, prompt, 50)
        assert len(found) == 128 - 110 + 1

    wait(run())


def test_what_a_step_costs(q4: Path) -> None:
    """One submission and one crossing for a whole batch; nothing is lowered."""

    async def run() -> None:
        device, generator = await on_device(q4)
        program = generator.program
        await tokens_of(generator.generate(PROMPT, 40))  # plans of all sizes are there
        answer = generator.continue_(TURN, 100)
        for _ in range(1 + 1 + 2 + 4 + 8):
            await anext(answer)
        device.log.clear()
        before = program.stats
        for _ in range(16):
            await anext(answer)
        after = program.stats
        assert [name for name, _ in device.log] == ["run"]
        assert after.lowerings == before.lowerings
        (call,) = runs(device)
        assert len(device.plans[call["plan"]].parts) == 2 * 16
        assert device.plans[call["plan"]].result_bytes == 4 * 16
        assert len(call["payload"]) <= 16 * 1200, "SymInts and position of each step"

    wait(run())


def test_a_foreign_call_in_between_is_noticed_at_once(q4: Path) -> None:
    async def run() -> None:
        _, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 40)
        for _ in range(5):
            await anext(answer)
        await generator.program.forward(np.array([[3]]), np.array([0]))
        with pytest.raises(ContextError, match="called"):
            await anext(answer)
        again = await tokens_of(generator.generate(PROMPT, 6))  # the whole is fed anew
        assert again == await greedy(q4, PROMPT, 6)

    wait(run())


@pytest.mark.parametrize("at_result", [True, False])
def test_a_batch_that_fails_can_be_asked_again(q4: Path, at_result: bool) -> None:
    async def run() -> None:
        device, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 24)
        found = [await anext(answer) for _ in range(4)]
        device.inject(DeviceError, method="run", at_result=at_result)
        with pytest.raises((ExecutionError, DeviceError), match="injected"):
            await collect(answer, found)
        assert generator.context == (*PROMPT, *found)
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 24)

    wait(run())


@pytest.mark.parametrize("plans", ["to be made", "there"])
def test_a_cancelled_step_can_be_asked_again(q4: Path, plans: str) -> None:
    """Cancel a step while its batch is prepared, and while it runs."""

    async def run() -> None:
        device, generator = await on_device(q4)
        if plans == "there":
            await tokens_of(generator.generate(PROMPT, 24))
        device.pauses = lambda: 5
        answer = generator.generate(PROMPT, 24)
        found = [await anext(answer)]
        for turns in range(1, 14):
            found += await cancelled_after(turns, answer)
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 24)

    wait(run())


def test_closing_and_recovering_in_the_middle(q4: Path) -> None:
    async def run() -> None:
        device, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 40)
        for _ in range(4):
            await anext(answer)
        await generator.program.recover()
        with pytest.raises(ContextError, match="recover"):
            await anext(answer)
        answer = generator.generate(PROMPT, 40)
        found = [await anext(answer) for _ in range(4)]
        assert found == await greedy(q4, PROMPT, 4)
        generator.program.close()
        with pytest.raises(ClosedError):
            await anext(answer)
        for _ in range(20):  # steps in flight end, and give back their memory
            await asyncio.sleep(0)
        assert device.counts()["buffers"] == device.counts()["plans"] == 0

    wait(run())


@pytest.mark.parametrize("has_run", [False, True])
def test_a_cancelled_prefill_spoils_no_answer_that_continues(q4: Path, has_run: bool) -> None:
    """A cancelled prefill may have overwritten the token that the next step would take, and rows of
    steps whose tokens nobody has taken yet."""

    async def run() -> None:
        device, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 24)
        found = [await anext(answer) for _ in range(3)]
        ran = len(runs(device))
        device.pauses = lambda: 5
        feeding = asyncio.ensure_future(generator.prefill([7, 7]))
        for _ in range(18 if has_run else 3):
            await asyncio.sleep(0)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        assert feeding.cancelled()
        assert len(runs(device)) == ran + has_run
        found += await tokens_of(answer)
        assert found == await greedy(q4, PROMPT, 24)
        assert answer.stats.step_by_step is None, "it runs ahead again"

    wait(run())


async def forward(program: webpte.Program, place: Any) -> list[int]:
    (logits,) = await program.forward(np.array([TURN]), place)
    return [int(logits.argmax())]


@pytest.mark.parametrize("first", ["generator", "position on the GPU"])
def test_no_call_overtakes_another(q4: Path, first: str) -> None:
    """A call that came first but prepares for long must not write to the cache last."""

    async def run() -> None:
        device, generator = await on_device(q4)
        program = generator.program
        if first == "generator":
            early = asyncio.ensure_future(tokens_of(Generator(program).generate(TURN, 1)))
        else:
            place = await upload(device, np.array([0]), DTYPES["int64"], "a position")
            early = asyncio.ensure_future(forward(program, place))
        await asyncio.sleep(0)
        long = [7 * i % 300 for i in range(80)]  # in two calls, the first without a head
        assert await tokens_of(generator.generate(long, 6)) == await greedy(q4, long, 6)
        await asyncio.gather(early, return_exceptions=True)

    wait(run())


def test_the_context_is_whole_while_a_long_prompt_is_fed(q4: Path) -> None:
    async def run() -> None:
        _, generator = await on_device(q4)
        said = await tokens_of(generator.generate(PROMPT, 2))
        feeding = asyncio.ensure_future(generator.prefill([1] * 90))
        seen = set()
        while not feeding.done():
            seen.add(generator.context)
            await asyncio.sleep(0)
        assert seen == {(*PROMPT, *said)}
        assert generator.context == (*PROMPT, *said, *[1] * 90)

    wait(run())


def test_a_batch_that_fails_when_nobody_waits_any_more_is_no_news(q4: Path) -> None:
    async def run() -> None:
        device, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 24)
        await anext(answer)
        noises: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: noises.append(told))
        device.pauses = lambda: 9
        device.inject(DeviceError, method="run", at_result=True)
        task, ran = asyncio.ensure_future(anext(answer)), len(runs(device))
        while len(runs(device)) == ran and not task.done():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        for _ in range(20):
            await asyncio.sleep(0)
        del answer, generator, task
        gc.collect()  # asyncio reports errors that nobody has seen when they are thrown away
        assert noises == []

    wait(run())


# The pace


def test_few_steps_first_and_never_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BATCH_SECONDS", 0.05)
    pace = StepPacer(16)
    counts = []
    for _ in range(6):
        counts.append(pace.steps)
        pace.submitted()
    assert counts == [1, 2, 4, 8, 16, 16]
    pace.ended(4, 4 * 0.016)
    assert pace.steps == 3
    pace.ended(1, 0.5)
    assert pace.steps == 1


def test_a_pace_is_kept_though_the_way_to_the_host_takes_most_of_a_short_batch() -> None:
    pace, counts = StepPacer(16, 1, 0.004), []
    for _ in range(8):  # 3 ms on the way, and half a millisecond a step: 4 ms is two steps
        counts.append(pace.steps)
        pace.submitted()
        pace.ended(counts[-1], 0.003 + 0.0005 * counts[-1])
    assert counts == [1, 2, 2, 2, 2, 2, 2, 2]
    counts = []
    for _ in range(6):  # the GPU alone: 4 ms is eight steps
        counts.append(pace.steps)
        pace.submitted()
        pace.ended(counts[-1], 0.0005 * counts[-1])
    assert counts[-1] == 8


def test_a_paced_answer_is_the_same_and_has_less_in_flight(
    q4: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[float | None] = []
    made = decode.StepPacer.__init__

    def note(self: StepPacer, most: int, first: int = 1, seconds: float | None = None) -> None:
        noted.append(seconds)
        made(self, most, first, seconds)

    monkeypatch.setattr(decode.StepPacer, "__init__", note)

    async def run() -> None:
        _, generator = await on_device(q4)
        answer = generator.generate(PROMPT, 21, pace=1e-3)
        assert await tokens_of(answer) == await greedy(q4, PROMPT, 21)
        assert noted == [1e-6 / decode.IN_FLIGHT]
        assert answer.stats.submissions == 19  # 1, 2 before any time is known, then 1 each
        for wrong in (0, -1.0, float("nan")):
            with pytest.raises(InputError, match="pace must be"):
                generator.generate(PROMPT, 1, pace=wrong)

    wait(run())
