"""Preparation of pictures for a program that sees, by the model's files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from page.browser import Browser
from page.core.session import Session
from page.core.task_files import read_beside
from page.shared.persistence.codec import CHAT, Codec
from webpte import Program
from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import InputError, WebpteError
from webpte.llm import Generator
from webpte.llm.picture_session import sees
from webpte.llm.prompt import PictureReader
from webpte.tasks.files import CONFIG, PREPROCESSOR
from webpte.tasks.vision.picture_prompts import PicturePrompts
from webpte.tasks.vision.scaling.tiles import Pictures, pictures_of

FILES = (CONFIG, PREPROCESSOR)  # besides the tokenizer's
_NO_TEMPLATE = (
    "This model sees pictures, but takes them only with its tokenizer and chat template: load both."
)
MakeReader = Callable[[Generator], PictureReader]


@dataclass(frozen=True)
class Sight:
    """The preparation of pictures for a program.

    problem   why they are not, in a sentence; "" if they are, or if the program does not see
    """

    problem: str = ""
    files: tuple[Pictures, Table] | None = None  # how they are prepared, and the model's config

    def fit(self, program: Program, codec: Codec) -> tuple[MakeReader | None, str]:
        """Return the maker of a Chat's readers of pictures, or the reason why there is no maker."""
        if self.files is None:
            return None, self.problem
        if codec.kind != CHAT:
            return None, _NO_TEMPLATE
        pictures, config = self.files

        def make(generator: Generator) -> PictureReader:
            return PicturePrompts(generator, codec.tokenizer, pictures, config, codec.template)

        try:
            make(Generator(program))
        except WebpteError as error:
            return None, _only_text(str(error))
        return make, ""


async def find_sight(session: Session, browser: Browser, given: Mapping[str, Any]) -> Sight:
    """Read the files of a program that sees: `given` by name, else beside the program."""
    if not sees(session.program):
        return Sight()
    try:
        found = {name: await browser.read(file) for name, file in given.items() if name in FILES}
        found |= await read_beside(session, browser, [one for one in FILES if one not in found])
        missing = [name for name in FILES if name not in found]
        if missing:
            are, them = ("are", "them") if len(missing) > 1 else ("is", "it")
            why = f"{' and '.join(missing)} {are} not beside the program: drop {them} here"
            return Sight(_only_text(why))
        config, settings = (
            parse_table(found[name], name, InputError, not_finite=True) for name in FILES
        )
        return Sight("", (pictures_of(settings), config))
    except WebpteError as error:
        return Sight(_only_text(str(error)))


def _only_text(why: str) -> str:
    return f"This model sees pictures, but takes only text now, since {why}."
