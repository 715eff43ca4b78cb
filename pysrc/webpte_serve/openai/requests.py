"""Requests of OpenAI's API, checked: unsupported parameters are refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webpte.engine.files.json_reader import parse_json
from webpte.llm.logits_rule import TokenBiases
from webpte_serve.openai.messages import template_messages
from webpte_serve.openai.tools import Tool, ToolChoice, tool_choice_of, tools_of
from webpte_serve.openai.values import RequestError, RequestReader

__all__ = [
    "ChatRequest",
    "CompletionRequest",
    "EmbeddingRequest",
    "RequestError",
    "RerankRequest",
]

MOST_CHOICES = 16
MOST_STOPS = 16
MOST_INPUTS = 2048
MOST_BIASES, MOST_DIGITS = 1024, 10
# Parameters without effect on an answer here; a prediction could only speed it up.
_IGNORED = (
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    "prediction",
)
# Parameters that would change an answer; refused unless they have a neutral value.
_NEUTRAL: Mapping[str, Collection[Any]] = {
    "modalities": (["text"],),
    "audio": (),
    "reasoning_effort": (),
    "web_search_options": (),
    "suffix": ("",),
    "best_of": (1,),
}


@dataclass(frozen=True)
class Decoding:
    """The parameters of a request that choose tokens, and their number."""

    max_new_tokens: int | None
    choices: int
    seed: int | None
    stop: tuple[str, ...]
    sampling: Mapping[str, Any]
    logit_bias: Mapping[int, float]
    frequency_penalty: float
    presence_penalty: float
    stream: bool
    include_usage: bool

    def rule(self, prompt: int) -> TokenBiases | None:
        """Return the rule that changes the logits after a prompt of that length, if any does."""
        if not self.logit_bias and not self.frequency_penalty and not self.presence_penalty:
            return None
        penalties = self.frequency_penalty, self.presence_penalty
        return TokenBiases(self.logit_bias, *penalties, prompt)

    def options(self, choice: int) -> dict[str, Any]:
        """Return the options of a choice; each choice has a different seed."""
        seed = None if self.seed is None else (self.seed + choice) % (1 << 32)
        return {**self.sampling, "seed": seed}


@dataclass(frozen=True)
class ChatRequest:
    """A request for chat completions.

    is_json  whether the answer has to be JSON: of the `schema`, or any object without a schema
    top      the number of alternatives that are listed for each token; None: no log-probabilities
    regex    the expression that the whole answer has to match, if any
    is_continued  whether the answer continues the last message, which is the assistant's
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    decoding: Decoding
    tools: Sequence[Tool]
    tool_choice: ToolChoice
    schema: Mapping[str, Any] | None
    is_json: bool
    top: int | None
    variables: Mapping[str, Any] = field(default_factory=dict)
    regex: str | None = None
    is_continued: bool = False


