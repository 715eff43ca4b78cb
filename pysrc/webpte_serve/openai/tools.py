"""Tools that a model may call: their description, their required use, and calls in answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from webpte.llm.constrain.json_answer import JsonAnswer, JsonForm
from webpte.llm.reply import StopStrings
from webpte_serve.openai.gemma_calls import GemmaCallError, as_schema_says, read_call
from webpte_serve.openai.values import RequestError

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NO_ARGUMENTS = {"type": "object", "properties": {}}
MOST_TOOLS = 128


@dataclass(frozen=True)
class Tool:
    """A function that the caller offers."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def table(self) -> dict[str, Any]:
        """Return the tool in the form of chat templates."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": told}


@dataclass(frozen=True)
class ToolChoice:
    """A choice of tools: forbidden, optional, or a required call of `name` ("" is any)."""

    may_call: bool
    name: str | None = None


@dataclass(frozen=True)
class ToolCall:
    """A call in an answer; `arguments` are JSON."""

    name: str
    arguments: str

    def table(self, index: int | None = None) -> dict[str, Any]:
        """Return the call as the API writes it; chunks of a stream have an index."""
        function = {"name": self.name, "arguments": self.arguments}
        made = {"id": f"call_{token_hex(12)}", "type": "function", "function": function}
        return made if index is None else {"index": index, **made}


def tools_of(tables: Sequence[Any]) -> list[Tool]:
    """Check the tools of a request."""
    if len(tables) > MOST_TOOLS:
        raise RequestError(f"there are {len(tables)}; at most {MOST_TOOLS}", "tools")
    tools = []
    for index, table in enumerate(tables):
        where = f"tools[{index}]"
        if not isinstance(table, Mapping) or table.get("type") != "function":
            raise RequestError("its type must be function", where)
        function = table.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise RequestError(
                "a name has 1 to 64 letters, digits, _ and -", f"{where}.function.name"
            )
        assert isinstance(function, Mapping)
        parameters = function.get("parameters") or _NO_ARGUMENTS
        if not isinstance(parameters, Mapping):
            raise RequestError("they are a JSON schema", f"{where}.function.parameters")
        description = function.get("description") or ""
        if not isinstance(description, str):
            raise RequestError("must be a string", f"{where}.function.description")
        tools.append(Tool(name, description, parameters))
    if len({tool.name for tool in tools}) < len(tools):
        raise RequestError("two tools have the same name", "tools")
    return tools


def tool_choice_of(choice: str | Mapping[str, Any] | None, tools: Sequence[Tool]) -> ToolChoice:
    """Check which tools the answer may or has to call."""
    if choice is None:
        return ToolChoice(bool(tools))
    if choice == "none":
        return ToolChoice(False)
    if not tools:
        raise RequestError("needs tools", "tool_choice")
    if choice == "auto":
        return ToolChoice(True)
    if choice == "required":
        return ToolChoice(True, "")
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or name not in {tool.name for tool in tools}:
        wanted = 'none, auto, required, or {"type": "function", "function": {"name": ...}}'
        raise RequestError(f"must be {wanted} with the name of a tool", "tool_choice")
    return ToolChoice(True, name)


@dataclass(frozen=True)
class ToolFormat:
    """A model's form of calls: JSON with the name and the arguments, between two marks.

    Without marks, an answer that consists of such JSON is a call.
    """

    begin: str
    end: str
    key: str  # key of the arguments
    is_in_template: bool = True

    def call_of(self, tools: Sequence[Tool]) -> JsonAnswer:
        """Return the JSON form of a single tool call."""
        return JsonAnswer(tuple(self._one(tool) for tool in tools), "tools")

    def _one(self, tool: Tool) -> JsonForm:
        properties = {"name": {"const": tool.name}, self.key: tool.parameters}
        schema = {"type": "object", "properties": properties, "required": ["name", self.key]}
        return JsonForm(schema, self.begin, self.end)

    def instructions(self, tools: Sequence[Tool]) -> str:
        """Return a text that describes tools to a model, for templates without tools."""
        listed = "\n".join(json.dumps(tool.table["function"], ensure_ascii=False) for tool in tools)
        call = f'{{"name": "...", "{self.key}": {{...}}}}'
        return (
            f"You can call these functions, described by JSON schemas:\n{listed}\n\n"
            f"To call one, answer with nothing but:\n{self.begin}{call}{self.end}"
        )

    def calls(self, text: str, tools: Mapping[str, Tool]) -> list[ToolCall]:
        """Return the calls that a text consists of; empty for a text with other content."""
        decoder, calls, at = json.JSONDecoder(), list[ToolCall](), 0
        text = text.strip()
        while at < len(text):
            try:
                table, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                return []
            name = table.get("name") if isinstance(table, dict) else None
            if not isinstance(name, str) or name not in tools:
                return []
            given = table.get("arguments", table.get("parameters", {}))
            arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            calls.append(ToolCall(name, arguments))
            while at < len(text) and text[at] in "; \n\t":
                at += 1
        return calls


@dataclass(frozen=True)
class GemmaFormat(ToolFormat):
    """Gemma's form of calls: `call:NAME{key:value}`, with `quote` around texts.

    A required call has JSON as its arguments.
    """

    quote: str = ""

    def _one(self, tool: Tool) -> JsonForm:
        return JsonForm(tool.parameters, f"{self.begin}call:{tool.name}", self.end)

    def calls(self, text: str, tools: Mapping[str, Tool]) -> list[ToolCall]:
        try:
            name, given = read_call(text, self.quote)
        except GemmaCallError:
            return []
        if name not in tools:
            return []
        arguments = as_schema_says(given, tools[name].parameters)
        return [ToolCall(name, json.dumps(arguments, ensure_ascii=False))]


HERMES = ToolFormat("<tool_call>\n", "\n</tool_call>", "arguments")  # also Qwen's
LLAMA = ToolFormat("", "", "parameters")
GEMMA = GemmaFormat("<|tool_call>", "<tool_call|>", "", quote='<|"|>')
FUNCTION_GEMMA = GemmaFormat("<start_function_call>", "<end_function_call>", "", quote="<escape>")
TOLD = ToolFormat("```tool_call\n", "\n```", "arguments", is_in_template=False)


def format_of(template: str) -> ToolFormat:
    """Return a model's form of calls, found in its chat template."""
    for form in (GEMMA, FUNCTION_GEMMA):
        if form.begin in template:
            return form
    if "<tool_call>" in template:
        return HERMES
    if re.search(r"\btools\b", template):
        return LLAMA
    return TOLD


