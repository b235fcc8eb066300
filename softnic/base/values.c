/* SPDX-License-Identifier: Apache-2.0 */
/* Reads numbers, sizes, times and probabilities as people write them. */
#include "softnic/base/values.h"

#include <stdio.h>
#include <string.h>

enum { TIME_UNITS = 4 };
static const struct {
    const char *unit;
    uint64_t ns;
} times[TIME_UNITS] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

bool sn_read_u64(const char *text, uint64_t *value)
{
    uint64_t v = 0;

    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
    }
    *value = v;
    return true;
}

/* Not strtod, whose decimal point depends on the locale. */
bool sn_read_probability(const char *text, double *value)
{
    double v = 0, scale = 1;
    int digits = 0;

    for (; *text >= '0' && *text <= '9'; text++, digits++) v = v * 10 + (*text - '0');
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, digits++) v += (*text - '0') * (scale /= 10);
    }
    if (*text == '%') {
        v /= 100;
        text++;
    }
    *value = v;
    return !*text && digits && v <= 1;
}

/* The digits that text begins with. Returns what follows them, NULL if there are none or too many. */
static const char *leading_number(const char *text, uint64_t *value)
{
    char number[24];
    size_t len = strspn(text, "0123456789");

    if (len >= sizeof(number)) return NULL;
    memcpy(number, text, len);
    number[len] = 0;
    return sn_read_u64(number, value) ? text + len : NULL;
}

bool sn_read_time(const char *text, uint64_t max_ns, uint64_t *ns)
{
    uint64_t factor = 0, v;
    const char *unit = leading_number(text, &v);

    if (!unit) return false;
    if (!*unit) factor = 1;
    for (int i = 0; i < TIME_UNITS; i++) {
        if (strcmp(unit, times[i].unit) == 0) factor = times[i].ns;
    }
    if (!factor || v > max_ns / factor) return false;
    *ns = v * factor;
    return true;
}

bool sn_read_size(const char *text, uint64_t base, uint64_t *value)
{
    static const char units[] = "kMG";
    const char *unit = leading_number(text, value), *at;

    if (!unit) return false;
    if (!*unit) return true;
    at = strchr(units, *unit == 'K' ? 'k' : *unit);
    if (!at || unit[1]) return false;
    for (; at >= units; at--) {
        if (__builtin_mul_overflow(*value, base, value)) return false;
    }
    return true;
}

const char *sn_time_text(uint64_t ns, char *buf, size_t room)
{
    int i = TIME_UNITS - 1;

    while (i && (!ns || ns % times[i].ns)) i--;
    snprintf(buf, room, "%llu%s", (unsigned long long)(ns / times[i].ns), times[i].unit);
    return buf;
}
