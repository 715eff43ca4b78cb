"""The renderers of an output, and the choice between them."""

from __future__ import annotations

from page.shared.outputs.renderers import boxes, curve, heat, mask, overview, picture, scores, table
from page.shared.outputs.renderers.base import Choice, OutputContext, Renderer

RENDERERS: tuple[Renderer, ...] = tuple(
    module.RENDERER for module in (overview, scores, picture, mask, boxes, heat, curve, table)
)


def renderers_for(context: OutputContext, choice: Choice) -> list[Renderer]:
    """Return the renderers that fit an output."""
    return [one for one, _ in _fitting(context, choice)]


def chosen_renderer(context: OutputContext, choice: Choice) -> Renderer:
    """Return the chosen renderer if it still fits the output; else the best one."""
    fitting = _fitting(context, choice)
    named = [one for one, _ in fitting if one.name == choice.renderer]
    best = [one for one, is_best in fitting if is_best]
    return (*named, *best, *(one for one, _ in fitting))[0]


def _fitting(context: OutputContext, choice: Choice) -> list[tuple[Renderer, bool]]:
    """Return renderers that fit; the form of an output, which most depend on, seldom changes."""
    form = context.form
    if choice.fitting is None or choice.fitting[0] != form:
        fitting = [one for one in RENDERERS if one.by_value or one.fits(context)]
        choice.fitting = form, [(one, one.best(context)) for one in fitting]
    known = choice.fitting[1]
    return [(one, best) for one, best in known if not one.by_value or one.fits(context)]
