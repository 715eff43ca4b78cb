"""The input's part of the task view, and the frame of its result."""

from __future__ import annotations

from collections.abc import Callable

from page.shared.html.markup import Html, h, labelled
from page.shared.html.units import ms_text, number_text
from page.shared.outputs.figures import plot
from page.views.task.asked import AskedTask
from page.views.task.results import view_of_result
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.sounds import wave
from webpte.tasks.form import PICTURE, SOUND, Field, Slider

RESULT, GIVEN = "task-result", "task-given"
DEVICE = "task"  # in place of an input's number: camera.js and sound.js find its place by it
_FILES = {PICTURE: ("image/*", "Choose a picture"), SOUND: ("audio/*", "Choose a sound")}
Act = Callable[[str], str]


def task_view(asked: AskedTask, act: Act, busy: bool) -> Html:
    """Return the whole panel."""
    return h(
        "div",
        h(
            "section",
            h("h2", title_of(asked.name)),
            _given(asked, act),
            [_field(one, asked, act) for one in asked.form.fields],
            [_slider(one, asked, act) for one in asked.form.sliders],
            id="task-input",
            class_="card task-input",
            data_drop=act("files") if asked.form.kind in _FILES else None,
        ),
        h(
            "section",
            result_view(asked, act, busy),
            id=RESULT,
            class_="card task-result",
            aria_live="off",
        ),
        class_="task",
    )


def title_of(name: str) -> str:
    """Return a task's name as a heading."""
    words = name.replace("2", " to ").replace("-", " ").replace("midi", "MIDI")
    return f"{words[:1].upper()}{words[1:]}"


def _given(asked: AskedTask, act: Act) -> Html | None:
    kind = asked.form.kind
    if kind not in _FILES:
        return None
    accept, what = _FILES[kind]
    chosen = h("input", type="file", accept=accept, data_act=act("files"), aria_label=what)
    device, text = ("camera", "Camera") if kind == PICTURE else ("record", "Record")
    known = {"data_device": device, "data_input": DEVICE, "data_view": "task"}
    return h(
        "div",
        h(
            "div",
            h("label", what, chosen, class_="button"),
            h("button", text, type="button", **known),
            h("button", "Remove points", type="button", data_act=act("clear"))
            if asked.points
            else None,
            class_="controls",
        ),
        h("div", id=f"input-{DEVICE}-device", class_="device", data_keep=""),
        _preview(asked),
        id=GIVEN,
    )


def _preview(asked: AskedTask) -> Html:
    """Return the picture or the sound that is given, or what to do."""
    picture, sound = asked.picture, asked.sound
    if picture is not None:
        height, width = picture.pixels.shape[:2]
        points = "1" if asked.form.points else None
        label = "Click a thing in this picture" if points else f"The picture {picture.name}"
        image = h("img", src=picture.url, width=width, height=height, alt=label)
        told = f"{picture.name}, {width} × {height} pixels"
        if points:
            told += ". Click a thing in it, or add more points."
        return h(
            "figure",
            h("div", image, class_="task-preview", data_points=points,
              data_shape=f"{width / height:.4f}"),
            h("figcaption", told),
        )  # fmt: skip
    if sound is not None:
        told = f"{sound.name}, {sound.seconds:.1f} s"
        return h(
            "figure",
            plot(wave(sound), (600, 80), f"The sound {sound.name}", "task-wave"),
            h("figcaption", told),
        )
    return h("p", asked.missing(), class_="task-empty")


def _field(one: Field, asked: AskedTask, act: Act) -> Html:
    known = {"data_act": act("text"), "data_name": one.name, "autocomplete": "off"}
    text = asked.texts[one.name]
    if one.rows == 1:
        return labelled(one.label, h("input", type="text", value=text, **known), "task-field")
    return labelled(one.label, h("textarea", text, rows=one.rows, **known), "task-field")


def _slider(one: Slider, asked: AskedTask, act: Act) -> Html:
    value = asked.options[one.name]
    field = h(
        "input",
        type="range",
        min=one.low,
        max=one.high,
        step=one.step,
        value=f"{value:g}",
        data_act=act("option"),
        data_name=one.name,
    )
    return labelled(f"{one.label} {number_text(round(value, 3))}", field, "task-field")


def result_view(asked: AskedTask, act: Act, busy: bool) -> list[Html | None]:
    """Return the result with its buttons, or what there is instead."""
    answer = asked.answer
    head = h(
        "div",
        h("h2", "Result"),
        h("span", f"in {ms_text(answer.spent)}", class_="note") if answer is not None else None,
        class_="card-head",
    )
    working = None
    if busy:
        cancel = h("button", "Cancel", type="button", data_act=act("cancel"))
        known = dict(zip(("value", "max"), asked.done, strict=True)) if asked.done else {}
        bar = h("progress", aria_label="Working", **known)
        working = h("div", bar, cancel, class_="task-working")
    if asked.problem:
        again = h("button", "Try again", type="button", data_act=act("again"))
        told = h("p", asked.problem, class_="notice notice-bad", role="alert")
        return [head, told, h("div", again, class_="controls")]
    if answer is None:
        waits = asked.task is None or busy
        text = "" if waits else asked.missing() or "Change something to get a result."
        return [head, working, h("p", text, class_="soft") if text else None]
    way = view_of_result(answer.result)
    return [head, working, way.draw(answer, asked.settings), _saving(answer, act)]


def _saving(answer: TaskAnswer, act: Act) -> Html:
    way = view_of_result(answer.result)
    has_picture = way.png is not None or (way.over and answer.picture is not None)
    return h(
        "div",
        h("button", "Copy text", type="button", data_act=act("copy")) if way.text else None,
        h("button", f"Save {way.file.kind}", type="button", data_act=act("file"))
        if way.file
        else None,
        h("button", "Save JSON", type="button", data_act=act("save")),
        h("button", "Save PNG", type="button", data_act=act("png")) if has_picture else None,
        class_="controls",
    )
