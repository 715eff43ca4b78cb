"""Small figures that several sections of the page have: bars, plots and what is told below them."""

from __future__ import annotations

from collections.abc import Sequence

from page.html.markup import Html, h
from page.outputs.pictures import Picture

_TALL = 60  # of a histogram, in its own units
_LEAST = 1.0  # of that: a bin that holds anything stays visible, however tall its neighbour is


def bar(percent: float, height: int = 4, fill: str = "gpu") -> Html:
    """So much of a rail as wide as there is room; the number itself is told beside it."""
    shape = {"height": height, "rx": height // 2}
    return h(
        "svg",
        h("rect", width="100%", **shape, class_="rail"),
        h("rect", width=f"{percent:.1f}%", **shape, class_=f"fill-{fill}"),
        width="100%",
        height=height,
        aria_hidden="true",
    )


def tile(label: str, value: str, note: object, kind: str | None = None) -> Html:
    """One number, large. `kind` is a class of it."""
    return h(
        "div",
        h("span", label, class_="label"),
        h("strong", value, class_=kind),
        h("span", note, class_="note"),
        class_="tile",
    )


def plot(inside: object, size: tuple[int, int], label: str, kind: str) -> Html:
    """What is drawn in units of its own (across, down), and stretched to the room there is."""
    return h(
        "svg",
        inside,
        viewBox=f"0 0 {size[0]} {size[1]}",
        preserveAspectRatio="none",
        class_=kind,
        role="img",
        aria_label=label,
    )


def caption(*texts: str) -> Html:
    """One text, or several from the left end of what is above to its right."""
    if len(texts) == 1:
        return h("figcaption", *texts)
    return h("figcaption", [h("span", text) for text in texts], class_="ends")


def histogram_figure(counts: Sequence[int], label: str, *captions: str) -> Html:
    """How often values lie where."""
    most = max(counts, default=0) or 1
    heights = [max(_LEAST, _TALL * count / most) if count else 0.0 for count in counts]
    bars = [
        h("rect", x=at, y=f"{_TALL - tall:.2f}", width="0.9", height=f"{tall:.2f}")
        for at, tall in enumerate(heights)
    ]
    drawn = plot(bars, (len(counts), _TALL), label, "histogram")
    return h("figure", drawn, caption(*captions))


def line_figure(
    heights: Sequence[float], size: tuple[int, int], label: str, kind: str, *captions: str
) -> Html:
    """A line through heights of 0 to 1, from the left edge to the right one."""
    width, tall = size
    step = width / max(len(heights) - 1, 1)
    points = " ".join(f"{at * step:.1f},{tall * (1 - up):.1f}" for at, up in enumerate(heights))
    drawn = plot(h("polyline", points=points), size, label, kind)
    return h("figure", drawn, caption(*captions))


def picture_figure(made: Picture, of: str) -> Html:
    """`of` what it is, for who does not see it."""
    return h(
        "figure",
        h(
            "img",
            src=made.url,
            width=made.width,
            height=made.height,
            alt=f"{made.kind} of {of}",
            class_=f"picture {'wide' if made.width >= made.height else 'tall'}",
        ),
        caption(f"{made.kind[0].upper()}{made.kind[1:]}: {made.caption}"),
    )
