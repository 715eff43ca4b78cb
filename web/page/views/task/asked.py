"""The inputs of a task, its options and its last answer, of one open program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from page.views.task.results.answer import GivenPicture, GivenSound, TaskAnswer
from webpte.tasks import Task
from webpte.tasks.form import PICTURE, SOUND, TEXT, TaskForm


@dataclass(eq=False)
class AskedTask:
    """The inputs, options and the last answer of a task; `form` is declared by the task."""

    name: str
    form: TaskForm
    task: Task | None = None
    problem: str = ""  # why there is no task
    picture: GivenPicture | None = None
    sound: GivenSound | None = None
    texts: dict[str, str] = field(default_factory=dict)
    options: dict[str, float] = field(default_factory=dict)
    points: list[tuple[float, float]] = field(default_factory=list)  # x and y, parts of the picture
    answer: TaskAnswer | None = None
    settings: dict[str, str] = field(default_factory=dict)  # of how the answer is shown
    camera: bool = False  # it is open, and sends pictures
    done: tuple[int, int] | None = None  # steps of the answer under way, and all of them
    seen: Any = None  # the picture that the encoder of a prompted model has read
    seen_of: GivenPicture | None = None

    def __post_init__(self) -> None:
        self.texts = {one.name: one.start for one in self.form.fields}
        self.options = {one.name: one.start for one in self.form.sliders}

    def missing(self) -> str:
        """Return the name of an input that is still missing, or ""."""
        if self.form.kind == PICTURE and self.picture is None:
            return "Choose a picture, drop one here, paste one, or open the camera."
        if self.form.kind == SOUND and self.sound is None:
            return "Choose a sound, drop one here, or record one."
        for one in self.form.fields:
            if not one.value(self.texts[one.name].strip()):
                return f"Write something into “{one.label}”."
        if self.form.points and not self.points:
            return "Click a thing in the picture."
        return ""

    async def run(self, progress: Callable[[int, int], None]) -> Any:
        """Call the task with the inputs, and return its result.

        progress   called with the steps that are done, and all steps, by tasks that tell them
        """
        assert self.task is not None
        places = [] if self.form.kind == TEXT else [await self._main()]
        names: dict[str, Any] = {}
        for one in self.form.fields:
            value = one.value(self.texts[one.name].strip())
            if one.named:
                names[one.name] = value
            else:
                places.append(value)
        if self.form.points:
            assert self.picture is not None
            height, width = self.picture.pixels.shape[:2]
            names["points"] = [(x * width, y * height) for x, y in self.points]
        if self.form.progress:
            names["progress"] = progress
        return await self.task(*places, **names, **self.options, **self.form.fixed)

    async def _main(self) -> Any:
        """Return the picture or the sound as the task takes it."""
        if self.form.kind == SOUND:
            assert self.sound is not None
            return {"array": self.sound.samples, "sampling_rate": self.sound.rate}
        assert self.picture is not None
        if not self.form.points:
            return self.picture.pixels
        if self.seen_of is not self.picture:
            self.close()
            look: Any = getattr(self.task, "look")  # noqa: B009 - only prompted models have it
            self.seen, self.seen_of = await look(self.picture.pixels), self.picture
        return self.seen

    def close(self) -> None:
        """Free the task's memory on the GPU."""
        if self.seen is not None:
            self.seen.close()
        self.seen, self.seen_of = None, None
