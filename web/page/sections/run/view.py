"""The run bar: its buttons, and the times of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.core.runner import Timing
from page.shared.html.markup import Html, choice, h
from page.shared.html.units import bytes_text, count_text, ms_text
from page.shared.outputs.figures import plot, tile
from webpte import Stats

_SPARK_BARS = 60


def run_card(
    *,
    running: bool,
    can_cancel: bool,
    why_not: str,
    live: bool | None,
    devices: Mapping[str, str],
    device: str,
) -> Html:
    """Return the run bar; `why_not` says why there is nothing to run.

    `live`: every change of an input runs the program; None: not available for this program.
    """
    return h(
        "form",
        h(
            "div",
            # It stays where it is while it runs, and takes the focus: a button in its place
            # would get the second click of a double click.
            h(
                "button",
                h("span", "Run"),
                h("kbd", "Ctrl ⏎", aria_hidden="true"),
                type="submit",
                class_="primary",
                disabled=bool(why_not),
                aria_disabled="true" if running else None,
                aria_keyshortcuts="Control+Enter",
            ),
            _live_switch(live) if live is not None else None,
            choice(
                "device",
                devices,
                device,
                "inline",
                data_act="device",
                disabled=running,
            )
            if len(devices) > 1
            else None,
            # Last, so that nothing moves when a run begins.
            h("button", "Cancel", type="button", data_act="cancel") if can_cancel else None,
            class_="controls",
        ),
        h("p", why_not, class_="soft") if why_not else None,
        data_act="run",
        id="run-form",
    )


def _live_switch(live: bool) -> Html:
    return h(
        "label",
        h("input", type="checkbox", checked=live, data_act="live"),
        h("span", "Auto-run", class_="label"),
        class_="inline",
        title="Run on every change of an input",
    )


def further_work(
    *, running: bool, repeats: int, can_check: bool | None, can_profile: bool | None
) -> Html:
    """Return the buttons for work after a run; None: not available for this program or device.

    They exist before the first run, so that nothing moves when it ends.
    """
    return h(
        "div",
        _work(
            "Compare with NumPy",
            "check",
            "Repeats the run in NumPy and compares every output",
            running,
            can_check,
        ),
        _work(
            "Profile kernels",
            "profile",
            "Times every kernel of one run",
            running,
            can_profile,
        ),
        h(
            "form",
            h(
                "button",
                "Benchmark",
                type="submit",
                disabled=running,
                title="Median of many runs, 10 seconds at most",
            ),
            h(
                "label",
                h(
                    "input",
                    type="number",
                    name="repeats",
                    min="1",
                    max="10000",
                    step="1",
                    value=repeats,
                    class_="small",
                    aria_label="Runs of the benchmark",
                ),
                h("span", "runs", class_="label"),
                class_="inline",
            ),
            data_act="benchmark",
            class_="controls",
        ),
        class_="controls",
    )


def _work(text: str, act: str, title: str, running: bool, can: bool | None) -> Html | None:
    if can is None:
        return None
    return h(
        "button",
        text,
        type="button",
        data_act=act,
        disabled=running or not can,
        title=title if can else f"{title}: run first",
    )


def timing_strip(timing: Timing, running: bool) -> Html:
    if timing.load is None and timing.first is None:
        return Html("")
    done = len(timing.repeats)
    steady = timing.median
    return h(
        "div",
        _tile("Load", timing.load, _stages_text(timing.stages)),
        _tile("First run", timing.first, "one-time work included"),
        _tile("Last run", timing.last, "inputs sent, outputs read back"),
        _tile(
            "Benchmark",
            steady,
            f"median of {count_text(done)}, best {ms_text(min(timing.repeats))}",
        )
        if steady is not None
        else None,
        _spark(timing.repeats),
        h(
            "div",
            h("progress", max=timing.wanted, value=done, aria_label="Runs of the benchmark"),
            h("span", f"{count_text(done)} of {count_text(timing.wanted)}", class_="soft"),
            class_="repeating",
        )
        if running and timing.wanted
        else None,
        class_="tiles",
    )


def timing_brief(timing: Timing) -> str:
    """Return the most telling time: of the benchmark, or of the last run."""
    if timing.median is not None:
        return f"{ms_text(timing.median)}, median of {count_text(len(timing.repeats))}"
    return "" if timing.last is None else f"{ms_text(timing.last)}, last run"


def _stages_text(stages: Mapping[str, float]) -> str:
    told = [f"{stage} {ms_text(spent)}" for stage, spent in stages.items() if spent >= 1]
    return ", ".join(told) or "read, compile, constants"


def _tile(label: str, value: float | None, note: str) -> Html:
    return tile(label, "-" if value is None else ms_text(value), note, None if value else "soft")


def _spark(times: Sequence[float]) -> Html | None:
    """Return one bar per repeat, which shows slow starts and outliers. Few bars are as wide as
    many."""
    if len(times) < 3:
        return None
    shown = times[-_SPARK_BARS:]
    top = max(shown)
    bars = [
        h(
            "rect",
            x=f"{index * 4}",
            y=f"{36 - 36 * value / top:.1f}",
            width="3",
            height=f"{36 * value / top:.1f}",
        )
        for index, value in enumerate(shown)
    ]
    label = f"Times of the last {len(shown)} repeats, up to {ms_text(top)}"
    return plot(bars, (4 * _SPARK_BARS, 36), label, "spark")


def stats_strip(stats: Stats, where: str) -> Html:
    figures = (
        ("runs on", where),
        ("GPU buffers", count_text(stats.buffers)),
        ("GPU memory", bytes_text(stats.buffer_bytes)),
        ("dispatches", count_text(stats.dispatches)),
        ("pipelines", count_text(stats.pipelines)),
        ("prepack transfers", count_text(stats.prepack_transfers)),
        ("calls into JS", count_text(stats.interop_calls)),
        ("executions", count_text(stats.executions)),
    )
    return h(
        "dl",
        [h("div", h("dt", label), h("dd", value)) for label, value in figures],
        class_="stats",
        aria_label="Program statistics",
    )
