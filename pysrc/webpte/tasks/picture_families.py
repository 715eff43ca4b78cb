"""The preparation of pictures, and the labels, of models that are published without either.

software-mansion keeps both in its library, by the family of a model. FAMILIES has a row for each,
by a word that its files' names have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

COCO = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,"
    "baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,"
    "banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,"
    "potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,"
    "oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)
# Numbers that COCO's own list of 91 leaves free.
_FREE = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
VOC = (
    "background,aeroplane,bicycle,bird,boat,bottle,bus,car,cat,chair,cow,diningtable,dog,horse,"
    "motorbike,person,pottedplant,sheep,sofa,train,tvmonitor"
)


def _numbered(names: str) -> tuple[str, ...]:
    """Return COCO's labels by their numbers in its own list, which begins with 1."""
    rest = iter(names.split(","))
    return tuple("N/A" if number in _FREE else next(rest) for number in range(91))


@dataclass(frozen=True)
class PictureFamily:
    """The preparation of pictures for a family of models.

    words       a word of its names, without spaces and lines
    task        the task of its models
    others      words in the names of models for other tasks
    letterbox   whether pictures keep their proportions, between black bars; else they are stretched
    normalized  whether ImageNet's mean is subtracted, and its deviation divided by
    labels      the names of its classes
    overlap     of boxes, above which only the likelier stays
    """

    words: tuple[str, ...]
    task: str
    letterbox: bool = False
    normalized: bool = False
    labels: tuple[str, ...] = ()
    overlap: float = 0.55
    others: tuple[str, ...] = ()

    def settings(self, height: int, width: int) -> dict[str, Any]:
        """Return the settings, as preprocessor_config.json has them, for a size of pictures."""
        mean, std = (_MEAN, _STD) if self.normalized else ([0, 0, 0], [1, 1, 1])
        return {
            "image_processor_type": "Letterbox" if self.letterbox else "Stretch",
            "size": {"height": height, "width": width},
            "image_mean": mean,
            "image_std": std,
        }


_BOXES, _REGIONS = "object-detection", "image-segmentation"
FAMILIES = (
    PictureFamily(
        ("yolo26",),
        _BOXES,
        letterbox=True,
        labels=tuple(COCO.split(",")),
        overlap=0.7,
        others=("seg", "pose"),
    ),
    PictureFamily(("rfdetr",), _BOXES, normalized=True, labels=_numbered(COCO), others=("seg",)),
    PictureFamily(("ssdlite",), _BOXES, labels=_numbered(COCO)),
    PictureFamily(
        ("lraspp", "deeplab", "fcnresnet"), _REGIONS, normalized=True, labels=tuple(VOC.split(","))
    ),
    PictureFamily(("selfiesegmentation",), _REGIONS, labels=("background", "person")),
    PictureFamily(("efficientnet",), "image-classification"),
    PictureFamily(("styletransfer",), "image-to-image"),
)


def family_of(names: Iterable[str]) -> PictureFamily | None:
    """Return the first family of which a name has a word, or None."""
    joined = " ".join(re.sub("[^a-z0-9]", "", name.lower()) for name in names)
    return next((one for one in FAMILIES if any(word in joined for word in one.words)), None)


def task_by_names(names: Collection[str]) -> str:
    """Return the task of the family that names belong to; "" if they belong to none."""
    family = family_of(names)
    words = {word for name in names for word in re.split("[^a-z]+", name.lower())}
    return "" if family is None or words & set(family.others) else family.task
