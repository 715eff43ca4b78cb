"""Hostile chat templates: each is stopped by the budget or refused, in bounded time and memory."""

from __future__ import annotations

from typing import Any

import pytest

from support.graphs.graphs import wait
from support.harness.bounded import bounded
from webpte.errors import ChatTemplateError
from webpte.llm.text import ChatTemplate, budget

MESSAGES = [{"role": "user", "content": "Hi"}]
SECONDS = 60  # for one template; it is 0.1 on an idle machine
BIG = "{% set b = 'a' * 100000 %}"
PRIME = "{% set m = 2305843009213693951 %}"  # its multiples have one hash
DOUBLING = "{% set ns = namespace(x=START, y=START) %}{% for i in range(99) %}LOOP{% endfor %}"


def doubled(start: str, loop: str, end: str = "") -> str:
    return DOUBLING.replace("START", start).replace("LOOP", loop) + end


LISTS = "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}"
TUPLES = LISTS.replace("[", "(").replace("]", ")")


def often(body: str) -> str:
    return f"{{% for i in range(99999) %}}{body}{{% endfor %}}"


STOPPED = {
    "loops in loops": often(often("")),
    "a loop that takes nothing": often("{% for j in range(99999) if false %}{% endfor %}"),
    "text in a loop": often("lorem ipsum " * 500),
    "a constant in a loop": often("{{ '" + "lorem ipsum " * 500 + "' }}"),
    "a wide condition": often("{% if " + " and ".join(["true"] * 80) + " %}{% endif %}"),
    "a wide list": often("{% set x = [" + "i," * 1000 + "] %}"),
    "macros that call themselves twice": (
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
        "{{ f(60) }}"
    ),
    "a loop of itself": "{% for x in [1, 2] recursive %}{{ 'a' * 10000 }}{{ loop([1, 2]) }}"
    "{% endfor %}",
    "constants at load": "{{ (['x' * 1000000] * 1000) | join }}",
    "autoescape": "{% autoescape true %}{{ '<' | center(10 ** 9) }}{% endautoescape %}",
    "center": "{{ 'x' | center(10 ** 10) }}",
    "ljust": "{{ 'x'.ljust(10 ** 10) }}",
    "zfill": "{{ 'x'.zfill(10 ** 10) }}",
    "expandtabs": "{{ '\t'.expandtabs(10 ** 9) }}",
    "indent": "{{ 'x\ny' | indent(10 ** 10) }}",
    "indent by a text": BIG + "{{ ('x\n' * 100000) | indent(b) }}",
    "a filter's block": "{% filter center(10 ** 10) %}x{% endfilter %}",
    "replace": BIG + "{{ b | replace('a', b) }}",
    "replace nothing": BIG + "{{ b.replace('', b) }}",
    "translate": BIG + "{{ b.translate({97: b}) }}",
    "join": BIG + "{{ range(99999) | join(b) }}",
    "join what comes bit by bit": BIG + "{{ range(99999) | map('string') | join(b) }}",
    "a string's join": BIG + "{{ b.join(b) }}",
    "a width": "{{ '%1000000000d' % 1 }}",
    "a width beside": "{{ '%*d' % (10 ** 9, 1) }}",
    "a precision": "{{ '%.1000000000f' | format(1.0) }}",
    "a table in many places": BIG + "{{ ('%(a)s' * 10000) % {'a': b} }}",
    "format": "{{ '{:>1000000000}'.format(1) }}",
    "format of a format": "{{ '{:>{}}'.format(1, 10 ** 9) }}",
    "format_map": "{{ '{a:>1000000000}'.format_map({'a': 1}) }}",
    "format in many places": BIG + "{{ ('{0}' * 10000).format(b) }}",
    "batch": "{{ [1] | batch(10 ** 10, 0) | list }}",
    "slice": "{{ [1] | slice(10 ** 10) | list }}",
    "a text times": "{{ 'a' * 10 ** 11 }}",
    "times a list": "{{ 10 ** 11 * [1, 2] }}",
    "a power": "{{ 10 ** 10000000 }}",
    "huge products": "{% set x = 2 ** 8000 %}" + often("{% set y = x * x %}"),
    "a huge number": "{% set x = ('f' * 100000) | int(base=16) %}",
    "round": "{{ 5 | round(-10 ** 10) }}",
    "round up": "{{ 5.5 | round(10 ** 9, 'ceil') }}",
    "to_bytes": "{{ (5).to_bytes(10 ** 10) }}",
    "doubled text": doubled("'ab'", "{% set ns.x = ns.x + ns.x %}"),
    "joined text": doubled("'ab'", "{% set ns.x = ns.x ~ ns.x %}"),
    "text in a block": doubled("'ab'", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
    "doubled list": doubled("[1]", "{% set ns.x = ns.x + ns.x %}"),
    "lists of lists printed": doubled("[1]", LISTS, "{{ ns.x }}"),
    "lists of lists as JSON": doubled("[1]", LISTS, "{{ ns.x | tojson }}"),
    "lists of lists compared": doubled("[1]", LISTS, "{{ ns.x == ns.y }}"),
    "lists of lists searched": doubled("[1]", LISTS, "{{ ns.x in [ns.y] }}"),
    "tuples of tuples as a key": doubled("(1,)", TUPLES, "{{ {ns.x: 1} }}"),
    "tuples of tuples looked up": doubled("(1,)", TUPLES, "{{ {}[ns.x] }}"),
    "tuples of tuples got": doubled("(1,)", TUPLES, "{{ {}.get(ns.x) }}"),
    "a namespace of such": doubled("(1,)", TUPLES, "{{ ns }}"),
    "a namespace in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "numbers of one hash": PRIME + "{{ range(0, m * 99999, m) | unique | list | length }}",
    "keys of one hash": PRIME + "{{ {}.fromkeys(range(0, m * 99999, m)) | length }}",
    "a sum of lists": often("{{ ([[1] * 1000] * 1000) | sum(start=[]) | length }}"),
    "rfind": BIG + "{{ b.rfind('ab' + b) }}",
    "find": BIG + often("{{ b.find('b') }}"),
    "in": BIG + often("{{ 'b' in b }}"),
    "equal": BIG + "{% set c = 'a' * 100000 %}" + often("{{ c == b }}"),
    "slices": BIG + often("{% set x = b[1:] %}"),
    "upper": BIG + often("{% set x = b | upper %}"),
    "strip": BIG + "{{ b.strip('b' * 100000 + 'a') }}",
    "wordwrap": BIG + "{{ b | wordwrap(1) }}",
    "striptags": "{{ ('<!---->' * 50000) | striptags }}",
    "JSON far to the right": "{{ [[[1]]] | tojson(indent=10 ** 9) }}",
    "JSON with much between": BIG + "{{ (b | list) | tojson(separators=(b, ':')) }}",
    "sort": often("{% set x = range(99999) | sort %}"),
    "select": often("{% set x = range(99999) | select('none') | list %}"),
    "length": often("{% for j in range(99999) | select('none') %}{{ loop.length }}{% endfor %}"),
    "cycle": often("{{ loop.cycle(*range(99999)) }}"),
}

REFUSED = {
    "a macro of itself": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "a block of itself": "{% block a %}{{ self.a() }}{% endblock %}",
    "a deep list": "{% set ns = namespace(x=[]) %}"
    + often("{% set ns.x = [ns.x] %}")
    + "{{ ns.x }}",
    "lorem ipsum": "{{ lipsum(n=1000000) }}",
    "parentheses": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "ifs": "{% if 1 %}" * 150 + "{% endif %}" * 150,
    "a long number": "{{ " + "9" * 6000 + " }}",
    "signs": "{{ " + "-" * 60000 + "1 }}",
    "dots": "{{ a" + ".a" * 30000 + " }}",
    "filters": "{{ a" + "|e" * 30000 + " }}",
    "brackets": "{{ " + "[" * 60000 + " }}",
    "a long text": "a" * 70000,
    "a number": 5,
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 20_000)
    monkeypatch.setattr(budget, "MAX_SIZE", 1_000_000)


def rendered(source: Any) -> str:
    with bounded(SECONDS):
        return wait(ChatTemplate.load(source, name="the template of a test")).render(MESSAGES)


@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.usefixtures("small")
def test_a_budget_stops_it(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"the template of a test .* so it was stopped"):
        rendered(STOPPED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    with pytest.raises(ChatTemplateError, match="the template of a test"):
        rendered(REFUSED[name])


def test_the_limits_as_they_are() -> None:
    with pytest.raises(ChatTemplateError, match="takes more than 2,097,152 steps"):
        rendered(STOPPED["loops in loops"])
    with pytest.raises(ChatTemplateError, match="more than 134,217,728 characters"):
        rendered(STOPPED["constants at load"])


def test_every_rendering_has_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 100)
    template = wait(ChatTemplate.load("{% for i in range(60) %}{{ i }}{% endfor %}"))
    assert template.render([]) == template.render([]) == "".join(map(str, range(60)))


@pytest.mark.parametrize("messages", [5, [5], [[1]], ["ab"], None])
def test_what_is_no_message(messages: Any) -> None:
    template = wait(ChatTemplate.load("{{ messages }}"))
    with pytest.raises(ChatTemplateError, match="messages must be tables"):
        template.render(messages)


def test_no_computing_at_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_SIZE", 0)
    wait(ChatTemplate.load("{{ ('a' ~ 'b') | upper }}{{ 'ab'[1:] }}{{ 1 + 1 }}"))


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{{ 1 + 2 + 3.5 }} {{ [1] + [2] }} {{ 'a' + 'b' + 'c' }}", "6.5 [1, 2] abc"),
        ("{{ -1 }} {{ -(2) }} {{ [1, 2][-1] }} {{ 7 // 2 }} {{ 2 ** 10 }}", "-1 -2 2 3 1024"),
        ("{{ 'a' ~ 1 ~ none }} {{ 'abc'[::-1] }} {{ 'x' * 3 }}", "a1None cba xxx"),
        ("{{ 1 < 2 < 3 }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }}", "True True True"),
        ("{{ '%s-%05.1f' % ('a', 2) }} {{ '{:>4}'.format(7) }}", "a-002.0    7"),
        ("{{ '{a}'.format_map({'a': 5}) }} {{ '%s' | format('b') }}", "5 b"),
        ("{{ [3, 1] | sort | join(',') }} {{ 'ab' | map('upper') | join }}", "1,3 AB"),
        ("{{ ','.join(['a', 'b'] | map('upper')) }} {{ dict(a=1).a }}", "A,B 1"),
        ("{{ [1, 2, 3] | batch(2, 0) | list }} {{ 2.567 | round(1) }}", "[[1, 2], [3, 0]] 2.6"),
        ("{{ 'a b'.split()[1].rstrip('b') }}{{ ' x '.strip() }}", "x"),
        ("{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}"
         "{% call m(1) %}!{% endcall %}", "12!"),
        ("{% for i in [1, 2, 3] if i != 2 %}{{ i }}{{ loop.length }}{% endfor %}", "1232"),
        ("{{ [{'a': 1}, {'a': 2}] | selectattr('a', 'gt', 1) | list }}", "[{'a': 2}]"),
        ("{{ [1, [2]] | tojson(separators=(',', ':')) }}", "[1,[2]]"),
        ("{{ {'b': 1, 'a': 2} | dictsort | first }}", "('a', 2)"),
    ],
)  # fmt: skip
def test_results_are_jinjas(source: str, result: str) -> None:
    assert rendered(source) == result
