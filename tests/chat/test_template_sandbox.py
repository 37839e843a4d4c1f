"""Hostile templates: none reaches Python, none holds the process up, none grows without bound."""

import contextlib
import resource
import time
from pathlib import Path

import pytest

from prism.chat.template import MAX_SOURCE_CHARS, CompiledTemplate
from prism.chat.template_budget import RenderBudget
from prism.chat.template_errors import FailureKind, TemplateFailed, TemplateInvalid

MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi", "tool_calls": []}]
# A second and a half on an idle core; the count is in processor time, so that a busy machine cannot fail it.
MAX_ATTACK_CPU_S = 1.5

ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.popen('touch CANARY').read() }}",
    "{{ joiner.__init__.__globals__.os.popen('touch CANARY').read() }}",
    "{{ namespace.__init__.__globals__.os.popen('touch CANARY').read() }}",
    "{{ lipsum.__globals__['os'].popen('touch CANARY').read() }}",
    "{{ self.__init__.__globals__.__builtins__.__import__('os').system('touch CANARY') }}",
    "{{ self._TemplateReference__context.environment.globals }}",
    "{{ raise_exception.__globals__['__builtins__']['open']('CANARY', 'w') }}",
    "{{ strftime_now.__globals__.operations.json.__builtins__.open('CANARY', 'w') }}",
    "{{ strftime_now.__closure__[0].cell_contents.budget }}",
    "{{ range.__globals__ }}",
    "{{ dict.__base__.__subclasses__() }}",
    "{{ dict.mro() }}",
    "{{ messages.__class__.__base__.__subclasses__()[0] }}",
    "{{ ''|attr('__class__')|attr('__mro__') }}",
    "{{ messages|map(attribute='__class__')|list }}",
    "{{ messages|map('attr', '__class__')|map('attr', '__mro__')|list|tojson }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(namespace) }}",
    "{{ '{0.__class__.__mro__}'.format_map({'0': 1}) }}",
    "{{ ('{0.__class__.__mro__}'|attr('format'))(1) }}",
    "{{ ['{0.__class__.__mro__}']|map('format', 1)|list }}{{ (1).__class__.mro() }}",
    "{{ ['{.__class__.__mro__}'.format]|map('attr', '__self__')|list }}{{ ''.format.__self__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os.system('touch CANARY') }}",
    "{% from 'os' import system %}{{ system('touch CANARY') }}",
    "{% extends '/etc/passwd' %}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'role': 'system'}) }}",
    "{{ messages[0].__setitem__('role', 'system') }}",
    "{{ messages.pop() }}",
    "{% for m in messages %}{{ loop._iterator.gi_frame.f_back }}{{ loop.__class__.mro() }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__call__.__func__.__globals__ }}{{ m._environment.globals }}",
    "{{ (messages|map('upper')).gi_frame.f_globals.get('__builtins__') }}",
    "{{ ''.encode().__class__.fromhex('00') }}",
    "{{ (1).to_bytes(4, 'big') }}",
    "{{ dict.fromkeys([1], 2) }}",
    "{{ ''.maketrans('a', 'b') }}",
    "{{ context.environment }}{{ environment.from_string('x') }}",
    "{{ url_for.__globals__ }}{{ config.items() }}",
]

DOUBLED = "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}"
BIG = "{% set big = 'ab' * 2000000 %}"

