"""Chat templates: Jinja programs in Hugging Face's files that turn messages into a prompt.

Templates come with models, from any source, so they run in an immutable sandbox, with a budget of
steps and text (see `sandbox`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from types import ModuleType
from typing import Any, TypeAlias

from webpte.engine.open.libraries import python_package
from webpte.errors import ChatTemplateError
from webpte.llm.text.budget import Budget

Message: TypeAlias = Mapping[str, Any]  # `role`, `content`, and any other keys of a template

MAX_SOURCE = 1 << 16  # characters; the templates of real models have up to 20,000

_EXTENSIONS = ("jinja2.ext.loopcontrols", "jinja2.ext.do")
_NAME = "the chat template"
_INDENT = 64  # levels of JSON for which an indent is counted in advance


class ChatTemplate:
    """A compiled chat template."""

    def __init__(
        self,
        source: str,
        render: Callable[..., str],
        special: Mapping[str, str],
        budget: Budget | None = None,
    ) -> None:
        """Use `load`."""
        self.source = source
        self._render = render
        self._special = dict(special)
        self._budget = budget or Budget(_NAME)
        self._rendering = Lock()

    @classmethod
    async def load(
        cls, source: str, special: Mapping[str, str] | None = None, *, name: str = _NAME
    ) -> ChatTemplate:
        """Compile a template.

        special  tokens that the template may use by name: `bos_token`, `eos_token`, ...
        name     its name in error messages: "the chat template of tokenizer_config.json"
        """
        jinja2 = await python_package("jinja2", "text")
        for module in ("jinja2.ext", "jinja2.sandbox"):
            await python_package(module, "text")
        if not isinstance(source, str):
            raise ChatTemplateError(f"{name} is not a text, but a {type(source).__name__}")
        if len(source) > MAX_SOURCE:
            raise ChatTemplateError(
                f"{name} has {len(source):,} characters; at most {MAX_SOURCE:,} are allowed"
            )
        budget = Budget(name)
        try:
            template = _environment(jinja2, budget).from_string(source)
        except ChatTemplateError:
            raise
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f" in line {line}" if line else ""
            raise ChatTemplateError(f"{name} is wrong{where}: {error}") from error
        except Exception as error:  # mostly nested too deep for Jinja or for Python
            raise ChatTemplateError(
                f"{name} cannot be compiled: {type(error).__name__}: {error}"
            ) from error
        return cls(source, template.render, special or {}, budget)

    def render(
        self, messages: Sequence[Message], /, *, add_generation_prompt: bool = True, **more: Any
    ) -> str:
        """Render the prompt; `more` are other variables: `tools`, `enable_thinking`, ...

        add_generation_prompt  whether to end with the header of the assistant's answer
        """
        if "messages" in more:
            raise ChatTemplateError("`messages` is no variable of a template: they are given apart")
        given = {**self._special, **more, "add_generation_prompt": add_generation_prompt}
        try:
            given["messages"] = [dict(message) for message in messages]
        except (TypeError, ValueError) as error:
            raise ChatTemplateError(
                f"messages must be tables with `role` and `content`: {error}"
            ) from error
        try:
            with self._rendering:  # threads share the budget
                self._budget.renew()
                return self._render(given)
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is a program: it may raise anything
            roles = ", ".join(str(message.get("role")) for message in given["messages"])
            raise ChatTemplateError(
                f"{self._budget.name} failed for messages by {roles or 'nobody'}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _environment(jinja2: ModuleType, budget: Budget) -> Any:
    from webpte.llm.text.sandbox import CountedEnvironment

    def refuse(message: str) -> None:
        raise ChatTemplateError(f"{budget.name} refuses these messages: {message}")

    environment = CountedEnvironment(
        budget,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[*_EXTENSIONS, _generation_tag(jinja2)],
    )
    environment.filters["tojson"] = _json_filter(budget)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.count()
    return environment


def _json_filter(budget: Budget) -> Callable[..., str]:
    def tojson(
        value: Any, indent: int | None = None, ensure_ascii: bool = False, **more: Any
    ) -> str:
        """Write plain JSON: Jinja's own filter escapes characters for HTML."""
        if indent is None and "separators" not in more:
            return json.dumps(value, ensure_ascii=ensure_ascii, **more)
        budget.spend(_INDENT * (abs(indent) if isinstance(indent, int) else len(indent or "")))
        encoder = json.JSONEncoder(indent=indent, ensure_ascii=ensure_ascii, **more)
        pieces = []
        for piece in encoder.iterencode(value):
            budget.spend(len(piece))
            pieces.append(piece)
        return "".join(pieces)

    return tojson


def _generation_tag(jinja2: ModuleType) -> Any:
    """Return the tag `{% generation %}`, which marks the assistant's text for training."""

    class GenerationTag(jinja2.ext.Extension):  # type: ignore[name-defined, misc]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return GenerationTag
