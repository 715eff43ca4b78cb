"""Broken and hostile files of text: a tokenizer, or one of our errors, in bounded time.

Each change is made to a file that works. What is taken is used, too.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import random
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.graphs.graphs import wait
from support.harness import extent
from support.harness.bounded import bounded
from support.harness.texts import BYTES, FOLDER, KINDS, tokenizer_path
from webpte.errors import SourceError, TextError, WebpteError
from webpte.llm.text import ChatTemplate, Tokenizer, budget, load_tokenizer
from webpte.llm.text.tokenizer import MAX_TOKENS

MUTANTS = extent.count(50, 3000)  # of each tokenizer.json
LINES = extent.count(150, 6000)
CONFIGS = extent.count(40, 2000)
TEMPLATES = extent.count(100, 12_000)
SECONDS = 60  # for one file; it is 0.002 on an idle machine

MESSAGES = [{"role": "user", "content": "Hi <you>"}, {"role": "assistant", "content": "a\nb"}]
STRANGE: list[Any] = [
    *(None, True, 0, 1, -1, 5, 0.5, 1e300, 1 << 31, (1 << 32) - 1, 1 << 63, 10**30, MAX_TOKENS),
    *("", "a", "\ud800", "\x00", "<0x41>", "ByteLevel", "Sequence", "(" * 50, "[", "x" * 5000),
    *([], {}, [[]], [1, "a"], {"a": 1}, {"type": "BPE"}, {"Regex": "(a*)*b"}, [None]),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hide what panics in Rust print on the stderr of the process."""
    sys.stderr.flush()
    old, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    yield
    os.dup2(old, 2)
    os.close(old)
    os.close(nowhere)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a JSON value with each of its keys, or some of many."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys if len(keys) < 40 else keys[:3] + keys[-3:]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def changed(content: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        container, key = rng.choice(list(places(content)))
        kind = rng.randrange(4)
        if kind == 0:
            del container[key]
        elif kind == 1 and isinstance(container, dict):
            container[rng.choice(["a", "vocab", "type", "id", ""])] = container[key]
        else:
            container[key] = copy.deepcopy(rng.choice(STRANGE))
        if not content:
            break
    return content


def use(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("Hi, <|user|> é🙂\n")
    tokenizer.decode([*tokens, 0, 5, 10**6])
    with contextlib.suppress(TextError):  # not every kind tells
        tokenizer.pieces()
    if tokenizer.template is not None:
        tokenizer.template.render(MESSAGES)


def outcome(source: Any, **more: Any) -> bool:
    """Return whether a file was accepted; errors other than webpte's fail the test."""
    try:
        with bounded(SECONDS):
            use(wait(load_tokenizer(source, **more)))
    except WebpteError as error:
        check_refused_early(error)
        return False
    return True


def check_refused_early(error: WebpteError) -> None:
    assert not isinstance(error.__cause__, MemoryError), "made before it was refused"


@pytest.mark.parametrize("kind", KINDS)
def test_changes_of_a_tokenizer_json(kind: str) -> None:
    rng = random.Random(kind)
    whole = json.loads(tokenizer_path(kind).read_text(encoding="utf-8"))
    taken = sum(outcome(changed(copy.deepcopy(whole), rng)) for _ in range(MUTANTS))
    assert 0 < taken < MUTANTS


def test_changes_of_its_bytes() -> None:
    rng = random.Random("bytes")
    data = tokenizer_path(BYTES).read_bytes()
    for _ in range(MUTANTS):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 2, 5])):
            broken[rng.randrange(len(broken))] = rng.choice(b'{}[]",:0\\\xff\x00')
        outcome(bytes(broken[: rng.choice([len(broken), rng.randrange(len(broken))])]))


def changed_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines()
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        token, _, rank = lines[at].partition(b" ")
        lines[at] = rng.choice(
            [
                token + b" " + lines[other].partition(b" ")[2],
                lines[other],
                token,
                b"",
                token + b" -" + rank,
                token + b" " + b"9" * rng.choice([3, 7, 8, 10, 20, 5000]),
                token + b" 1_0",
                token + b" 0x5",
                b" " + rank,
                token[:-1] + b" " + rank,
                base64.b64encode(rng.randbytes(rng.choice([0, 1, 3, 300]))) + b" " + rank,
                rng.randbytes(12),
            ]
        )
    return b"\n".join(lines)


def test_changes_of_a_tiktoken_file() -> None:
    rng = random.Random("tiktoken")
    data = (FOLDER / BYTES / "tokenizer.model").read_bytes()
    taken = sum(outcome(changed_lines(data, rng)) for _ in range(LINES))
    assert 0 < taken < LINES


