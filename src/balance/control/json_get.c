/* SPDX-License-Identifier: Apache-2.0 */
/* Members of an object, each with the values that it may have. */
#include "src/balance/control/json_get.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

int gw_bal_get_number(const json_t *from, const char *name, uint64_t least, uint64_t most, uint64_t *out)
{
    const json_t *v = json_object_get(from, name);
    if (!v) return 0;
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n < least || (uint64_t)n > most)
        return gw_error(-EINVAL, "%s: expected a number from %llu to %llu", name, (unsigned long long)least,
                        (unsigned long long)most);
    *out = (uint64_t)n;
    return 1;
}

/* Printable, and without a quote: it may be written into a file and into requests. */
int gw_bal_get_text(const json_t *from, const char *name, char *out, size_t size)
{
    const json_t *v = json_object_get(from, name);
    const char *text = json_string_value(v);
    if (!v) return 0;
    if (!text) return gw_error(-EINVAL, "%s: expected a string", name);
    if (strlen(text) >= size)
        return gw_error(-EINVAL, "%s: must have at most %zu characters", name, size - 1);
    for (const char *c = text; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"') return gw_error(-EINVAL, "%s: must be printable ASCII", name);
    snprintf(out, size, "%s", text);
    return 1;
}

int gw_bal_get_yes(const json_t *from, const char *name, uint8_t *out)
{
    const json_t *v = json_object_get(from, name);
    if (!v) return 0;
    if (!json_is_boolean(v)) return gw_error(-EINVAL, "%s: expected true or false", name);
    *out = json_is_true(v);
    return 1;
}
