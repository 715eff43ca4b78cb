"""The preparation of pictures of published models, by the family that their names have."""

from __future__ import annotations

from webpte.tasks.files import CONFIG, ModelFiles
from webpte.tasks.picture_families import PictureFamily, family_of

_NAMES = ("model_name", "modelName", "name", "model")


def preparation_of(files: ModelFiles) -> PictureFamily | None:
    """Return the preparation for a model, by its names; None if they are not known."""
    config = files.table(CONFIG).content
    names = [files.program.name, files.where, *(str(config.get(name, "")) for name in _NAMES)]
    return family_of(names)