@pytest.mark.parametrize("special", [[""], [5], ["a", "a"], ["a", ""], [None]], ids=str)
def test_special_tokens_that_are_none(special: list[Any]) -> None:
    with bounded(SECONDS), pytest.raises(TextError, match="special token"):
        wait(load_tokenizer(FOLDER / BYTES / "tokenizer.model", special_tokens=special))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"YWI= 5", "line 257: the number is taken"),
        (b"AA== 256", "line 257: the token stands twice"),
        (b" 256", "line 257: the token is empty"),
        (b"YWI= 16777216", "not the number of a token"),
        (b"YWI= -5", "not the number of a token"),
        (b"YWI= " + b"9" * 5000, "line 257 is not"),
    ],
)
def test_numbers_that_are_none(line: bytes, message: str) -> None:
    bytewise = [base64.b64encode(bytes([byte])) + b" %d" % byte for byte in range(256)]
    with pytest.raises(TextError, match=message):
        wait(load_tokenizer(b"\n".join([*bytewise, line])))


def test_changes_of_a_config() -> None:
    rng = random.Random("config")
    config = json.loads((FOLDER / BYTES / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["chat_template"] = [{"name": "default", "template": config["chat_template"]}]
    source = tokenizer_path("digits").read_bytes()
    taken = sum(outcome(source, config=changed(copy.deepcopy(config), rng)) for _ in range(CONFIGS))
    assert 0 < taken < CONFIGS


@pytest.mark.parametrize("template", [5, [1], {"a": 1}, [["default"]]])
def test_templates_of_a_config_that_are_none(template: Any) -> None:
    with pytest.raises(TextError, match="`chat_template`"):
        wait(load_tokenizer(tokenizer_path(BYTES), config={"chat_template": template}))


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.jinja"])
def test_a_file_beside_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer_path(BYTES).read_bytes())
    assert wait(load_tokenizer(path)).template is None  # where there is none, there is none
    (tmp_path / name).mkdir()
    with pytest.raises(SourceError, match=name):
        wait(load_tokenizer(path))


SEEDS = [
    "{% for message in messages %}{{ '<|' + message.role + '|>' + message['content'] | trim }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "{%- set ns = namespace(n=0, t='') -%}{% for m in messages[::-1] if m.role != 'x' %}"
    "{% set ns.n = ns.n + loop.index0 %}{% set ns.t = ns.t ~ m.content.split('\n')[-1] %}"
    "{% endfor %}{{ ns.n }}{{ ns.t | upper | replace('A', 'b' * 3) }}",
    "{% macro f(x, y=2) %}{{ x | tojson(indent=y) }}{{ '%5s|{}'.format(x) }}{% endmacro %}"
    "{% call f(messages) %}{% endcall %}{{ messages | map(attribute='role') | join(', ') }}",
    "{{ range(5) | batch(2, 0) | list }}{{ (2 ** 8 // 3) | round(1) | center(9) }}"
    "{% filter indent(2) %}a\nb{% endfilter %}{{ [3, 1] | sort | unique | list | tojson }}",
]
PIECES = [
    *("{{", "}}", "{%", "%}", "{#", "-", "(", ")", "[", "]", "{", "}", "'", '"', "|", "~", "."),
    *("99999999", "**", "*", "range(99999)", "messages", "|join", "|center(99999999)", "|list"),
    *(" for ", " if ", " in ", " set ", "endfor", "endif", "macro", "'x' * 9999999", ",", ":", "%"),
    *("|tojson", "loop", "self", "ns", "|format(9)", "'%9999999999d' %", " not ", "__class__"),
]


def changed_template(rng: random.Random) -> str:
    text = rng.choice(SEEDS)
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + rng.choice([0, 1, 5, 20]))
        new = rng.choice([rng.choice(PIECES), rng.choice(string.printable), text[at:end] * 2])
        text = text[:at] + new + text[end:]
    return text


def test_changes_of_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 20_000)
    monkeypatch.setattr(budget, "MAX_SIZE", 1_000_000)
    rng = random.Random("templates")
    good = 0
    for _ in range(TEMPLATES):
        source = changed_template(rng)
        try:
            with bounded(SECONDS):
                wait(ChatTemplate.load(source)).render(MESSAGES)
            good += 1
        except WebpteError as error:
            check_refused_early(error)
    assert 0.03 * TEMPLATES < good < 0.97 * TEMPLATES
