# SPDX-License-Identifier: Apache-2.0
"""Small templates: EQUAL must give what Jinja gives, REFUSED an error that holds a text."""

VARIABLES = [
    {"s": "Hello, World", "n": 7, "f": 2.5, "l": [3, 1, 2], "d": {"b": 1, "a": [1, "x"], "items": 5}, "e": "", "z": None,
     "m": [{"role": "user", "content": " a b\n"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d", "x": {"y": 1}}],
     "u": "naïve ÉCOLE 日本 straße\tx", "q": "it's \"x\" \\ \n <&>"},
]

EQUAL = """
{{ s }}|{{ n }}|{{ f }}|{{ l }}|{{ d }}|{{ z }}|{{ none_such }}|{{ true }}|{{ [1.0, 1e100, 1e-5, 123456789.125, 0.1] }}
{{ q }}{{ [q, u] }}
{{ q | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(sort_keys=true) }} {{ u | tojson(ensure_ascii=true) }} {{ d | tojson(separators=(',', ':')) }}
{{ [] | tojson(indent=2) }} {{ {} | tojson }} {{ [[], {}] | tojson(indent=1) }} {{ "\\u0001\\x7f😀" | tojson(true) }}
{{ s | upper }} {{ s | lower }} {{ u | title }} {{ u | upper }} {{ u | capitalize }} {{ s | length }} {{ u | length }} {{ l | length }} {{ d | count }}
{{ s.upper() }} {{ u.title() }} {{ s.lower() }} {{ s.capitalize() }} {{ u.isalpha() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'a1'.isalnum() }} {{ 'ab'.islower() }} {{ 'AB1'.isupper() }}
{{ '  x y '.strip() }}|{{ '  x '.lstrip() }}|{{ ' x  '.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abcab'.lstrip('ba') }}|{{ '\\n\\nq\\n'.strip('\\n') }}
{{ s.split() }} {{ s.split(', ') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.split(None, 1) }} {{ ' a  b c '.rsplit(None, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'a\\nb\\n'.splitlines(true) }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 2) }} {{ 'ab'.replace('', '-') }} {{ 'ab'.replace('', '-', 1) }} {{ s | replace('o', '0') }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ u.find('日') }} {{ s.count('l') }} {{ s.index('W') }} {{ ''.count('') }} {{ 'aaa'.count('aa') }}
{{ s[0] }} {{ s[-1] }} {{ u[2] }} {{ s[99] }} {{ s[:3] }} {{ s[3:] }} {{ s[::-1] }} {{ u[1:5] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:] }} {{ s[1:8:3] }} {{ s[8:1:-2] }} {{ l[0] }} {{ l[7] }} {{ m[-1].content }}
{{ d.b }} {{ d['a'] }} {{ d.a[1] }} {{ d.nothing }} {{ d.get('b') }} {{ d.get('q', 4) }} {{ d['items'] }} {{ d.keys() | list }} {{ d.values() | list }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %}
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ 7.5 % 2 }} {{ 1e3 }} {{ 1_000 }} {{ -n }} {{ +n }} {{ -n + 1 }} {{ 2 * -3 }} {{ 8 / 4 }}
{{ s ~ n ~ f ~ none }} {{ 'a' 'b' 'c' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ [0] * 3 }} {{ 2 ~ 3 + 4 }} {{ 1 + 2 ~ 3 }} {{ 3 * 'x' }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' != 'b' }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }} {{ 2 >= 2 }} {{ 3 <= 2 }} {{ none == none }} {{ '' == none }} {{ x == y }} {{ 1 in [1] }} {{ 3 not in l }} {{ 'b' in d }} {{ 'ell' in s }} {{ not 1 in [1] }} {{ l == [3, 1, 2] == l }}
{{ 1 and 0 }} {{ 1 or 2 }} {{ '' or 'x' }} {{ not '' }} {{ not n and 2 }} {{ 'y' if n else 'no' }} {{ 'y' if e }}| {{ 'a' if e else 'b' if z else 'c' }} {{ n > 5 and s and 'deep' }}
{{ s is string }} {{ n is number }} {{ n is integer }} {{ f is float }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ z is none }} {{ z is not none }} {{ q is defined }} {{ qq is defined }} {{ qq is undefined }} {{ qq is not defined }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ n is odd }} {{ n is even }} {{ 9 is divisibleby 3 }} {{ n is eq 7 }} {{ n is gt(3) }} {{ n is in [7] }} {{ s is lower }} {{ 'A' is upper }} {{ range is callable }} {{ n is ne 7 }} {{ z is sameas none }} {{ n is divisibleby(7) and true }} {{ d is sequence }} {{ n is string or z is none }} {{ s is equalto 'x' }}
{{ l | first }} {{ l | last }} {{ s | first }} {{ [] | first }}| {{ l | sort }} {{ l | sort(reverse=true) }} {{ l | reverse | list }} {{ s | reverse }} {{ l | sum }} {{ l | min }} {{ l | max }} {{ l | join('-') }} {{ l | join }} {{ m | join(', ', attribute='role') }} {{ d | items | list }} {{ d | dictsort }} {{ d | list }} {{ s | list }} {{ [1, 2, 1, 'a', 'A'] | unique | list }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }}
{{ m | map(attribute='role') | list }} {{ m | map(attribute='x.y') | list | length }} {{ ['a', 'b'] | map('upper') | join }} {{ m | selectattr('role', 'equalto', 'user') | list | length }} {{ m | rejectattr('role', 'eq', 'user') | map(attribute='content') | list }} {{ m | selectattr('x') | list }} {{ m | selectattr('x', 'defined') | list }} {{ [0, 1, 2] | select | list }} {{ [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('gt', 1) | list }} {{ m | map(attribute='q', default='-') | join }} {{ m | sort(attribute='role') | map(attribute='content') | join('/') }} {{ m | sum(attribute='n', start=3) if false }} {{ ['x'] | map('default', 'y') | list }}
{{ nope | default('dd') }} {{ e | default('dd') }} {{ e | default('dd', true) }} {{ nope | d }}| {{ z | default('q', boolean=true) }} {{ '3' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.7' | int }} {{ '2.5' | float }} {{ 3.7 | int }} {{ -3 | abs }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.2 | round(method='ceil') }} {{ n | string + 'x' }} {{ 1 | float }} {{ true | int }}
{{ '<a href="x">\\'' | escape }} {{ '<b>' | safe }} {{ 'a\\nb\\n\\nc' | indent }} {{ 'a\\nb' | indent(2, true) }} {{ 'a\\n\\nb' | indent(1, blank=true) }} {{ '  x ' | trim }}| {{ 'xax' | trim('x') }}
{% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(1, 10, 3) %}{{ i }},{% endfor %} {% for i in range(3, 0, -1) %}{{ i }}{% endfor %} {{ range(4) | list }} {% for x in [] %}a{% else %}none{% endfor %} {% for x in nope %}a{% else %}undefined{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %} {% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{% endfor %} {% for x in l %}{% for y in l %}{{ loop.depth }}{{ x * y }} {% endfor %}{{ loop.index }};{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for (a, b) in [(1, 2), (3, 4)] %}{{ a + b }}{% endfor %} {% for a, b in [[1, 2]] %}{{ b }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set ns = namespace(t=0) %}{% for i in l %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }} {% set y %}a{{ n }}b{% endset %}{{ y }}{{ y | length }} {% set w | upper | replace('A', 'z') %}abc{% endset %}{{ w }}
{% macro f(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}{{ s }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(a=5, c=6) }}{{ f() }} {% macro r(k) %}{{ k }}{% if k > 0 %}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(5) }} {% macro g() %}<{{ caller('q') }}>{% endmacro %}{% call(v) g() %}{{ v }}{{ n }}{% endcall %}
{% with p = 3, t = 4 %}{{ p + t }}{% endwith %}{{ p }} {% filter upper | replace('A', 'b') %}abc{% endfilter %} {% raw %}{{ not }}{% x %}{% endraw %} {% generation %}g{% endgeneration %} {# comment {{ x }} #}after
a\n  {% if true %}\nb\n  {% endif %}\nc
a   {%- if true -%}   b   {%- endif -%}   c
  {%+ if true %}x{%+ endif %}  y
  x {% if true %}\n\n z {% endif %}
{{- '  a ' -}}   \n  b {{ 'c' -}}  \n d
{#- x -#}  \n e   {# y #}\n f
\n\n{% for x in l %}\n  {{ x }}\n{% endfor %}\n\n
{% raw -%}  a  {%- endraw %} b\n{%- raw %}  c {% endraw -%}  d
  {% set x = 1 %}  \n{{ x }}\n
{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }} {{ {'a': 1, 'b': 2}['b'] }} {{ {1: 'x'}[1] }} {{ (1, 2)[1] }} {{ (1,) | length }} {{ () | length }} {{ [1, [2, [3]]] }} {{ {} }} {{ dict(a=1, b=2) }} {{ [1, 2,] }}
{{ "a\\tb\\\\n\\x41\\u00e9\\'" }} {{ 'x"y' }} {{ "x'y" }} {{ '\\q' }}
{{ m[0].content | trim | upper ~ '!' }} {{ m[0]['content'].strip().split(' ')[1] }} {{ (m | last).x.y }} {{ (l | first) + 1 }} {{ -l[0] }} {{ not l[0] == 3 }} {{ s | length > 5 }} {{ 1 if not z else 2 }} {{ m | length - 1 }} {{ n is defined and n > 3 }} {{ l|length * 2 }} {{ 'a' ~ 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ l.0 }} {{ m.0.role }}
{{ d is defined and d.items is defined }} {{ s.nothing is defined }} {{ z.x is defined }} {{ n.x | default('q') }} {{ s['length'] is defined }}
{{ x.y }}
{{ n + 'a' }}
{{ nope + 1 }}
{{ nope.x.y }}
{{ nope() }}
{{ raise_exception('no') }}
{{ 1 / 0 }}
{{ d.update({'a': 1}) }}
{{ l.append(1) }}
{{ 1 < 'a' }}
{{ [1, 'a'] | sort }}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% set d.x = 1 %}
{{ n | join }}
{% if %}{% endif %}
{% for x in l %}
{{ s }
{% endif %}
{{ 1 + }}
{{ 'a }}
{% if true %}{% endfor %}
{{ ) }}
{{ f(a=1, 2) if false else 3 }}
{{ 'a' | tojson | length }} {{ [1, 2] | map('string') | join('+') }} {{ d | tojson | replace('"', '') }} {{ "%s" if false else 1 }}
{% if n == 1 %}a{% elif n == 7 %}b{% elif n == 8 %}c{% else %}d{% endif %} {% if e %}a{% else %}{% if n %}b{% endif %}c{% endif %} {% if nope %}a{% endif %} {% if not nope %}b{% endif %}
{{ strftime_now('%Y') }} {{ namespace(a=1).a }} {{ range(3)[1] }} {{ range(5) | length }} {{ loop is defined }}
{{ 'İSTANBUL' | lower }} {{ 'ß' | upper }} {{ 'ǆ' | upper }} {{ 'x' | title }} {{ "they're bill's" | title }}
""".strip("\n").split("\n")
EQUAL = [t.replace("\\n", "\n").replace("\\\\", "\\") if not t.startswith(("{{ q", "{{ [] |", "{{ '  x y", "{{ s.split", "{{ '<a", "{{ \"a\\\\t")) else t.replace("\\\\", "\\") for t in EQUAL]

REFUSED = [
    ("{{ 1 | frobnicate }}", "filter 'frobnicate' is not supported"),
    ("a\n{{ 1 is frobnicated }}", "line 2"),
    ("{% include 'x' %}", "'include' is not supported"),
    ("{% for x in l recursive %}{% endfor %}", "recursive"),
    ("{{ f(*l) }}", "* and **"),
    ("\n\n{{ raise_exception('no\nway') }}", "line 3: no way"),
    ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "more than"),
    ("{% set t = 'a' * 900000 %}{% for i in range(900) %}{% if 'b' in t %}{% endif %}{% endfor %}", "too many steps"),
    ("{% set t = 'a' * 900000 %}{% for i in range(900) %}{% if t | length > 5 and t.isalpha() %}{% endif %}{% endfor %}", "too many steps"),
    ("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "more than"),
    ("{{ 'a' * 100000000 }}", "too often"),
    ("{{ range(1000000) }}", "more than 100000"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"),
    ("(" * 10 + "{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}", "deep"),
    ("{{ " + "not " * 1000 + "1 }}", "deep"),
    ("{{ 1" + " + 1" * 5000 + " }}", "deep"),
    ("{{ 9 ** 9 ** 9 }}", "too large"),
    ("{{ 9223372036854775807 + 1 }}", "too large"),
    ("{{ 99999999999999999999 }}", "too large"),
]
