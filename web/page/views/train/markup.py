"""Markup of the view Train: the lines, the loss curve, and two answers side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from page.shared.html.markup import Html, h, labelled
from page.shared.html.tokenizer_note import tokenizer_note
from page.shared.html.units import plural
from page.shared.outputs.figures import loss_figure
from page.views.train.course import EXAMPLE, MOST_STEPS, Course

LEARNS, ANSWERS = "train-learns", "train-answers"
NAMES = ("Before", "After")
Act = Callable[[str], str]
_ABOUT = (
    "One text in each line, or a question and its answer with => in between. The model learns them "
    "as a LoRA, on your GPU. Nothing leaves this tab."
)


def lines_card(course: Course, training: bool, busy: bool, act: Act) -> Html:
    field = h(
        "textarea",
        "\n" + course.text,  # a textarea drops the first line break of its markup
        name="lines",
        data_act=act("typed"),
        rows="8",
        id="train-lines",
        placeholder=EXAMPLE,
        spellcheck="false",
        disabled=busy,
        aria_describedby="train-about",
    )
    train = h(
        "button",
        "Train more" if course.losses else "Train",
        type="submit",
        class_="primary",
        disabled=busy,
    )
    stop = h("button", "Stop", type="button", data_act=act("stop"))
    example = h("button", "Example lines", type="button", data_act=act("example"), disabled=busy)
    upload = h(
        "label",
        "Upload text",
        h("input", type="file", accept=".txt,text/plain", data_act=act("file"), disabled=busy),
        class_="button",
    )
    none = busy or not course.losses
    reset = h("button", "Reset", type="button", data_act=act("reset"), disabled=none)
    return h(
        "section",
        h(
            "div",
            h("h2", "Lines to learn"),
            h("div", example, upload, class_="controls"),
            class_="card-head",
        ),
        h("p", _ABOUT, class_="note", id="train-about"),
        h(
            "form",
            labelled("Lines", field),
            h(
                "div",
                _number("Steps", "steps", course.steps, "1", str(MOST_STEPS), "1", busy),
                _number("Learning rate", "rate", course.rate / 1000, "0", "0.1", "any", busy),
                stop if training else train,
                reset,
                class_="controls",
            ),
            data_act=act("train"),
        ),
        h("div", learns_view(course), id=LEARNS),
        class_="card train-lines",
    )


def _number(
    label: str, name: str, value: float, low: str, high: str, step: str, busy: bool
) -> Html:
    field = h(
        "input",
        type="number",
        name=name,
        value=f"{value:g}",
        min=low,
        max=high,
        step=step,
        class_="small",
        disabled=busy,
    )
    return labelled(label, field)


def learns_view(course: Course, done: int | None = None) -> Html | None:
    """Return the loss curve since the last reset; `done`: steps of the training that goes on."""
    if not course.losses:
        return None
    progress = None
    if done is not None:
        progress = h(
            "progress", value=str(done), max=str(course.steps), aria_label="Steps of the training"
        )
    return h("div", progress, loss_figure(course.losses, "train-curve"))


def ask_card(course: Course, busy: bool, answering: bool, act: Act) -> Html:
    if course.lora is None:
        note = "Train first, then compare answers before and after."
        return h("section", h("h2", "Try it"), h("p", note, class_="note"), class_="card")
    field = h(
        "input",
        type="text",
        name="question",
        value=course.question,
        id="train-question",
        autocomplete="off",
        maxlength="500",
        disabled=busy,
    )
    ask = h("button", "Ask both", type="submit", class_="primary", disabled=busy)
    stop = h("button", "Stop", type="button", data_act=act("stop"))
    save = h("button", "Download LoRA", type="button", data_act=act("save"), disabled=busy)
    return h(
        "section",
        h("div", h("h2", "Try it"), save, class_="card-head"),
        h(
            "form",
            h("div", labelled("Question", field), stop if answering else ask, class_="controls"),
            data_act=act("ask"),
        ),
        h("div", answers_view(course.answers), id=ANSWERS, aria_live="polite"),
        class_="card train-ask",
    )


def answers_view(answers: Sequence[str]) -> Html | None:
    if not any(answers):
        return None
    columns = [
        h("div", h("h3", name), h("p", answer or "…"), class_="train-answer")
        for name, answer in zip(NAMES, answers, strict=True)
    ]
    return h("div", columns, class_="train-answers")


def needs_tokenizer(problem: str, act: Act) -> Html:
    """Return what stands in place of the lines without a tokenizer, for the reason `problem`."""
    note = tokenizer_note(problem, act("tokenizer"))
    return h("section", h("h2", "Lines to learn"), note, class_="card train-lines")


def told_after(course: Course, rate: float) -> str:
    last = course.losses[-5:]
    return (
        f"Trained: loss {sum(last) / len(last):.3f} after {plural(len(course.losses), 'step')}, "
        f"{rate:.1f} steps a second"
    )