class AnswerParser:
    """Separates the calls in an answer from its text, piece by piece."""

    def __init__(self, format: ToolFormat, tools: Sequence[Tool]) -> None:
        self._format = format
        self._tools = {tool.name: tool for tool in tools}
        self._text = ""  # not yet decided
        self._begin, self._end = format.begin.strip(), format.end.strip()
        self._marks = StopStrings([self._begin] if self._begin else [])
        self._has_said = self._has_called = False

    def feed(self, piece: str) -> Iterator[str | ToolCall]:
        """Take a piece of the answer; yield the parts that are certain."""
        self._text += piece
        yield from self._marked() if self._begin else self._unmarked()

    def finish(self) -> Iterator[str | ToolCall]:
        """Yield the rest of the answer."""
        text, self._text = self._text, ""
        inside = text.strip().removeprefix(self._begin).removesuffix(self._end)
        calls = self._format.calls(inside, self._tools)
        if calls and (self._begin or not self._has_said):
            yield from calls
        elif text.strip() or not self._has_called:
            yield from self._say(text)

    def _marked(self) -> Iterator[str | ToolCall]:
        while True:
            before, mark, rest = self._text.partition(self._begin)
            # Space before a call does not count as content, so final space waits for the next
            # piece.
            until = len(before) if mark else self._marks.certain(before, 0)
            certain = before[:until].rstrip()
            yield from self._say(certain)
            self._text = self._text[len(certain) :]
            inside, closing, after = rest.partition(self._end)
            if not closing:
                return
            self._text = after
            calls = self._format.calls(inside, self._tools)
            self._has_called = self._has_called or bool(calls)
            yield from calls or self._say(mark + inside + closing)

    def _unmarked(self) -> Iterator[str | ToolCall]:
        start = self._text.lstrip()
        if self._has_said or (start and not start.startswith("{")):
            text, self._text = self._text, ""
            yield from self._say(text)

    def _say(self, text: str) -> Iterator[str]:
        if text:
            self._has_said = True
            yield text