@dataclass(frozen=True)
class CompletionRequest:
    """A request to continue texts, or tokens."""

    model: str
    prompts: Sequence[str | list[int]]
    decoding: Decoding
    echo: bool
    top: int | None


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request for the embeddings of texts."""

    model: str
    texts: Sequence[str]
    as_base64: bool


@dataclass(frozen=True)
class RerankRequest:
    """A request to rank documents; `most` of them are wanted, or all."""

    model: str
    query: str
    documents: Sequence[str]
    most: int | None
    wants_texts: bool


def chat_request(body: Mapping[str, Any]) -> ChatRequest:
    """Check a request for chat completions."""
    reader = RequestReader(body)
    messages = reader.take("messages", list)
    if not messages:
        raise RequestError("must have at least one message", "messages")
    tools = tools_of(reader.take("tools", list, None) or [])
    choice = tool_choice_of(reader.take("tool_choice", (str, dict), None), tools)
    reader.take("parallel_tool_calls", bool, True)  # a required call is a single call
    is_json, schema = _response_format(reader.take("response_format", dict, None))
    if is_json and choice.name is not None:
        raise RequestError("a required tool call has a format of its own", "response_format")
    regex = _regex(reader.take("structured_outputs", dict, None))
    if regex is not None and (is_json or choice.name is not None):
        raise RequestError("the answer has another form already", "structured_outputs")
    is_continued = reader.take("continue_final_message", bool, False)
    logprobs = reader.take("logprobs", bool, False)
    top = reader.number("top_logprobs", int, None, 0, 20)
    if top is not None and not logprobs:
        raise RequestError("needs logprobs to be true", "top_logprobs")
    variables = reader.take("chat_template_kwargs", dict, {})
    if "messages" in variables:
        raise RequestError("messages is a parameter of its own", "chat_template_kwargs")
    variables = _extra_body(reader.take("extra_body", dict, {})) | variables
    request = ChatRequest(
        model=reader.take("model", str),
        messages=template_messages(messages),
        decoding=_decoding(reader, ("max_completion_tokens", "max_tokens"), None),
        tools=tools,
        tool_choice=choice,
        schema=schema,
        is_json=is_json,
        top=(top or 0) if logprobs else None,
        variables=variables,
        regex=regex,
        is_continued=is_continued,
    )
    reader.finish()
    if is_continued and not _can_continue(request.messages[-1]):
        told = "the last message is not an assistant's text"
        raise RequestError(told, "continue_final_message")
    return request


def _can_continue(message: Mapping[str, Any]) -> bool:
    plain = message["role"] == "assistant" and isinstance(message["content"], str)
    return plain and not message.get("tool_calls")


def _regex(given: Mapping[str, Any] | None) -> str | None:
    """Return the expression of vLLM's parameter `structured_outputs`; its other kinds are JSON."""
    if given is None:
        return None
    if given.keys() != {"regex"} or not isinstance(given["regex"], str):
        told = 'must be {"regex": a text}; JSON is asked for by response_format'
        raise RequestError(told, "structured_outputs")
    return str(given["regex"])


