"""The open program in the header: its title, its methods, the ways to share and close it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from page.shared.html.markup import Html, choice, h, render
from webpte import MethodInfo


def program_bar(
    name: str,
    title: str,
    methods: Mapping[str, MethodInfo],
    method: str,
    can_share: bool = False,
) -> Html:
    """Return the title of the open program, the choice of its method, and the ways to share and
    close it."""
    runnable = [info.name for info in methods.values() if not info.is_constant]
    return render(
        (
            h("h2", title or name, title=name),
            h(
                "button",
                "✕",
                type="button",
                class_="quiet",
                data_act="close",
                title=f"Close {name}",
                aria_label=f"Close {name}",
            ),
            _method_choice(runnable, method),
            _share() if can_share else None,
        )
    )


def _share() -> Html:
    """Return the button that unfolds the ways to share the program."""
    ways = {
        "share": ("Copy link", "Opens this program with these inputs."),
        "share-frame": ("Copy embed code", "An iframe for your own page: input and answer."),
    }
    rows = [
        h("p", h("button", text, type="button", data_act=act, popovertarget="share-box",
                 popovertargetaction="hide"), h("span", note, class_="note"))
        for act, (text, note) in ways.items()
    ]  # fmt: skip
    return render(
        (
            h("button", "Share", type="button", class_="quiet share-button",
              popovertarget="share-box"),
            h("div", rows, id="share-box", class_="share-box", popover=True, role="dialog",
              aria_label="Share"),
        )
    )  # fmt: skip


def _method_choice(names: Sequence[str], chosen: str) -> Html | None:
    if len(names) < 2:
        return None
    options = {name: name for name in names}
    return choice("method", options, chosen, "inline", data_act="method")
