"""Chat templates: the features of Hugging Face's, and nothing harmful."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from support.graphs.graphs import wait
from webpte.errors import ChatTemplateError
from webpte.llm.text import ChatTemplate

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <there> & 'you'"},
]


def rendered(source: str, messages: Any = MESSAGES, **more: Any) -> str:
    template = wait(ChatTemplate.load(source, {"bos_token": "<s>", "eos_token": "</s>"}))
    return template.render(messages, **more)


CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def test_a_usual_one() -> None:
    whole = (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi <there> & 'you'<|im_end|>\n<|im_start|>assistant\n"
    )
    assert rendered(CHATML) == whole
    assert rendered(CHATML, add_generation_prompt=False) == whole.removesuffix(
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{{ bos_token }}{{ eos_token }}{{ unk_token }}", "<s></s>"),
        ("{{ messages | tojson }}", json.dumps(MESSAGES)),
        ("{{ {'ä': '<'} | tojson(indent=2) }}", '{\n  "ä": "<"\n}'),
        ("{{ strftime_now('%Y') }}", datetime.now().strftime("%Y")),
        (
            "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}"
            "{% endfor %}",
            "system",
        ),
        (
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
            "{% endfor %}{{ ns.n }}",
            "2",
        ),
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}!", "system!"),
        ("{{ enable_thinking }} {{ tools[0].name }} {{ other is defined }}", "True f False"),
    ],
)
def test_what_templates_use(source: str, result: str) -> None:
    assert rendered(source, enable_thinking=True, tools=[{"name": "f"}]) == result


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses.*: roles must alternate"),
        ("{{ messages[7].content + 'a' }}", "failed for messages by system, user: Undefined"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError.*unsafe"),
        ("{{ messages.append(1) }}", "SecurityError|unsafe|not safely callable"),
        ("{{ range(10000000) | list }}", "OverflowError"),
    ],
)
def test_what_fails_when_it_runs(source: str, message: str) -> None:
    with pytest.raises(ChatTemplateError, match=message):
        rendered(source)


def test_what_is_no_template() -> None:
    with pytest.raises(ChatTemplateError, match="the chat template is wrong in line 2"):
        wait(ChatTemplate.load("\n{% if %}"))


def test_a_template_changes_no_message() -> None:
    given = [{"role": "user", "content": "a"}]
    with pytest.raises(ChatTemplateError):
        rendered("{% set _ = messages[0].update({'content': 'b'}) %}", given)
    assert given == [{"role": "user", "content": "a"}]
