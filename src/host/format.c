/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text out of a line that a kernel has written: its format, and values that say what they are. C's printf
 * does the work, one conversion at a time, and is only ever given a value of the type that the conversion
 * wants. Whatever the line holds, it is read within its bounds.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/host/server.h"

#define WIDTH_MAX 512

struct text {
    char *to;
    size_t room, n;
};

static void format_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void format_add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->to + t->n, t->room - t->n, format, args);
    va_end(args);
    if (n > 0) t->n = t->n + (size_t)n < t->room ? t->n + (size_t)n : t->room - 1;
}

/* A string of the line: where it is, and how long. */
static const char *string(const struct gw_print_line_ *l, uint64_t where, int *len)
{
    uint64_t at = where >> 32, n = (uint32_t)where;

    if (at > GW_PRINT_TEXT_) at = GW_PRINT_TEXT_;
    if (n > GW_PRINT_TEXT_ - at) n = GW_PRINT_TEXT_ - at;
    *len = (int)n;
    return (const char *)l->text + at;
}

/* A conversion: % flags width . precision, and whether its length says more than an int. */
struct spec {
    char flags[6];
    int width, precision; /* 0, -1: none */
    bool wide;
    char conversion;
};

static const char *format_number(const char *f, const char *end, int *out)
{
    for (*out = 0; f < end && *f >= '0' && *f <= '9'; f++)
        *out = *out < WIDTH_MAX ? 10 * *out + *f - '0' : WIDTH_MAX;
    if (*out > WIDTH_MAX) *out = WIDTH_MAX;
    return f;
}

/* Reads what follows a %; where it ends. */
static const char *read_spec(const char *f, const char *end, struct spec *s)
{
    size_t n = 0;

    memset(s, 0, sizeof(*s));
    s->precision = -1;
    for (; f < end && *f && strchr("-+ #0", *f); f++)
        if (n < sizeof(s->flags) - 1 && !strchr(s->flags, *f)) s->flags[n++] = *f;
    f = format_number(f, end, &s->width);
    if (f < end && *f == '.') f = format_number(f + 1, end, &s->precision);
    for (; f < end && *f && strchr("hljztL", *f); f++) s->wide |= *f != 'h';
    if (f < end) s->conversion = *f++;
    return f;
}

static double real(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The value as a conversion of integers, or of reals, wants it. */
static uint64_t as_integer(uint32_t kind, uint64_t v)
{
    double x = kind == GW_PRINT_REAL_ ? real(v) : 0;

    if (kind != GW_PRINT_REAL_) return v;
    return x >= -9.2e18 && x <= 9.2e18 ? (uint64_t)(int64_t)x : 0;
}

static double as_real(uint32_t kind, uint64_t v)
{
    return kind == GW_PRINT_REAL_ ? real(v) : kind == GW_PRINT_INT_ ? (double)(int64_t)v : (double)v;
}

/* A negative int has 32 bits for %x and %u, unless the length says that it was a longer one. */
static uint64_t as_unsigned(uint32_t kind, uint64_t v, bool wide)
{
    return kind == GW_PRINT_INT_ && !wide && (int64_t)v < 0 && (int64_t)v >= INT32_MIN ? (uint32_t)v
                                                                                       : as_integer(kind, v);
}

/* The conversion as C writes it, with a length. */
struct c_format {
    char text[48];
};

static struct c_format c_format(const struct spec *s, const char *length)
{
    char width[16] = "", precision[16] = "";
    struct c_format f;

    if (s->width) snprintf(width, sizeof(width), "%d", s->width);
    if (s->precision >= 0) snprintf(precision, sizeof(precision), ".%d", s->precision);
    snprintf(f.text, sizeof(f.text), "%%%s%s%s%s%c", s->flags, width, precision, length, s->conversion);
    return f;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void convert(struct text *t, const struct gw_print_line_ *l, const struct spec *s, uint32_t kind,
                    uint64_t v)
{
    const char *from;
    int len;

    switch (s->conversion) {
    case 'd':
    case 'i': format_add(t, c_format(s, "l").text, (long)as_integer(kind, v)); return;
    case 'u':
    case 'x':
    case 'X':
    case 'o': format_add(t, c_format(s, "l").text, (unsigned long)as_unsigned(kind, v, s->wide)); return;
    case 'c': format_add(t, c_format(s, "").text, (int)(uint8_t)as_integer(kind, v)); return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': format_add(t, c_format(s, "").text, as_real(kind, v)); return;
    case 'p': format_add(t, c_format(s, "").text, (void *)(uintptr_t)v); return;
    case 's':
        if (kind != GW_PRINT_STRING_) break;
        from = string(l, v, &len);
        if (s->precision >= 0 && s->precision < len) len = s->precision;
        format_add(t, "%*.*s", strchr(s->flags, '-') ? -s->width : s->width, len, from);
        return;
    default: break;
    }
    format_add(t, "(%%%c?)", s->conversion >= ' ' && s->conversion <= '~' ? s->conversion : '?');
}
#pragma GCC diagnostic pop

size_t gw_host_format(const struct gw_print_line_ *l, char *to, size_t room)
{
    struct text t = {.to = to, .room = room};
    uint32_t kinds = l->kinds, kind;
    const char *f, *end, *next;
    struct spec s;
    int len, n = 0;

    to[0] = 0;
    f = string(l, l->format, &len);
    for (end = f + len; f < end; f = next) {
        next = memchr(f, '%', (size_t)(end - f));
        if (next != f) {
            if (!next) next = end;
            format_add(&t, "%.*s", (int)(next - f), f);
            continue;
        }
        next = read_spec(f + 1, end, &s);
        if (s.conversion == '%') {
            format_add(&t, "%%");
            continue;
        }
        kind = n < GW_PRINT_ARGS_ ? kinds >> 4 * n & 15 : 0;
        if (!kind)
            format_add(&t, "(missing)");
        else
            convert(&t, l, &s, kind, l->value[n]);
        n++;
    }
    if (l->cut) format_add(&t, "…\n");
    return t.n;
}
