"""Which looks an output has, and which is in front."""

from __future__ import annotations

from page.outputs.renderers import boxes, curve, heat, mask, overview, picture, scores, table
from page.outputs.renderers.base import Choice, OutputContext, Renderer

LOOKS: tuple[Renderer, ...] = tuple(
    module.LOOK for module in (overview, scores, picture, mask, boxes, heat, curve, table)
)


def looks_for(sight: OutputContext) -> list[Renderer]:
    return [look for look in LOOKS if look.fits(sight)]


def chosen_look(sight: OutputContext, choice: Choice) -> Renderer:
    """As someone chose, if the output still can be seen so; else what is best for it."""
    looks = looks_for(sight)
    named = [look for look in looks if look.name == choice.look]
    best = [look for look in looks if look.best(sight)]
    return (*named, *best, *looks)[0]
