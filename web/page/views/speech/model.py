"""The task of a program that hears or speaks, with the files beside it."""

from __future__ import annotations

from collections.abc import Mapping

from page.browser import Browser
from page.session.session import Session
from webpte import MethodInfo
from webpte.errors import InputError, SourceError
from webpte.library import LOCAL
from webpte.runtime.base.info import TensorInfo
from webpte.tasks.files import files_of
from webpte.tasks.sound.speech_recognition import SpeechRecognition
from webpte.tasks.sound.text_to_speech import TextToSpeech
from webpte.tasks.task import Task

Methods = Mapping[str, MethodInfo]


def hears(methods: Methods) -> bool:
    """Tell whether a program turns sounds into tokens: an encoder of features, and a decoder."""
    return "text_decoder" in methods and _first(methods, "encoder") == (3, "float")


def speaks(methods: Methods) -> bool:
    """Tell whether a program turns tokens into samples: an encoder of texts, and a decoder."""
    return _first(methods, "text_encoder") == (2, "int") and _first(methods, "decoder") == (
        3,
        "float",
    )


def _first(methods: Methods, name: str) -> tuple[int, str] | None:
    """Return the rank and the kind of a method's first input."""
    info = methods.get(name)
    given = info.inputs[0] if info is not None and info.inputs else None
    if not isinstance(given, TensorInfo):
        return None
    return len(given.shape), given.dtype.rstrip("0123456789")


async def open_task(session: Session, browser: Browser) -> Task:
    """Open the task of a session's program; raise SourceError or InputError if files are missing.

    They are looked for in the folder of the program's address.
    """
    kind: type[Task] = SpeechRecognition if hears(session.methods) else TextToSpeech
    folder, slash, _ = session.source.address.partition("?")[0].rpartition("/")
    if not slash or session.source.address.startswith(LOCAL):
        raise InputError(
            f"{', '.join(kind.needed)} belong to this model: open it by the address of its folder"
        )
    contents: dict[str, bytes] = {}
    for name in (*kind.needed, *kind.wanted):
        try:
            contents[name] = await browser.fetch_bytes(f"{folder}/{name}")
        except SourceError as error:
            if name in kind.needed:
                raise InputError(
                    f"{name} is not next to {session.source.name}: copy it there from the model's "
                    f"folder ({error})"
                ) from error
    return kind(await files_of(session.program, session.source.name, contents))