ATTACKS = [
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for a in range(10**10) %}{% endfor %}",
    "{% for a in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{% for a in range(99999) if a is divisibleby(100000) %}{% endfor %}" * 500,
    "{% for i in range(99999) %}" + "x" * 100_000 + "{% endfor %}",
    "{% macro m() %}{% for i in range(99999) %}" + "x" * 100_000 + "{% endfor %}{% endmacro %}{% set y = m() %}",
    "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% block b %}{{ self.b() }}{{ self.b() }}{% endblock %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s.replace('a', 'aaaa') %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s.join([ns.s, ns.s]) %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ 'x' * 10000000000 }}",
    "{{ [0] * 10000000000 }}",
    "{{ 9 ** 99999999999 }}",
    "{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%-------------------*d' % (1000000000, 1) }}",
    "{{ '%(k)1000000000d' % {'k': 1} }}",
    "{{ ('%(' * 1000000) % 1 }}",
    "{{ '{:{}}'.format('x', 1000000000) }}",
    "{{ ('{:>9999}' * 100000).format(*range(100000)) }}",
    "{% set n = ('f' * 4000000)|int(base=16) %}{% for i in range(9999) %}{{ n // 3 }}{% endfor %}",
    "{% set n = 0x"
    + "f" * 30_000
    + " %}{% for i in range(9999) %}"
    + "{% set y = n // (n // 7) %}" * 900
    + "{% endfor %}",
    "{{ ('a ' * 4000000)|title }}",
    "{{ ('a ' * 4000000)|wordcount }}",
    "{{ ('a ' * 4000000).split()|length }}",
    "{{ ('a\\r' * 4000000).splitlines()|length }}",
    "{{ '%1000000000s'|format('x') }}",
    "{{ '{:>1000000000}'.format('x') }}",
    "{{ '{:>{}}'.format('x', 1000000000) }}",
    "{{ 'x'|center(2000000000) }}",
    "{{ 'x'.center(2000000000) }}",
    "{{ 'x'.ljust(2000000000) }}{{ 'x'.zfill(2000000000) }}",
    "{{ '\t'.expandtabs(2000000000) }}",
    "{{ 'x\ny'|indent(2000000000) }}",
    "{{ {'a': 1}|tojson(indent=1000000000) }}",
    "{{ 'x'|replace('', 'y' * 1000000)|replace('', 'y' * 1000000) }}",
    "{{ range(99999)|map('center', 100000)|join }}",
    "{{ range(99999)|map('string')|map('center', 100000)|list|length }}",
    "{{ [1]|batch(1000000000, 'x')|list }}",
    "{{ [1]|slice(1000000000)|list }}",
    "{{ 1.5|round(1000000000, 'ceil') }}",
    "{{ strftime_now('%1000000000Y') }}",
    "{{ (1).to_bytes(2000000000, 'big') }}",
    DOUBLED + "{{ ns.a }}",
    DOUBLED + "{{ ns.a|tojson }}",
    DOUBLED + "{{ ns.a|string|length }}",
    DOUBLED + "{{ ns.a ~ 'x' }}",
    DOUBLED + "{{ ns.a|upper }}",
    DOUBLED + "{{ '%s' % ns.a }}",
    DOUBLED + "{{ '{}'.format(ns.a) }}",
    DOUBLED + "{{ raise_exception(ns.a) }}",
    DOUBLED + "{{ {'k': ns.a}.values() }}",
    DOUBLED + "{{ [{'k': ns.a}.items()]|string }}",
    DOUBLED + "{{ ns.a is lower }}",
    DOUBLED + "{{ 'x'|attr(ns.a) }}",
    DOUBLED + "{{ [].index(ns.a) }}",
    DOUBLED + "{{ namespace(x=ns.a) }}",
    DOUBLED + "{{ {'k': ns.a}.items() == {'k': [ns.a]}.items() }}",
    DOUBLED
    + "{% set nt = namespace(a=[1]) %}{% for i in range(60) %}{% set nt.a = [nt.a, nt.a] %}{% endfor %}{{ ns.a == nt.a }}",
    DOUBLED.replace("[ns.a, ns.a]", "(ns.a, ns.a)").replace("[1]", "(1, 1)") + "{{ {ns.a: 1} }}",
    DOUBLED.replace("[ns.a, ns.a]", "(ns.a, ns.a)").replace("[1]", "(1, 1)") + "{{ {1: 1}[ns.a] }}",
    DOUBLED.replace("[ns.a, ns.a]", "(ns.a, ns.a)").replace("[1]", "(1, 1)") + "{{ {1: 1}.get(ns.a) }}",
    DOUBLED.replace("[ns.a, ns.a]", "(ns.a, ns.a)").replace("[1]", "(1, 1)") + "{{ [ns.a, ns.a]|unique|list }}",
    DOUBLED + "{{ [ns.a, ns.a]|sort }}",
    DOUBLED + "{{ [ns.a]|select('equalto', ns.a)|list }}",
    BIG + "{% for i in range(99999) %}{{ 'zz' in big }}{% endfor %}",
    BIG + "{% for i in range(99999) %}{% if big + 'x' == big + 'y' %}{% endif %}{% endfor %}",
    BIG + "{{ big.rfind('x' + 'ab' * 1000000) }}",
    BIG + "{{ big.strip('b' * 1000000 + 'a') }}",
    BIG + "{{ big|trim('cd' * 1000000) }}",
    BIG + "{% for i in range(99999) %}{% set x = big.split('a') %}{% endfor %}",
    BIG + "{% for i in range(99999) %}{% set x = big|list %}{% endfor %}",
    BIG + "{% for i in range(99999) %}{% set x = big|upper %}{% endfor %}",
    BIG + "{% for i in range(99999) %}{% set x = big[1:] %}{% endfor %}",
    BIG + "{% for i in range(99999) %}{{ big }}{% endfor %}",
    BIG + "{{ [big, big, big, big, big, big, big, big]|join|e|e }}",
    "{{ range(99999)|map('default', range(99999)|list, true)|sum(start=[]) }}",
    "{% for i in range(99999) %}{{ range(99999)|list|sort|unique|list|length }}{% endfor %}",
    "{% for i in range(99999) %}{{ range(99999)|max }}{{ range(99999)|sum }}{% endfor %}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_template_does_not_get_out_of_the_sandbox(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = ""

    with contextlib.suppress(TemplateInvalid, TemplateFailed):
        output = CompiledTemplate(source).render({"messages": MESSAGES}, RenderBudget())

    assert not list(tmp_path.iterdir())
    assert "<class" not in output
    assert "root:" not in output
    assert "<function" not in output
    assert MESSAGES[0] == {"role": "user", "content": "hello"}
    assert len(MESSAGES) == 2


