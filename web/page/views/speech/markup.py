"""The speech view's content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from page.shared.html.markup import Html, choice, h, render
from webpte.tasks.sound.speech_recognition import SpeechRecognition
from webpte.tasks.task import Task

Act = Callable[[str], str]


@dataclass(frozen=True)
class TimedLine:
    """Something said, from `start` to `end` seconds; its text may change until it is final."""

    text: str
    start: float
    end: float
    final: bool


def recognizer(
    act: Act, lines: Sequence[TimedLine], language: str, task: Task | None, problem: str
) -> str:
    """Return what turns sounds into text."""
    ready = isinstance(task, SpeechRecognition)
    rate = task.rate if isinstance(task, SpeechRecognition) else 16_000
    listen = h(
        "button",
        "Live mic",
        type="button",
        class_="primary",
        disabled=not ready,
        data_device="listen",
        data_input="speech",
        data_acts=act(""),
        data_rate=rate,
    )
    load = h(
        "label",
        "Load a sound",
        h(
            "input",
            type="file",
            accept="audio/*",
            disabled=not ready,
            data_act=act("file"),
            aria_label="Load a sound to transcribe",
        ),
        class_="button",
    )
    spoken = None
    if isinstance(task, SpeechRecognition) and task.languages:
        names = {"": "as heard"} | {one: one for one in task.languages}
        spoken = choice("language", names, language, data_act=act("language"))
    copy = h("button", "Copy", type="button", data_act=act("copy"))
    clear = h("button", "Clear", type="button", data_act=act("clear"))
    cards = (
        h(
            "section",
            h("h2", "Speech to text"),
            _notice(problem),
            h("div", listen, load, spoken, class_="controls"),
            h("div", id="input-speech-device", data_keep=True),
            class_="card",
        ),
        h(
            "section",
            h("div", h("h2", "Text"), h("div", copy, clear, class_="controls"), class_="card-head"),
            h("div", transcript(lines), id="speech-text", role="log", aria_live="polite"),
            class_="card",
        ),
    )
    return render(cards)


def transcript(lines: Sequence[TimedLine]) -> Html:
    """Return the recognized text, with times."""
    if not lines:
        return h("p", "Your words appear here as you speak.", class_="note")
    rows = [
        h(
            "li",
            h("span", f"{line.start:.1f} – {line.end:.1f} s", class_="number speech-time"),
            h("span", line.text.strip() or "…", class_="" if line.final else "speech-partial"),
        )
        for line in lines
    ]
    return h("ol", rows, class_="speech-lines")


def voice(act: Act, text: str, audio: str, summary: str, task: Task | None, problem: str) -> str:
    """Return what speaks a text."""
    area = h("textarea", text, name="text", rows="4")
    said = None
    if audio:
        said = h(
            "section",
            h("h2", "Speech"),
            h("audio", src=audio, controls=True, aria_label="The spoken text"),
            h("p", summary, class_="note"),
            h("a", "Save as WAV", href=audio, download="speech.wav", class_="button"),
            class_="card speech-said",
        )
    cards = (
        h(
            "section",
            h("h2", "Read aloud"),
            _notice(problem),
            h(
                "form",
                h("label", h("span", "text", class_="label"), area),
                h("button", "Speak", type="submit", class_="primary", disabled=task is None),
                data_act=act("speak"),
                class_="speech-form",
            ),
            class_="card",
        ),
        said,
    )
    return render(cards)


def _notice(problem: str) -> Html | None:
    return h("p", problem, class_="notice notice-warn") if problem else None
