/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a chat template: parsed, and rendered with messages that hold values of all kinds. Templates
 * are put together from fragments of the language, so that most of them parse. The text that comes is
 * UTF-8, and has a mark for each byte.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/chat.h"
#include "src/generate/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static const char variables[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\u00e9 "
                                "nice.\\n\"},{\"role\":\"user\",\"content\":\" a b<|end|>\"},"
                                "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{"
                                "\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,true,null,{}]}}}]}],"
                                "\"s\":\"h\\u00e9l\\tlo\",\"n\":7,\"f\":-1.5e300,\"l\":[3,1,2],\"d\":{\"b\":"
                                "1,\"a\":\"x\"},\"e\":\"\",\"z\":null,\"t\":true}";

static const char *const fragments[] = {
    "{{ ",
    " }}",
    "{{- ",
    " -}}",
    "{% ",
    " %}",
    "{%- ",
    " -%}",
    "{# x #}",
    "\n",
    "  ",
    "for m in messages ",
    "for k, v in d.items() ",
    "{% for m in messages %}",
    "{% endfor %}",
    "{% if n %}",
    "{% elif s %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = ",
    "{% set ns = namespace(a=1) %}",
    "{% set ns.a = ",
    "{% set y %}",
    "{% endset %}",
    "{% macro f(a, b=2) %}",
    "{% endmacro %}",
    "{{ f(",
    "{% call f(1) %}",
    "{% endcall %}",
    "{% with a = 1 %}",
    "{% endwith %}",
    "{% filter upper %}",
    "{% endfilter %}",
    "{% raw %}",
    "{% endraw %}",
    "{% break %}",
    "{% continue %}",
    "{% generation %}",
    "{% endgeneration %}",
    "s",
    "n",
    "f",
    "l",
    "d",
    "e",
    "z",
    "t",
    "m",
    "x",
    "messages",
    "loop",
    "caller()",
    "m.role",
    "m['content']",
    "m.content",
    "loop.index",
    "loop.cycle(1, 2)",
    "loop.changed(m)",
    "ns.a",
    "'a'",
    "\"b\\u00e9\\n\"",
    "1",
    "-2",
    "3.5",
    "1e9",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":",
    ",",
    ".",
    " + ",
    " - ",
    " * ",
    " / ",
    " // ",
    " % ",
    " ** ",
    " ~ ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " in ",
    " not ",
    " and ",
    " or ",
    " if ",
    " else ",
    " is ",
    " is not ",
    "defined",
    "none",
    "string",
    "mapping",
    "odd",
    "divisibleby(2)",
    "eq(1)",
    "[1:]",
    "[::-1]",
    "[0]",
    "[-1]",
    " | trim",
    " | length",
    " | upper",
    " | title",
    " | tojson",
    " | tojson(indent=2)",
    " | join(', ')",
    " | default('q')",
    " | first",
    " | last",
    " | list",
    " | sort",
    " | reverse",
    " | unique",
    " | sum",
    " | min",
    " | int",
    " | float",
    " | round(1)",
    " | string",
    " | replace('a', 'bb')",
    " | items",
    " | dictsort",
    " | map('upper')",
    " | map(attribute='role')",
    " | selectattr('role', 'eq', 'user')",
    " | reject('odd')",
    " | indent(2)",
    " | escape",
    ".strip()",
    ".split()",
    ".split('l', 1)",
    ".rsplit(None, 2)",
    ".replace('', '-')",
    ".startswith('h')",
    ".upper()",
    ".title()",
    ".find('l')",
    ".splitlines()",
    ".items()",
    ".keys()",
    ".get('a')",
    ".join(l)",
    ".count('l')",
    "range(5)",
    "range(9, 0, -2)",
    "dict(a=1)",
    "raise_exception('x')",
    "strftime_now('%Y')",
    "true",
    "false",
};
#define FRAGMENTS (sizeof(fragments) / sizeof(fragments[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *values, *tokens;
    if (!values) {
        values = json_loads(variables, 0, NULL);
        tokens = json_pack("{s:s}", "bos_token", "<s>");
    }
    struct gen_chat *c;
    struct gen_rendered r;
    if (gen_chat_parse((const char *)data, size, tokens, &c)) return 0;
    if (!gen_chat_render(c, values, &r)) {
        bool whole = true, open;
        for (size_t i = 0; i < r.bytes && whole;) i += gen_utf8_scan(r.text + i, r.bytes - i, &whole, &open);
        if (!whole) abort();
        for (size_t i = 0; i < r.bytes; i++) {
            if (r.foreign[i] > 1) abort();
        }
        gen_rendered_free(&r);
    }
    gen_chat_close(c);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
    unsigned int places = 1 + seed / 8 % 4;
    for (unsigned int i = 0; i < places; i++) {
        seed = seed * 1103515245u + 12345u;
        const char *fragment = fragments[(seed >> 8) % FRAGMENTS];
        size_t n = strlen(fragment), at = size ? (seed >> 3) % (size + 1) : 0;
        if (seed % 3) at = size; /* templates grow at their end most of the time */
        if (size + n > max_size) break;
        memmove(data + at + n, data + at, size - at);
        memcpy(data + at, fragment, n);
        size += n;
    }
    return size;
}