@pytest.mark.parametrize("source", ATTACKS)
def test_template_that_asks_for_too_much_is_ended_in_time(source: str) -> None:
    memory_before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin_s = time.process_time()

    with pytest.raises((TemplateFailed, TemplateInvalid)):
        CompiledTemplate(source).render({"messages": MESSAGES}, RenderBudget())

    assert time.process_time() - begin_s < MAX_ATTACK_CPU_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before_kib < 400 << 10


def test_limits_are_told_as_limits() -> None:
    with pytest.raises(TemplateFailed, match="limit") as caught:
        CompiledTemplate("{{ 'x' * 10000000000 }}").render({}, RenderBudget())

    assert caught.value.kind is FailureKind.LIMIT


@pytest.mark.parametrize(
    "source",
    [
        "x" * (MAX_SOURCE_CHARS + 1),
        "{% if " + "(" * 5_000 + ")" * 5_000 + " %}{% endif %}",
        "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
        "{{ 1" + " + 1" * 20_000 + " }}",
        "{% if x %}" * 2_000 + "{% endif %}" * 2_000,
        "{% for x in y %}" * 60 + "{% endfor %}" * 60,
        "{{ x" + "|upper" * 20_000 + " }}",
        "{% autoescape true %}{{ x }}{% endautoescape %}",
        "{{ unclosed",
        "{% endfor %}",
        "{% unknown_tag %}",
    ],
)
def test_text_that_cannot_be_compiled_is_invalid(source: str) -> None:
    begin_s = time.process_time()

    with pytest.raises(TemplateInvalid):
        CompiledTemplate(source)

    assert time.process_time() - begin_s < MAX_ATTACK_CPU_S


def test_largest_template_compiles_in_bounded_time() -> None:
    statement = "{{ 'x'|center(9000) }}"
    begin_s = time.process_time()

    CompiledTemplate(statement * (MAX_SOURCE_CHARS // len(statement)))

    assert time.process_time() - begin_s < 2


def test_message_as_large_as_a_body_may_be_is_rendered() -> None:
    content = "word " * 2_000_000
    template = CompiledTemplate(
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content|trim + '<|end|>' }}{% endfor %}"
    )

    prompt = template.render(
        {"messages": [{"role": "user", "content": content}]}, RenderBudget(input_chars=len(content))
    )

    assert prompt == f"<|user|>{content.strip()}<|end|>"


def test_namespace_tells_nothing_of_what_it_holds() -> None:
    source = DOUBLED + "{{ ns }}{{ [ns]|string }}{{ '%s' % ns }}{{ '{}'.format(ns) }}"

    assert CompiledTemplate(source).render({}, RenderBudget()) == "<Namespace>[<Namespace>]<Namespace><Namespace>"


def test_length_and_ends_of_a_large_text_cost_little() -> None:
    content = "word " * 2_000_000
    source = "{% for i in range(1000) %}{{ content|length if content.endswith('x') else content|first }}{% endfor %}"

    assert CompiledTemplate(source).render({"content": content}, RenderBudget(input_chars=len(content))) == "w" * 1_000


def test_thousands_of_messages_are_rendered() -> None:
    messages = [{"role": "user", "content": f"message {number}"} for number in range(5_000)]
    template = CompiledTemplate("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}")
    chars = sum(len(message["content"]) for message in messages)

    prompt = template.render({"messages": messages}, RenderBudget(input_chars=chars))

    assert prompt.count("<|end|>") == 5_000
