"""The output cards."""

from __future__ import annotations

from collections.abc import Sequence

from page.shared.html.markup import Html, h, render
from page.shared.html.units import bytes_text, count_text, number_text, plural, shape_text
from page.shared.npy import Array
from page.shared.outputs.renderers.base import Choice, Output, OutputContext
from page.shared.outputs.renderers.choose import chosen_renderer, renderers_for
from page.shared.outputs.tensors import COPY_LIMIT, summarise
from webpte.inspection.report import Difference


def outputs_card(contexts: Sequence[OutputContext], choices: Sequence[Choice]) -> Html:
    """Return the card of all outputs; `choices` says how each is shown."""
    cards = [
        (output_card(one, choice), one.card.hidden)
        for one, choice in zip(contexts, choices, strict=True)
    ]
    all_of_them = h(
        "button",
        "Download all .npz",
        type="button",
        data_act="download-all",
        title="One archive with every output by its name",
    )
    return h(
        "div",
        h(
            "div",
            h(
                "h2",
                "Output" if len(contexts) == 1 else "Outputs",
                h("span", plural(len(contexts), "output"), class_="count")
                if len(contexts) != 1
                else None,
            ),
            all_of_them if len(contexts) > 1 else None,
            class_="card-head",
        ),
        h("div", id="outputs-age", aria_live="polite"),
        h(
            "div",
            [card for card, hidden in cards if not hidden],
            class_="outputs",
        ),
        h(
            "details",
            h("summary", "More outputs"),
            h("div", [card for card, hidden in cards if hidden], class_="outputs"),
            class_="more-controls",
        )
        if any(hidden for _, hidden in cards)
        else None,
        class_="card",
    )


def age_view(reasons: Sequence[str]) -> Html:
    """Return the note that the results are outdated, with the reasons."""
    if not reasons:
        return Html("")
    told = "; ".join(reasons)
    text = f"{told[0].upper()}{told[1:]}. Run again to update."
    return h("p", text, class_="notice notice-warn")


def unknown_state_view(reason: str) -> Html:
    """Return why NumPy cannot follow the program's state, and how it could again."""
    return h(
        "div",
        h(
            "p",
            "This cannot be checked, because NumPy does not know the state of the program: "
            f"{reason}. Press “Start over”, then run and check again.",
        ),
        h("button", "Start over", type="button", data_act="recover"),
        class_="notice notice-warn",
    )


def output_card(context: OutputContext, choice: Choice) -> Html:
    output, array = context.output, context.array
    kind = f"{array.dtype.name} · {shape_text(array.shape)}" if output.is_tensor else "number"
    title, meaning = context.card.name, context.card.meaning
    heading = h("h3", h("span", output.name, class_="name"), h("span", kind, class_="type"))
    simple = _is_simple(context)
    if title:
        small = None if simple else h("span", f"{output.name} · {kind}", class_="type")
        heading = h("h3", h("span", title, class_="title"), small)
    facts = None if simple else _facts(array)
    return h(
        "section",
        h("div", heading, None if simple else _actions(output, array), class_="output-head"),
        h("p", meaning, class_="note") if meaning else None,
        facts if output.is_tensor else h("p", number_text(output.value), class_="big"),
        h("div", id=f"output-{output.index}-compare", aria_live="polite"),
        h(
            "div",
            rendered_view(context, choice),
            id=f"output-{output.index}-rendered",
            class_="rendered",
        )
        if output.is_tensor
        else None,
        class_="output",
        data_drop="compare",
        data_output=output.index,
    )


def _type_text(context: OutputContext) -> str:
    array = context.array
    return f"{context.output.name} · {array.dtype.name} · {shape_text(array.shape)}"


def _is_simple(context: OutputContext) -> bool:
    """Tell whether the meaning of an output is known: then its numbers are folded."""
    card = context.card
    return context.output.is_tensor and bool(card.name or card.meaning or context.labels)


def rendered_view(context: OutputContext, choice: Choice) -> Html:
    """Return the renderers of an output as buttons, and the drawing of the chosen renderer."""
    if not context.array.size:
        return h("p", "This output is empty.", class_="soft")
    chosen = chosen_renderer(context, choice)
    buttons = [
        h(
            "button",
            renderer.title,
            type="button",
            aria_pressed="true" if renderer is chosen else "false",
            data_act="renderer",
            data_output=context.output.index,
            data_renderer=renderer.name,
        )
        for renderer in renderers_for(context, choice)
    ]
    label = f"How to see {context.output.name}"
    tabs = h("div", buttons, class_="tabs renderers", role="group", aria_label=label)
    drawn = chosen.draw(context, choice.settings)
    if not _is_simple(context):
        return render((tabs, drawn))
    numbers = h(
        "details",
        h("summary", "Numbers and files"),
        h("p", _type_text(context), class_="type"),
        tabs,
        _facts(context.array),
        _actions(context.output, context.array),
        class_="more-controls",
    )
    return render((drawn, numbers))


def _actions(output: Output, array: Array) -> Html:
    index = output.index
    return h(
        "div",
        h(
            "button",
            "Copy",
            type="button",
            data_act="copy",
            data_output=index,
            disabled=array.size > COPY_LIMIT,
            title="Copy all values as JSON"
            if array.size <= COPY_LIMIT
            else f"More than {count_text(COPY_LIMIT)} values: download instead",
        ),
        h("button", "Download .npy", type="button", data_act="download", data_output=index),
        h(
            "label",
            "Compare with .npy",
            h(
                "input",
                type="file",
                accept=".npy",
                data_act="compare",
                data_output=index,
                aria_label=f"A .npy file with the expected values of {output.name}",
            ),
            class_="button",
        ),
        class_="controls",
    )


def _facts(array: Array) -> Html:
    summary = summarise(array)

    def fact(label: str, value: object) -> Html:
        return h("div", h("dt", label), h("dd", "-" if value is None else number_text(value)))

    bad = None
    if summary.nan or summary.inf:
        bad = h(
            "p",
            f"{count_text(summary.nan)} NaN and {count_text(summary.inf)} infinite of "
            f"{plural(summary.count, 'value')}; the figures are over the others.",
            class_="notice notice-warn",
        )
    return h(
        "div",
        h(
            "dl",
            fact("min", summary.low),
            fact("max", summary.high),
            fact("mean", summary.mean),
            fact("std", summary.std),
            h("div", h("dt", "values"), h("dd", count_text(summary.count))),
            h("div", h("dt", "size"), h("dd", bytes_text(summary.nbytes))),
            class_="facts",
        ),
        bad,
    )


def comparison_view(result: Difference, against: str) -> Html:
    """Build the verdict on an output that was compared with one from `against`."""
    if result.problem:
        return h(
            "p", f"Not comparable with {against}: the shapes differ, {result.problem}.",
            class_="notice notice-bad",
        )  # fmt: skip
    gaps = (
        f"largest difference {number_text(result.max_abs)} absolute, "
        f"{number_text(result.max_rel)} relative"
    )
    if result.agrees:
        return h("p", f"Matches {against}: {gaps}.", class_="notice notice-good")
    return h(
        "p",
        f"Differs from {against} in {count_text(result.wrong)} of "
        f"{plural(result.count, 'value')}: {gaps}, worst at {list(result.worst)}.",
        class_="notice notice-bad",
    )
