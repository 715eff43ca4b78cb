"""Times tasks, exact search, decoders and several chats, in a page that runs this as its script.

The page has `js.query` with `what`, names of parts such as "speech,pictures,search,chats", and
perhaps settings of these; `js.say` shows progress. The value of the last line is a JSON text. See
`page.html` for the page, and `python -m bench.task_bench` for the models and for the same figures
on this machine's GPU.

    speech     `speech`: the folder of a Whisper on the page's own server; `seconds` of sounds
               ("30,120"), `tokens` of a window (100)
    pictures   `pictures`: the folder of a model that answers questions about pictures; `tokens` of
               an answer (100), `height` and `width` of the picture
    search     `passages` (100000) and their `width_of` vectors (384)
    chats      `chat`: a program that is a language model; `counts` of answers at once ("1,8,32"),
               `chat_tokens` of an answer (200), `prompt` tokens before it (128)
    decoders   `programs`: language models, by comma; each decodes `chat_tokens` alone, after as
               many tokens as `at` says ("128,512,2047"), with a cache in `kv_cache`;
               `bench.decoder_bench` writes some

Weights may be random: every answer has as many tokens as requested, and Whisper finds one segment
in each window. Times are medians of `runs` (5) after a first one, which makes plans.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import webpte
from webpte.engine.files.json_reader import Table
from webpte.engine.gpu.devices import shared_device
from webpte.errors import InputError, WebpteError
from webpte.llm import Generator, Scheduler
from webpte.llm.generation import Generation, ignore_stops
from webpte.tasks.files import PREPROCESSOR
from webpte.tasks.retrieval.vectors import GpuVectors, HostVectors
from webpte.tasks.sound.speech.timestamps import TimestampRule
from webpte.tasks.vision.scaling.tiles import pictures_of

Figures = dict[str, Any]
QUESTION = "What is in the picture?"
SEARCHES = 23  # the first three are not counted


class Bench:
    """The settings of a run: where models are, and the requested parts."""

    def __init__(
        self, base: str, asked: Mapping[str, str], say: Callable[[str], Any], device: str
    ) -> None:
        self.base, self.asked, self.say, self.device = base, asked, say, device

    def number(self, name: str, default: int) -> int:
        return int(self.asked.get(name, default))

    def numbers(self, name: str, default: str) -> list[int]:
        return [int(one) for one in self.asked.get(name, default).split(",")]

    def address(self, name: str, default: str) -> str:
        return f"{self.base}/{self.asked.get(name, default)}"

    @property
    def runs(self) -> int:
        return self.number("runs", 5)


class Recorder:
    """Takes the place of a model's `generate`: keeps answers, which then never stop early."""

    def __init__(self, model: Any) -> None:
        self.answers: list[Generation] = []
        self.begun: list[float] = []
        self._generate = model.generate
        model.generate = self

    def __call__(self, *given: Any, **options: Any) -> Generation:
        self.begun.append(perf_counter())
        answer: Generation = self._generate(*given, **options)
        ignore_stops(answer)
        self.answers.append(answer)
        return answer

    def clear(self) -> None:
        self.answers.clear()
        self.begun.clear()


class OneSegment(TimestampRule):
    """Whisper's rule with text alone after the first time, in spite of the logits."""

    def __call__(self, history: Sequence[int], logits: np.ndarray) -> np.ndarray:
        if len(history) > self.prompt:
            logits = logits.copy()
            logits[self.first :] = -1e9
        return super().__call__(history, logits)


def milliseconds(seconds: Sequence[float]) -> float:
    return round(1000 * median(seconds), 2)


async def gpu_milliseconds(program: webpte.Program, method: str, given: np.ndarray) -> Any:
    """Return the time of a method's kernels by the GPU's clock, or why there is none."""
    try:
        await program.profile(method, given)
        rows = await program.profile(method, given)
    except WebpteError as error:
        return str(error)
    return {"ms": round(sum(us for _, us in rows) / 1000, 3), "kernels": len(rows)}


async def speech(bench: Bench) -> Figures:
    """Return how many seconds of sound are understood in a second, and where the time goes."""
    started = perf_counter()
    folder = bench.address("speech", "whisper")
    async with await webpte.tasks.open(
        "automatic-speech-recognition", folder, device=bench.device
    ) as opened:
        task: Any = opened
        found: Figures = {"load s": round(perf_counter() - started, 2)}
        whisper, count = task._model, bench.number("tokens", 100)
        recorder = Recorder(whisper._model)
        end = min(whisper._model.eos)
        whisper._rule = lambda prompt: OneSegment(prompt, whisper._no_times + 1, end)
        for seconds in bench.numbers("seconds", "30,120"):
            sound = np.random.default_rng(seconds).standard_normal(seconds * task.rate) * 0.05
            sound = sound.astype(np.float32)
            found[f"{seconds} s"] = await _understood(bench, task, recorder, sound, count)
            features = partial(_later, whisper.features.features, sound)
            found[f"{seconds} s"]["features ms"] = milliseconds(await _timed(bench.runs, features))
        window = whisper._window(whisper.features.features(sound), 0)
        program = task.program

        async def encode() -> None:
            outputs = await program.run("encoder", window, output="gpu")
            await outputs[-1].numpy()  # of one layer: the others are there by then
            for tensor in outputs:
                tensor.destroy()

        found["encoder, one output read, ms"] = milliseconds(await _timed(bench.runs, encode))
        found["encoder's kernels"] = await gpu_milliseconds(program, "encoder", window)
        return found