def _extra_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's variables in WebLLM's form of requests."""
    known = {"enable_thinking", "enable_latency_breakdown"}  # the second key changes no answer
    if unknown := given.keys() - known:
        told = ", ".join(sorted(unknown))
        raise RequestError(f"only enable_thinking is known, not {told}", "extra_body")
    return {key: value for key, value in given.items() if key == "enable_thinking"}


def completion_request(body: Mapping[str, Any]) -> CompletionRequest:
    """Check a request to continue texts."""
    reader = RequestReader(body)
    request = CompletionRequest(
        model=reader.take("model", str),
        prompts=_prompts(reader.take("prompt", (str, list))),
        decoding=_decoding(reader, ("max_tokens",), 16),
        echo=reader.take("echo", bool, False),
        top=reader.number("logprobs", int, None, 0, 20),
    )
    if request.echo and request.top is not None:
        raise RequestError("echo has no log-probabilities of the prompt: leave out one", "echo")
    reader.finish()
    return request


def embedding_request(body: Mapping[str, Any]) -> EmbeddingRequest:
    """Check a request for embeddings."""
    reader = RequestReader(body)
    given = reader.take("input", (str, list))
    texts = [given] if isinstance(given, str) else given
    _check_texts(texts, "input")
    encoding = reader.take("encoding_format", str, "float")
    if encoding not in ("float", "base64"):
        raise RequestError(f"must be float or base64, not {encoding!r}", "encoding_format")
    reader.refuse("dimensions", (), "vectors have the length that the model gives them")
    request = EmbeddingRequest(reader.take("model", str), texts, encoding == "base64")
    reader.finish()
    return request


def rerank_request(body: Mapping[str, Any]) -> RerankRequest:
    """Check a request to rank documents."""
    reader = RequestReader(body)
    request = RerankRequest(
        model=reader.take("model", str),
        query=reader.take("query", str),
        documents=reader.take("documents", list),
        most=reader.number("top_n", int, None, 1, None),
        wants_texts=reader.take("return_documents", bool, False),
    )
    _check_texts(request.documents, "documents")
    reader.finish()
    return request


def _check_texts(texts: Sequence[Any], name: str) -> None:
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise RequestError("must be a list of texts, none of them empty", name)
    if len(texts) > MOST_INPUTS:
        raise RequestError(f"it has {len(texts)} texts; at most {MOST_INPUTS}", name)


def _decoding(reader: RequestReader, lengths: Sequence[str], length: int | None) -> Decoding:
    given = [reader.number(name, int, None, 1, None) for name in lengths]
    length = next((one for one in given if one is not None), length)
    stop = reader.take("stop", (str, list), None) or []
    stop = [stop] if isinstance(stop, str) else stop
    if len(stop) > MOST_STOPS or not all(isinstance(one, str) and one for one in stop):
        raise RequestError(f"stop is a text or up to {MOST_STOPS} texts, none empty", "stop")
    sampling = {
        "temperature": reader.number("temperature", float, 1.0, 0, 2),
        "top_p": reader.number("top_p", float, None, 0, 1),
        "top_k": reader.number("top_k", int, None, 1, None),
        "min_p": reader.number("min_p", float, None, 0, 1),
        "repetition_penalty": reader.number("repetition_penalty", float, None, 0, None),
    }
    if sampling["top_p"] == 0:  # only the likeliest token
        sampling.update(top_p=None, temperature=0.0)
    if sampling["top_p"] == 1:
        sampling["top_p"] = None
    for name in _IGNORED:
        reader.ignore(name)
    for name, values in _NEUTRAL.items():
        reader.refuse(name, values, "is not supported")
    stream = reader.take("stream", bool, False)
    wanted = reader.take("stream_options", dict, None)
    if wanted is not None and not stream:
        raise RequestError("stream_options needs stream to be true", "stream_options")
    return Decoding(
        max_new_tokens=length,
        choices=reader.number("n", int, 1, 1, MOST_CHOICES),
        seed=reader.number("seed", int, None, None, None),
        stop=tuple(stop),
        sampling=sampling,
        logit_bias=_logit_bias(reader.take("logit_bias", dict, {})),
        frequency_penalty=reader.number("frequency_penalty", float, 0.0, -2, 2),
        presence_penalty=reader.number("presence_penalty", float, 0.0, -2, 2),
        stream=stream,
        include_usage=bool((wanted or {}).get("include_usage")),
    )


def _logit_bias(given: Mapping[Any, Any]) -> dict[int, float]:
    """Return biases by token; JSON has the tokens as texts."""
    found: dict[int, float] = {}
    if len(given) > MOST_BIASES:
        raise RequestError(f"it has {len(given)} tokens; at most {MOST_BIASES}", "logit_bias")
    for token, bias in given.items():
        number = isinstance(bias, int | float) and not isinstance(bias, bool)
        named = str(token).isdecimal() and len(str(token)) <= MOST_DIGITS
        if not named or not number or not -100 <= bias <= 100:
            raise RequestError("it maps tokens to numbers from -100 to 100", "logit_bias")
        found[int(token)] = float(bias)
    return found


def _response_format(given: Mapping[str, Any] | None) -> tuple[bool, Mapping[str, Any] | None]:
    """Return whether the answer has to be JSON, and its schema; None means any object."""
    kind = "text" if given is None else given.get("type")
    if kind == "text":
        return False, None
    if kind == "json_object":
        assert given is not None
        return True, _schema(given.get("schema"))  # not OpenAI's, but WebLLM's and llama.cpp's
    if kind != "json_schema":
        raise RequestError(
            f"its type is text, json_object or json_schema, not {kind!r}", "response_format"
        )
    assert given is not None
    table = given.get("json_schema")
    schema = table.get("schema") if isinstance(table, Mapping) else None
    if not isinstance(schema, Mapping):
        raise RequestError("json_schema must be a table with a schema", "response_format")
    return True, schema


def _schema(given: Any) -> Mapping[str, Any] | None:
    """Return a schema that may be written as a text; None without a schema."""

    def fail(message: str) -> RequestError:
        return RequestError(message, "response_format")

    schema = parse_json(given, "the schema", fail) if isinstance(given, str) else given
    if schema is not None and not isinstance(schema, Mapping):
        raise fail("its schema must be a table")
    return schema


def _prompts(given: str | list[Any]) -> list[str | list[int]]:
    if isinstance(given, str):
        return [given]
    if given and all(_is_token(one) for one in given):
        return [list(given)]
    if not given or len(given) > MOST_CHOICES:
        raise RequestError(f"prompt has 1 to {MOST_CHOICES} texts", "prompt")
    for one in given:
        if not isinstance(one, str) and not (isinstance(one, list) and all(map(_is_token, one))):
            raise RequestError("prompt is a text, tokens, or a list of either", "prompt")
    return list(given)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
