"""Markup of the teach view: the pad, classes with examples, the loss curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from page.shared.html.markup import Html, h, labelled
from page.shared.html.units import plural
from page.shared.outputs.figures import bar, loss_figure
from page.views.teach.lesson import FEWEST, MOST, Kind, Lesson

THINKS, LEARNS, ADDS = "teach-thinks", "teach-learns", "teach-adds"
_PAD_SIDE = 252  # CSS pixels
Act = Callable[[str], str]


def pad_card(lesson: Lesson, side: int, empty: bool, likely: Sequence[float], act: Act) -> Html:
    canvas = h(
        "canvas",
        width=_PAD_SIDE,
        height=_PAD_SIDE,
        class_="pad",
        role="img",
        aria_label="Draw here, with a mouse, a pen or a finger",
        data_act=act("draw"),
        data_rows=side,
        data_columns=side,
    )
    return h(
        "section",
        h("h2", "Draw"),
        h(
            "div",
            h("div", canvas, id="teach-pad", data_keep=""),
            h(
                "div",
                h("div", adds_view(lesson, empty, act), id=ADDS, class_="teach-adds"),
                h("div", thinks_view(lesson, likely), id=THINKS, aria_live="polite"),
                class_="teach-side",
            ),
            class_="teach-pad",
        ),
        class_="card",
    )


def adds_view(lesson: Lesson, empty: bool, act: Act) -> list[Html]:
    buttons = [
        h(
            "button",
            f"This is {kind.name}",
            type="button",
            data_act=act("add"),
            data_kind=at,
            disabled=empty,
        )
        for at, kind in enumerate(lesson.kinds)
    ]
    clear = h("button", "Clear", type="button", class_="quiet", data_act=act("clear"))
    return [*buttons, clear]


def thinks_view(lesson: Lesson, likely: Sequence[float]) -> Html:
    if not likely:
        text = "Draw something to get a prediction."
        if not lesson.losses:
            text = "Draw an example, choose its class, and draw the next one. Then press Learn."
        return h("p", text, class_="note")
    best = max(range(len(likely)), key=likely.__getitem__)
    rows = [
        h(
            "li",
            h("span", kind.name, class_="name"),
            h("span", f"{100 * share:.0f} %", class_="share number"),
            bar(100 * share, 8),
        )
        for kind, share in zip(lesson.kinds, likely, strict=True)
    ]
    sure = f"Prediction: {lesson.kinds[best].name}"
    return h("div", h("h3", sure), h("ul", rows, class_="bars"), class_="teach-thinks")


def kinds_card(lesson: Lesson, busy: bool, act: Act) -> Html:
    more = h(
        "button",
        "Add class",
        type="button",
        data_act=act("more"),
        disabled=busy or len(lesson.kinds) >= MOST,
    )
    kinds = [_kind(at, kind, len(lesson.kinds), busy, act) for at, kind in enumerate(lesson.kinds)]
    return h(
        "section",
        h("div", h("h2", "Examples"), more, class_="card-head"),
        h("ul", kinds, class_="teach-kinds"),
        h(
            "p",
            "Three or four of each class are enough to start. Click an example to remove it.",
            class_="note",
        ),
        class_="card",
    )


def _kind(at: int, kind: Kind, count: int, busy: bool, act: Act) -> Html:
    pictures = [
        h(
            "li",
            h(
                "button",
                h("img", src=one.picture, width="42", height="42", alt=""),
                type="button",
                data_act=act("remove"),
                data_kind=at,
                data_at=index,
                aria_label=f"Remove example {index + 1} of {kind.name}",
                disabled=busy,
            ),
        )
        for index, one in enumerate(kind.examples)
    ]
    drop = h(
        "button",
        "Remove",
        type="button",
        class_="quiet",
        data_act=act("less"),
        data_kind=at,
        aria_label=f"Remove the class {kind.name}",
        disabled=busy or count <= FEWEST,
    )
    name = h(
        "input",
        type="text",
        value=kind.name,
        data_act=act("name"),
        data_kind=at,
        aria_label=f"Name of class {at + 1}",
        maxlength="24",
        autocomplete="off",
    )
    told = h("span", plural(len(kind.examples), "example"), class_="count")
    return h(
        "li",
        h("div", name, told, drop, class_="teach-kind"),
        h("ul", pictures, class_="teach-examples") if pictures else None,
    )


def learn_card(lesson: Lesson, learning: bool, busy: bool, act: Act) -> Html:
    missing = lesson.ready
    go_on = "Learn more" if lesson.losses else "Learn"
    learn = h(
        "button", go_on, type="submit", class_="primary", disabled=busy or bool(missing) or None
    )
    stop = h("button", "Stop", type="button", data_act=act("stop"))
    count = h(
        "input",
        type="number",
        name="steps",
        value=lesson.steps,
        min="1",
        max="2000",
        class_="small",
    )
    steps = labelled("steps", count)
    none = busy or not lesson.losses
    reset = h("button", "Reset", type="button", data_act=act("reset"), disabled=none)
    save = h("button", "Download weights", type="button", data_act=act("save"), disabled=none)
    return h(
        "section",
        h("h2", "Learn"),
        h(
            "form",
            h("div", steps, stop if learning else learn, reset, save, class_="controls"),
            data_act=act("learn"),
        ),
        h("p", missing, class_="note") if missing else None,
        h("div", curve_view(lesson), id=LEARNS),
        class_="card teach-learn",
    )


def curve_view(lesson: Lesson) -> Html:
    """Return the loss curve since the last reset."""
    losses = lesson.losses
    if not losses:
        text = (
            "Each step learns from 32 examples, slightly turned and moved, on the GPU. "
            "The loss says how wrong the network was."
        )
        return h("p", text, class_="note")
    return loss_figure(losses, "teach-curve")