async def _understood(
    bench: Bench, task: Any, recorder: Recorder, sound: np.ndarray, count: int
) -> Figures:
    """Time the transcription of a sound; its parts come from the run in the middle."""
    runs = []
    for run in range(bench.runs + 1):
        bench.say(f"speech, {sound.size // task.rate} s of sound, run {run}")
        recorder.clear()
        started = perf_counter()
        await task(sound, language="en", max_new_tokens=count)
        taken, stats = perf_counter() - started, [one.stats for one in recorder.answers]
        runs.append(
            {
                "s": round(taken, 4),
                "times real time": round(sound.size / task.rate / taken, 1),
                "windows": len(stats),
                "tokens": sum(len(one.tokens) for one in recorder.answers),
                "encoder and first token, ms a window": milliseconds(
                    [one.prefill_seconds for one in stats]
                ),
                "tok/s": round(
                    sum(one.decode_tokens for one in stats)
                    / max(1e-9, sum(one.decode_seconds for one in stats)),
                    1,
                ),
                "one by one": stats[0].step_by_step,
            }
        )
    return sorted(runs[1:], key=lambda one: one["s"])[(len(runs) - 1) // 2]


async def _timed(runs: int, call: Callable[[], Awaitable[Any]]) -> list[float]:
    times = []
    for _ in range(runs + 1):
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return times[1:]


async def _later(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


async def pictures(bench: Bench) -> Figures:
    """Return the time to the first token about a picture, and the tokens per second after it."""
    started = perf_counter()
    folder = bench.address("pictures", "smolvlm")
    async with await webpte.tasks.open("image-text-to-text", folder, device=bench.device) as opened:
        task: Any = opened
        found: Figures = {"load s": round(perf_counter() - started, 2)}
        recorder = Recorder(task._generator)
        settings = task.files.table(PREPROCESSOR)
        for name, splits in (("whole", False), ("tiles", True)):
            content = {**settings.content, "do_image_splitting": splits}
            table = Table(content, settings.name, InputError)
            task._prompts._pictures = pictures_of(table)
            runs = []
            for run in range(bench.runs + 1):
                bench.say(f"pictures, {name}, run {run}")
                runs.append(await _answered(bench, task, recorder, run))
            found[name] = _medians(runs[1:])
        shape = task.program.methods["vision_encoder"].inputs[0].shape
        given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        found["a tile's kernels"] = await gpu_milliseconds(task.program, "vision_encoder", given)
        return found


async def _answered(bench: Bench, task: Any, recorder: Recorder, seed: int) -> Figures:
    """Time one answer about a picture that was not seen before."""
    size = bench.number("height", 768), bench.number("width", 1024), 3
    picture = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
    count = bench.number("tokens", 100)
    recorder.clear()
    started = perf_counter()
    async for _ in task.stream(picture, text=QUESTION, max_new_tokens=count + 1):
        pass
    ended = perf_counter()
    (answer,), (begun,) = recorder.answers, recorder.begun
    first = begun + answer.stats.prefill_seconds
    return {
        "first token ms": round(1000 * (first - started), 2),
        "of that before the prompt is computed": round(1000 * (begun - started), 2),
        "prompt": answer.stats.prefill_tokens + answer.stats.reused_tokens,
        "reused": answer.stats.reused_tokens,
        "tokens": len(answer.tokens),
        "tok/s": round((len(answer.tokens) - 1) / (ended - first), 1),
    }


def _medians(rows: Sequence[Figures]) -> Figures:
    return {key: median(row[key] for row in rows) for key in rows[0]}


async def search(bench: Bench) -> Figures:
    """Return the times of exact searches with their read-back, which NumPy's results check."""
    passages, width = bench.number("passages", 100_000), bench.number("width_of", 384)
    rows = np.random.default_rng(0).standard_normal((passages, width), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    device = await shared_device(bench.device)
    gpu, host = GpuVectors(device, width), HostVectors(width)
    found: Figures = {"passages": passages, "width": width}
    try:
        started = perf_counter()
        await gpu.append(rows)
        gpu.commit()
        found["add ms"] = milliseconds([perf_counter() - started])
        await host.append(rows)
        host.commit()
        for count in (1, 10, 64):
            bench.say(f"search, {count} nearest")
            times = []
            for query in rows[:SEARCHES]:
                started = perf_counter()
                scores, _ = await gpu.search(query, count)
                times.append(perf_counter() - started)
            started = perf_counter()
            wanted, _ = await host.search(query, count)
            found[f"{count} nearest"] = {
                "ms": milliseconds(times[3:]),
                "best ms": milliseconds([min(times)]),
                "NumPy ms": milliseconds([perf_counter() - started]),
                "error": float(np.abs(scores - wanted).max()),
            }
    finally:
        gpu.close()
    return found


async def chats(bench: Bench) -> Figures:
    """Return the tokens per second of one answer, and of several at once by a scheduler."""
    found: Figures = {}
    count, length = bench.number("chat_tokens", 200), bench.number("prompt", 128)
    source = bench.address("chat", "chat.pte")
    async with await webpte.load(source, device=bench.device) as program:
        generator, random = Generator(program), np.random.default_rng(0)
        most = max(counts := bench.numbers("counts", "1,8,32"))
        # Another prompt for each answer: a slot keeps the prompt that it has read.
        prompts = random.integers(0, generator.vocabulary, (3, most, length)).tolist()
        found["alone"] = {"tok/s": round(await alone(generator, prompts[0][0], count), 1)}
        for slots in counts:
            context = length + count + 8
            async with Scheduler(program, slots=slots, max_context=context) as scheduler:
                for run, given in enumerate(prompts):
                    bench.say(f"chats, {slots} at once, run {run}")
                    rate, first = await together(scheduler, given[:slots], count)
                found[f"{slots} at once"] = {
                    "tok/s": round(rate, 1),
                    "first token ms": milliseconds([first]),
                }
    return found


async def decoders(bench: Bench) -> Figures:
    """Return the tokens per second of each program, by the tokens before an answer."""
    found: Figures = {}
    cache = bench.asked.get("kv_cache")
    for name in bench.asked["programs"].split(","):
        path = f"{bench.base}/{name}"
        async with await webpte.llm.load(path, device=bench.device, kv_cache=cache) as program:
            generator, random = Generator(program), np.random.default_rng(0)
            rates = found[name] = {}
            for length in bench.numbers("at", "128,512,2047"):
                bench.say(f"{name} at {length}")
                prompt = random.integers(0, generator.vocabulary, length).tolist()
                rate = await alone(generator, prompt, bench.number("chat_tokens", 200))
                rates[f"{length}, tok/s"] = round(rate, 1)
    return found


async def alone(generator: Generator, prompt: list[int], count: int) -> float:
    """Return the tokens per second of one answer, of its second half."""
    found = []
    for _ in range(3):  # the first makes plans
        answer = generator.generate(prompt, count)
        ignore_stops(answer)
        arrivals = [perf_counter() async for _ in answer]
        half = arrivals[len(arrivals) // 2 :]
        found.append((len(half) - 1) / (half[-1] - half[0]))
    return max(found[1:])


async def together(
    scheduler: Scheduler, prompts: list[list[int]], count: int
) -> tuple[float, float]:
    """Return the tokens per second of answers in all, and the first tokens' median.

    All begin together; only the steps in which all of them decode are counted.
    """
    arrivals: list[list[float]] = []

    async def take(prompt: list[int]) -> float:
        started, times = perf_counter(), list[float]()
        arrivals.append(times)
        answer = scheduler.submit(prompt, count)
        answer._sequence._stop = frozenset()
        async for _ in answer:
            times.append(perf_counter())
        return times[0] - started

    firsts = await asyncio.gather(*map(take, prompts))
    begin = max(times[len(times) // 4] for times in arrivals)
    end = min(times[-1] for times in arrivals)
    decoded = sum(sum(begin < at <= end for at in times) for times in arrivals)
    return decoded / (end - begin), median(firsts)


PARTS: dict[str, Callable[[Bench], Awaitable[Figures]]] = {
    "speech": speech,
    "pictures": pictures,
    "search": search,
    "chats": chats,
    "decoders": decoders,
}


async def measure(bench: Bench) -> str:
    """Return the figures of all requested parts; if a part fails, the others remain."""
    info = (await shared_device(bench.device)).info
    found: Figures = {"device": info.description, "features": list(info.features)}
    for name in bench.asked.get("what", "speech,pictures,search").split(","):
        try:
            found[name] = await PARTS[name](bench)
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        bench.say(json.dumps({name: found[name]}))
    return json.dumps(found)


def start() -> asyncio.Future[str]:
    """Start the measurements in the page's query."""
    import js  # of Pyodide

    asked = {str(key): str(value) for key, value in js.query.to_py().items()}
    return asyncio.ensure_future(measure(Bench(str(js.location.origin), asked, js.say, "webgpu")))


start() if "pyodide" in sys.modules else None  # the page awaits the script's value
