"""What a template can use: everything that Hugging Face gives it, with the same results."""

import time

import pytest

from prism.chat.template import CompiledTemplate
from prism.chat.template_budget import RenderBudget
from prism.chat.template_errors import FailureKind, TemplateFailed, TemplateInvalid


def render(source: str, **variables: object) -> str:
    return CompiledTemplate(source).render(variables, RenderBudget())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ {'a': '<b> & é \"'} | tojson }}", '{"a": "<b> & é \\""}'),
        ("{{ {'b': 1, 'a': [true, none]} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": [\n    true,\n    null\n  ]\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}", '{"a":2,"b":1}'),
        ("{{ 'é' | tojson(true) }}", '"\\u00e9"'),
        ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        (
            "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
            "13",
        ),
        ("{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}", "a1False"),
        ("  {% if true %}\n  a\n  {% endif %}\nb", "  a\nb"),
        ("{{ ' a '|trim ~ 1 ~ none ~ [1] }}", "a1None[1]"),
        ("{{ '<' ~ ('b>'|safe) ~ '&' + ('<c>'|safe) }}", "<b>&<c>"),
        ("{{ '<a>'|e }}", "&lt;a&gt;"),
        (
            "{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(1, true) }}|{{ 'a\n\nb'|indent('>', blank=true) }}",
            "a\n  b\n\n  c| a\n b|a\n>\n>b",
        ),
        ("{{ 'x'|center(5) }}|{{ 'x'.rjust(3) }}|{{ '7'.zfill(3) }}", "  x  |  x|007"),
        ("{{ 'a-b-c'|replace('-', '+', 1) }}{{ 'aa'.replace('a', 'b') }}", "a+b-cbb"),
        ("{{ '%s=%05.1f%%' | format('x', 1.25) }} {{ '%s' % 'y' }} {{ '%(k)s' % {'k': 'v'} }}", "x=001.2% y v"),
        ("{{ '{} {:>4} {k}'.format(1, 'a', k='z') }}", "1    a z"),
        (
            "{{ [1, 2]|join(', ') }}{{ m|map(attribute='role')|join('/') }}{{ m|join('', attribute='role') }}",
            "1, 2u/aua",
        ),
        ("{{ ', '.join(['a', 'b']) }}{{ 'a,b'.split(',')|length }}{{ 'xay'.strip('xy') }}", "a, b2a"),
        (
            "{{ m|selectattr('role', 'equalto', 'u')|list|length }}{{ m|rejectattr('role', 'in', ['u'])|list|length }}",
            "11",
        ),
        (
            "{{ [3, 1, 2]|sort|list }}{{ [1, 1]|unique|list }}{{ [1, 2]|sum }}{{ m|sum(attribute='n') }}",
            "[1, 2, 3][1]33",
        ),
        ("{{ {'b': 1, 'a': 2}|dictsort }}{{ {'a': 1}|items|list }}", "[('a', 2), ('b', 1)][('a', 1)]"),
        (
            "{{ [1, 2, 3]|batch(2)|list }}{{ 2.567|round(1) }}{{ 2.5|round(0, 'floor') }}{{ 2.1|round(0, 'ceil') }}",
            "[[1, 2], [3]]2.62.03.0",
        ),
        (
            "{{ none|default('a', true) }}{{ b|default('c') }}{{ '5'|int + 1 }}{{ 'x'|upper|lower|title|capitalize }}",
            "ac6X",
        ),
        (
            "{% for a in m %}{{ loop.index }}{{ loop.last }}{{ loop.previtem is defined }}{{ loop.length }} {% endfor %}",
            "1FalseFalse2 2TrueTrue2 ",
        ),
        ("{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ x }}{{ loop.index }}{% else %}none{% endfor %}", "2142"),
        ("{% for n in t recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}", "1(2(3))"),
        (
            "{% macro f(a, b='z') %}[{{ a }}{{ b }}{{ caller() if caller }}]{% endmacro %}{{ f(1) }}{% call f(2) %}c{% endcall %}",
            "[1z][2zc]",
        ),
        ("{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "4"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}{% filter upper %}b{% endfilter %}", "a1B"),
        (
            "{{ m[0]['role'] }}{{ m[0].role }}{{ m[0].get('q', 'd') }}{{ m[-1:]|length }}{{ m[0].items()|list|length }}",
            "uud12",
        ),
        (
            "{{ 'u' in m[0].role }}{{ 'role' in m[0] }}{{ m[0] == m[-1] }}{{ 1 < 2 <= 2 }}{{ m[0].x is none }}",
            "TrueTrueFalseTrueFalse",
        ),
        (
            "{{ x is defined }}{{ m is iterable }}{{ m[0] is mapping }}{{ 'a' is string }}{{ [] is sequence }}",
            "FalseTrueTrueTrueTrue",
        ),
        ("{{ [1] + [2] }}{{ 'ab' * 2 }}{{ 2 ** 10 }}{{ 7 // 2 }}{{ 7 % 4 }}{{ 'abc'[::-1] }}", "[1, 2]abab102433cba"),
        (
            "{{ dict(a=1).a }}{{ no }}{{ no|length }}{{ []|length }}{{ ''|length }}{{ {}|items|list }}{{ []|sort }}{{ []|max }}",
            "1000[][]",
        ),
        (
            "{{ []|join(',') }}{{ []|map('upper')|list }}{{ []|first is undefined }}{{ []|sum }}{{ no|list }}{{ no|join }}",
            "[]True0[]",
        ),
    ],
)
def test_result_is_what_hugging_face_gives(source: str, expected: str) -> None:
    messages = [{"role": "u", "n": 1}, {"role": "a", "n": 2}]
    tree = [{"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}]}]

    assert render(source, m=messages, t=tree) == expected


def test_today_is_the_local_date() -> None:
    days = {time.strftime("%d %b %Y")}
    written = render("{{ strftime_now('%d %b %Y') }}")
    days.add(time.strftime("%d %b %Y"))

    assert written in days


def test_refusal_of_the_template_is_told_apart_from_a_fault() -> None:
    with pytest.raises(TemplateFailed, match="no such role") as raised:
        render("{{ raise_exception('no such role') }}")

    with pytest.raises(TemplateFailed, match="TypeError") as broke:
        render("{{ 'a' + {} }}")

    assert (raised.value.kind, broke.value.kind) == (FailureKind.RAISED, FailureKind.BROKE)


@pytest.mark.parametrize("name", ["lipsum", "cycler", "joiner"])
def test_toys_of_jinja_are_not_there(name: str) -> None:
    assert render("{{ " + name + " is defined }}") == "False"


@pytest.mark.parametrize("name", ["pprint", "urlize", "xmlattr", "filesizeformat", "random", "wordwrap", "striptags"])
def test_unused_filter_fails_only_where_it_runs(name: str) -> None:
    assert render("{% if false %}{{ 1|" + name + " }}{% endif %}ok") == "ok"

    with pytest.raises(TemplateFailed):
        render("{% if true %}{{ 1|" + name + " }}{% endif %}")

    with pytest.raises(TemplateInvalid):
        render("{{ 1|" + name + " }}")


def test_a_failed_rendering_leaves_the_template_usable() -> None:
    template = CompiledTemplate("{{ raise_exception('no') if bad else 'fine' }}")

    with pytest.raises(TemplateFailed):
        template.render({"bad": True}, RenderBudget())

    assert template.render({"bad": False}, RenderBudget()) == "fine"
