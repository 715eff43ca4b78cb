"""The renderers of an output, and the choice between them."""

from __future__ import annotations

from page.shared.outputs.renderers import boxes, curve, heat, mask, overview, picture, scores, table
from page.shared.outputs.renderers.base import Choice, OutputContext, Renderer

RENDERERS: tuple[Renderer, ...] = tuple(
    module.RENDERER for module in (overview, scores, picture, mask, boxes, heat, curve, table)
)


def renderers_for(context: OutputContext) -> list[Renderer]:
    return [renderer for renderer in RENDERERS if renderer.fits(context)]


def chosen_renderer(context: OutputContext, choice: Choice) -> Renderer:
    """Return the chosen renderer if it still fits the output; else the best one."""
    renderers = renderers_for(context)
    named = [renderer for renderer in renderers if renderer.name == choice.renderer]
    best = [renderer for renderer in renderers if renderer.best(context)]
    return (*named, *best, *renderers)[0]
