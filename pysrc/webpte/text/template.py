"""Chat templates: Jinja programs that turn messages into one prompt, as Hugging Face's files have.

They come with models, from anywhere, so they run in Jinja's sandbox, which lets them change
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import ModuleType
from typing import Any, TypeAlias

from webpte.errors import ChatTemplateError
from webpte.runtime.libraries import python_package

Message: TypeAlias = Mapping[str, Any]  # with `role` and `content`, and whatever a template takes

_EXTENSIONS = ("jinja2.ext.loopcontrols", "jinja2.ext.do")


class ChatTemplate:
    """One template, ready to render."""

    def __init__(self, source: str, render: Callable[..., str], special: Mapping[str, str]) -> None:
        """Use `load`."""
        self.source = source
        self._render = render
        self._special = dict(special)

    @classmethod
    async def load(cls, source: str, special: Mapping[str, str] | None = None) -> ChatTemplate:
        """`special` are tokens that the template may use by name: `bos_token`, `eos_token`, ..."""
        jinja2 = await python_package("jinja2", "text")
        for module in ("jinja2.ext", "jinja2.sandbox"):
            await python_package(module, "text")
        try:
            template = _environment(jinja2).from_string(source)
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f" in line {line}" if line else ""
            raise ChatTemplateError(f"the chat template is wrong{where}: {error}") from error
        return cls(source, template.render, special or {})

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **more: Any
    ) -> str:
        """The prompt. `more` is what the template takes besides: `tools`, `enable_thinking`, ...

        add_generation_prompt  end with the beginning of the assistant's answer
        """
        given = {**self._special, **more, "add_generation_prompt": add_generation_prompt}
        try:
            return self._render(messages=[dict(message) for message in messages], **given)
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is a program: anything may go wrong in it
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise ChatTemplateError(
                f"the chat template failed for messages by {roles or 'nobody'}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _environment(jinja2: ModuleType) -> Any:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[*_EXTENSIONS, _generation_tag(jinja2)],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


def _refuse(message: str) -> None:
    raise ChatTemplateError(f"the chat template refuses these messages: {message}")


def _tojson(value: Any, indent: int | None = None, ensure_ascii: bool = False, **more: Any) -> str:
    """Plain JSON: Jinja's own filter escapes what matters in HTML."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **more)


def _generation_tag(jinja2: ModuleType) -> Any:
    """`{% generation %}`, with which templates mark what the assistant says, for training."""

    class GenerationTag(jinja2.ext.Extension):  # type: ignore[name-defined, misc]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return GenerationTag
