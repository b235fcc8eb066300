/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print.h: how kernels print. Included by host.h; names that end in _ are private.
 *
 * The ring lies in host memory. A thread takes the next line if there is one (a word of the kernels' own),
 * fills it, and says so in its `seq`. The server prints lines in the order in which threads took them.
 */
#include <gpuwire/host.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_HOST_PRINT_H
#define GPUWIRE_DETAIL_HOST_PRINT_H

enum { GW_PRINT_ARGS_ = 8, GW_PRINT_TEXT_ = 416 };
enum gw_print_kind_ {
    GW_PRINT_INT_ = 1,
    GW_PRINT_UINT_,
    GW_PRINT_REAL_,
    GW_PRINT_STRING_,
    GW_PRINT_ADDRESS_
};

struct gw_print_line_ {
    uint32_t seq;           /* the line's number, plus 1, once it is filled */
    uint32_t kinds;         /* enum gw_print_kind_ of each value, 4 bits each; ended by 0 or by the 8th */
    uint32_t cut, reserved; /* not 0: text is missing at the end */
    uint64_t lost;          /* lines that had been lost by then */
    uint64_t format;        /* where in text, and how long: as a value of kind STRING */
    uint64_t value[GW_PRINT_ARGS_]; /* a string: where in text << 32 | how long */
    uint64_t text[GW_PRINT_TEXT_ / 8];
};

/* A line that is being filled; line NULL: there was no room. */
struct gw_print_ {
    struct gw_host *h;
    struct gw_print_line_ *line;
    uint32_t number, n, kinds, used, cut;
};

struct gw_print_value_ {
    enum gw_print_kind_ kind;
    uint64_t bits;
};

/* ---- values ------------------------------------------------------------------------------------------- */

#define GW_PRINT_VALUE_(name, type, k, convert)                                                              \
    GW_FN struct gw_print_value_ name(type x)                                                                \
    {                                                                                                        \
        struct gw_print_value_ v;                                                                            \
        v.kind = k;                                                                                          \
        v.bits = convert;                                                                                    \
        return v;                                                                                            \
    }

GW_FN uint64_t gw_print_bits_(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

#ifdef __cplusplus
GW_PRINT_VALUE_(gw_print_value_of_, int, GW_PRINT_INT_, (uint64_t)(int64_t)x)
GW_PRINT_VALUE_(gw_print_value_of_, long, GW_PRINT_INT_, (uint64_t)x)
GW_PRINT_VALUE_(gw_print_value_of_, long long, GW_PRINT_INT_, (uint64_t)x)
GW_PRINT_VALUE_(gw_print_value_of_, unsigned, GW_PRINT_UINT_, x)
GW_PRINT_VALUE_(gw_print_value_of_, unsigned long, GW_PRINT_UINT_, x)
GW_PRINT_VALUE_(gw_print_value_of_, unsigned long long, GW_PRINT_UINT_, x)
GW_PRINT_VALUE_(gw_print_value_of_, double, GW_PRINT_REAL_, gw_print_bits_(x))
GW_PRINT_VALUE_(gw_print_value_of_, const char *, GW_PRINT_STRING_, (uint64_t)(uintptr_t)x)
GW_PRINT_VALUE_(gw_print_value_of_, const void *, GW_PRINT_ADDRESS_, (uint64_t)(uintptr_t)x)
#else
GW_PRINT_VALUE_(gw_print_int_, long long, GW_PRINT_INT_, (uint64_t)x)
GW_PRINT_VALUE_(gw_print_uint_, unsigned long long, GW_PRINT_UINT_, x)
GW_PRINT_VALUE_(gw_print_real_, double, GW_PRINT_REAL_, gw_print_bits_(x))
GW_PRINT_VALUE_(gw_print_string_, const char *, GW_PRINT_STRING_, (uint64_t)(uintptr_t)x)
GW_PRINT_VALUE_(gw_print_address_, const void *, GW_PRINT_ADDRESS_, (uint64_t)(uintptr_t)x)
/* A value that C promotes to int is printed as one. */
#define gw_print_value_of_(x)                                                                                \
    _Generic((x), unsigned: gw_print_uint_, unsigned long: gw_print_uint_,                                   \
        unsigned long long: gw_print_uint_, float: gw_print_real_, double: gw_print_real_,                   \
        char *: gw_print_string_,                                                                            \
        const char *: gw_print_string_, void *: gw_print_address_, const void *: gw_print_address_,          \
        default: gw_print_int_)(x)
#endif
#undef GW_PRINT_VALUE_

/* ---- a line ------------------------------------------------------------------------------------------- */

/* Takes the next line, unless all are waiting to be printed. */
GW_FN struct gw_print_line_ *gw_print_take_(struct gw_host *h, uint32_t *number)
{
    uint64_t head, printed, found;

    for (head = gw_ld_relaxed_u64_gpu(&h->head);; head = found) {
        /* Acquire, here and below: the server has read what was in the line before we write to it. */
        printed = gw_ld_acquire_u64_gpu(&h->seen);
        if ((int64_t)(head - printed) >= (int64_t)h->lines) {
            printed = gw_ld_acquire_u64(&h->page->printed);
            if ((int64_t)(head - printed) >= (int64_t)h->lines) return NULL;
            gw_st_release_u64_gpu(&h->seen, printed); /* release: with what was acquired */
        }
        found = gw_cas_relaxed_u64_gpu(&h->head, head, head + 1);
        if (found == head) break;
    }
    *number = (uint32_t)head;
    return &h->line[head & (h->lines - 1)];
}

/* Copies a string after those that are there, in words of 8 bytes; where it is and how long. */
GW_FN uint64_t gw_print_text_(struct gw_print_ *p, const char *s)
{
    uint32_t from = p->used, n = 0;
    uint64_t word = 0;

    if (!s) s = "(null)";
    for (; s[n] && from + n < GW_PRINT_TEXT_; n++) {
        word |= (uint64_t)(uint8_t)s[n] << 8 * (n & 7);
        if ((n & 7) == 7) {
            p->line->text[(from + n) / 8] = word;
            word = 0;
        }
    }
    if (n & 7) p->line->text[(from + n) / 8] = word;
    if (s[n]) p->cut = 1;
    p->used = (from + n + 7) & ~7u;
    return (uint64_t)from << 32 | n;
}

GW_SLOW_FN struct gw_print_ gw_print_begin_(struct gw_host *h, const char *format)
{
    struct gw_print_ p;

    p.h = h;
    p.number = p.n = p.kinds = p.used = p.cut = 0;
    p.line = gw_print_take_(h, &p.number);
    if (p.line) {
        p.line->format = gw_print_text_(&p, format);
        p.line->lost = gw_ld_relaxed_u64_gpu(&h->lost);
    } else {
        gw_add_relaxed_u64_gpu(&h->lost, 1);
    }
    return p;
}

GW_SLOW_FN struct gw_print_ gw_print_put_(struct gw_print_ p, struct gw_print_value_ v)
{
    if (!p.line) return p;
    p.line->value[p.n] =
        v.kind == GW_PRINT_STRING_ ? gw_print_text_(&p, (const char *)(uintptr_t)v.bits) : v.bits;
    p.kinds |= (uint32_t)v.kind << 4 * p.n++;
    return p;
}

GW_SLOW_FN int gw_print_end_(struct gw_print_ p)
{
    if (!p.line) return -ENOSPC;
    p.line->kinds = p.kinds;
    p.line->cut = p.cut;
    gw_st_release_u32(&p.line->seq, p.number + 1); /* release: the line first */
    if (p.h->server) gw_cpu_host_wake_(p.h->server);
    return 0;
}

/* ---- as many values as there are ---------------------------------------------------------------------- */

#define GW_PRINT_PICK_(f, a, b, c, d, e, i, j, k, name, ...) name

#define GW_PRINT_PUT_(p, v)                       gw_print_put_(p, gw_print_value_of_(v))
#define GW_PRINT_0_(h, f)                         gw_print_begin_(h, f)
#define GW_PRINT_1_(h, f, a)                      GW_PRINT_PUT_(GW_PRINT_0_(h, f), a)
#define GW_PRINT_2_(h, f, a, b)                   GW_PRINT_PUT_(GW_PRINT_1_(h, f, a), b)
#define GW_PRINT_3_(h, f, a, b, c)                GW_PRINT_PUT_(GW_PRINT_2_(h, f, a, b), c)
#define GW_PRINT_4_(h, f, a, b, c, d)             GW_PRINT_PUT_(GW_PRINT_3_(h, f, a, b, c), d)
#define GW_PRINT_5_(h, f, a, b, c, d, e)          GW_PRINT_PUT_(GW_PRINT_4_(h, f, a, b, c, d), e)
#define GW_PRINT_6_(h, f, a, b, c, d, e, i)       GW_PRINT_PUT_(GW_PRINT_5_(h, f, a, b, c, d, e), i)
#define GW_PRINT_7_(h, f, a, b, c, d, e, i, j)    GW_PRINT_PUT_(GW_PRINT_6_(h, f, a, b, c, d, e, i), j)
#define GW_PRINT_8_(h, f, a, b, c, d, e, i, j, k) GW_PRINT_PUT_(GW_PRINT_7_(h, f, a, b, c, d, e, i, j), k)

GW_SLOW_FN int gw_puts(struct gw_host *h, const char *text)
{
    return gw_printf(h, "%s", text);
}

#endif
