/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the elements of a tensor as JSON numbers. */
#include "src/server/http/elements.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/model.h>

#include "src/exec/c_locale.h"

#define DEPTH 16 /* arrays in one another: more than a tensor can have dimensions */

bool gw_elements_in_json(uint32_t dtype)
{
    return gw_dtype_bytes(dtype) && dtype != GW_DTYPE_F16 && dtype != GW_DTYPE_BF16;
}

/* ---- reading ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* JSON's numbers, not all that strtod knows: no "inf", no "0x1". */
static bool looks_like_number(const char *p)
{
    if (*p == '-') p++;
    return is_digit(p[0]) && (p[0] != '0' || (p[1] != 'x' && p[1] != 'X' && !is_digit(p[1])));
}

static const char *read_float(const char *p, uint32_t dtype, void *to)
{
    char *end;
    double v = strtod(p, &end);
    if (dtype == GW_DTYPE_F64) {
        if (!isfinite(v)) return NULL;
        memcpy(to, &v, sizeof(v));
        return end;
    }
    float f = (float)v;
    if (!isfinite(f)) return NULL;
    memcpy(to, &f, sizeof(f));
    return end;
}

/* The least and the greatest value of an integer type, the latter of an unsigned one as it is. */
static void elements_range(uint32_t dtype, int64_t *least, uint64_t *most)
{
    uint32_t bits = (uint32_t)gw_dtype_bytes(dtype) * 8;
    int is_signed =
        dtype == GW_DTYPE_I8 || dtype == GW_DTYPE_I16 || dtype == GW_DTYPE_I32 || dtype == GW_DTYPE_I64;
    *most = UINT64_MAX >> (64 - bits + (uint32_t)is_signed);
    *least = is_signed ? -(int64_t)*most - 1 : 0;
}

static const char *read_integer(const char *p, uint32_t dtype, void *to)
{
    int64_t least;
    uint64_t most, bits;
    char *end;
    elements_range(dtype, &least, &most);
    errno = 0;
    if (*p == '-') {
        int64_t v = strtoll(p, &end, 10);
        if (errno || v < least) return NULL;
        bits = (uint64_t)v;
    } else {
        bits = strtoull(p, &end, 10);
        if (errno || bits > most) return NULL;
    }
    if (*end == '.' || *end == 'e' || *end == 'E') return NULL;
    memcpy(to, &bits, gw_dtype_bytes(dtype)); /* the low bytes come first */
    return end;
}

static const char *read_bool(const char *p, uint8_t *to)
{
    int yes = !strncmp(p, "true", 4);
    if (!yes && strncmp(p, "false", 5)) {
        if ((*p != '0' && *p != '1') || is_digit(p[1]) || p[1] == '.') return NULL;
        *to = *p == '1';
        return p + 1;
    }
    *to = (uint8_t)yes;
    return p + (yes ? 4 : 5);
}

/* One element; returns what follows it, or NULL. */
static const char *elements_read_one(const char *p, uint32_t dtype, void *to)
{
    if (dtype == GW_DTYPE_BOOL) return read_bool(p, to);
    if (!looks_like_number(p)) return NULL;
    return dtype == GW_DTYPE_F32 || dtype == GW_DTYPE_F64 ? read_float(p, dtype, to)
                                                          : read_integer(p, dtype, to);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Where the reader is in the arrays. */
struct arrays {
    uint32_t depth;
    int after_value, after_open; /* what came last; else a comma, or nothing yet */
};

/* A bracket or comma: 1 when it may stand there. */
static int take_mark(struct arrays *a, char c)
{
    int fits = 0;
    switch (c) {
    case '[':
        fits = !a->after_value && a->depth < DEPTH;
        a->depth++;
        break;
    case ']':
        fits = a->depth && (a->after_value || a->after_open);
        a->depth--;
        break;
    default: fits = a->after_value && a->depth; break;
    }
    a->after_value = c == ']';
    a->after_open = c == '[';
    return fits;
}

static int elements_read_all(const char *text, size_t bytes, uint32_t dtype, uint64_t count, void *to,
                             const char **why)
{
    const char *p = text, *end = text + bytes;
    uint64_t n = 0, each = gw_dtype_bytes(dtype);
    struct arrays a = {0};
    *why = "its data is not an array of numbers that the datatype can hold";
    if (p == end || *p != '[') return -1;
    while (p < end) {
        if (is_space(*p)) {
            p++;
        } else if (*p == '[' || *p == ']' || *p == ',') {
            if (!take_mark(&a, *p++)) return -1;
        } else {
            if (a.after_value) return -1;
            if (n == count) {
                *why = "its data has more elements than its shape";
                return -1;
            }
            p = elements_read_one(p, dtype, (uint8_t *)to + n++ * each);
            if (!p || p > end) return -1;
            a.after_value = 1;
            a.after_open = 0;
        }
    }
    if (a.depth) return -1;
    *why = "its data has fewer elements than its shape";
    return n == count ? 0 : -1;
}

int gw_elements_read(const char *text, size_t bytes, uint32_t dtype, uint64_t count, void *to,
                     const char **why)
{
    locale_t before = gw_c_locale_enter();
    int wrong = elements_read_all(text, bytes, dtype, count, to, why);
    gw_c_locale_leave(before);
    return wrong;
}

/* ---- writing ---- */

static int write_real(char *at, size_t room, double v, int digits)
{
    return isfinite(v) ? snprintf(at, room, "%.*g", digits, v) : snprintf(at, room, "null");
}

static int write_one(char *at, size_t room, uint32_t dtype, const uint8_t *from)
{
    union {
        float f32;
        double f64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } v = {0};
    memcpy(&v, from, gw_dtype_bytes(dtype));
    switch (dtype) {
    case GW_DTYPE_F32: return write_real(at, room, (double)v.f32, 9); /* digits that tell any two apart */
    case GW_DTYPE_F64: return write_real(at, room, v.f64, 17);
    case GW_DTYPE_BOOL: return snprintf(at, room, v.u8 ? "true" : "false");
    case GW_DTYPE_I8: return snprintf(at, room, "%d", v.i8);
    case GW_DTYPE_I16: return snprintf(at, room, "%d", v.i16);
    case GW_DTYPE_I32: return snprintf(at, room, "%" PRId32, v.i32);
    case GW_DTYPE_I64: return snprintf(at, room, "%" PRId64, v.i64);
    case GW_DTYPE_U8: return snprintf(at, room, "%u", v.u8);
    case GW_DTYPE_U16: return snprintf(at, room, "%u", v.u16);
    case GW_DTYPE_U32: return snprintf(at, room, "%" PRIu32, v.u32);
    default: return snprintf(at, room, "%" PRIu64, v.u64);
    }
}

static void elements_write_all(struct gw_text *t, uint32_t dtype, uint64_t count, const void *from)
{
    const size_t most = 32; /* bytes of one element, and its comma */
    const uint8_t *p = from;
    gw_text_add(t, "[", 1);
    for (uint64_t i = 0; i < count; i++, p += gw_dtype_bytes(dtype)) {
        char *at = gw_text_room(t, most);
        if (!at) return;
        if (i) *at++ = ',';
        t->bytes += (size_t)write_one(at, most - 1, dtype, p) + (i > 0);
    }
    gw_text_add(t, "]", 1);
}

void gw_elements_write(struct gw_text *t, uint32_t dtype, uint64_t count, const void *from)
{
    locale_t before = gw_c_locale_enter();
    elements_write_all(t, dtype, count, from);
    gw_c_locale_leave(before);
}
