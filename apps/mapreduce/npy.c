/* SPDX-License-Identifier: Apache-2.0 */
/* The header of .npy files: a Python dictionary with the keys descr, fortran_order and shape. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "formats.h"

/* What is still to be read. `end` stops every look. */
struct text {
    const char *at, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->at < t->end && isspace((unsigned char)*t->at)) t->at++;
}

static bool npy_take(struct text *t, const char *what)
{
    size_t n = strlen(what);

    skip_blanks(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, what, n)) return false;
    t->at += n;
    return true;
}

static bool take_number(struct text *t, uint64_t *v)
{
    skip_blanks(t);
    if (t->at >= t->end || !isdigit((unsigned char)*t->at)) return false;
    for (*v = 0; t->at < t->end && isdigit((unsigned char)*t->at); t->at++) {
        if (*v > (UINT64_MAX - 9) / 10) return false;
        *v = *v * 10 + (uint64_t)(*t->at - '0');
    }
    return true;
}

/* A text in either kind of quotes. */
static bool take_quoted(struct text *t, char *out, size_t size)
{
    size_t n = 0;
    char quote;

    skip_blanks(t);
    if (t->at >= t->end || (*t->at != '\'' && *t->at != '"')) return false;
    for (quote = *t->at++; t->at < t->end && *t->at != quote && n + 1 < size; t->at++) out[n++] = *t->at;
    out[n] = 0;
    return t->at < t->end && *t->at++ == quote;
}

static bool take_shape(struct text *t, struct mr_npy *npy)
{
    npy->columns = 1;
    if (!npy_take(t, "(") || !take_number(t, &npy->rows)) return false;
    if (npy_take(t, ",") && take_number(t, &npy->columns)) npy_take(t, ",");
    return npy_take(t, ")");
}

static bool known_type(const char *type, struct mr_npy *npy)
{
    static const char *const known[] = {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4",
                                        "<i8", "|u1", "<u2", "<u4", "<u8"};

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(type, known[i])) {
            npy->type = type[1];
            npy->item = (uint32_t)(type[2] - '0');
            return true;
        }
    return false;
}

static bool take_entry(struct text *t, struct mr_npy *npy, unsigned *seen)
{
    char key[32], type[8];

    if (!take_quoted(t, key, sizeof(key)) || !npy_take(t, ":")) return false;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        return take_quoted(t, type, sizeof(type)) && known_type(type, npy);
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= 2;
        return npy_take(t, "False");
    }
    *seen |= 4;
    return !strcmp(key, "shape") && take_shape(t, npy);
}

static bool take_dictionary(struct text *t, struct mr_npy *npy)
{
    unsigned seen = 0;

    if (!npy_take(t, "{")) return false;
    while (!npy_take(t, "}"))
        if (!take_entry(t, npy, &seen) ||
            (!npy_take(t, ",") && (skip_blanks(t), t->at >= t->end || *t->at != '}')))
            return false;
    return seen == 7;
}

int mr_npy_parse(const void *bytes, size_t n, uint64_t size, const char *name, struct mr_npy *npy)
{
    const uint8_t *b = (const uint8_t *)bytes;
    uint64_t length, before;
    struct text t;

    memset(npy, 0, sizeof(*npy));
    if (n < 12 || memcmp(b, "\x93NUMPY", 6) || b[6] < 1 || b[6] > 3)
        return gw_error(-EINVAL, "%s: not an .npy file", name);
    before = b[6] == 1 ? 10 : 12;
    length = b[8] | (uint64_t)b[9] << 8;
    if (b[6] > 1) length |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    if (length > n - before) return gw_error(-EINVAL, "%s: its header does not end", name);
    t.at = (const char *)b + before;
    t.end = t.at + length;
    if (!take_dictionary(&t, npy))
        return gw_error(-EINVAL, "%s: must hold floats or integers in one or two dimensions, in C order",
                        name);
    npy->start = before + length;
    if (npy->columns && npy->rows > UINT64_MAX / 8 / npy->columns)
        return gw_error(-EINVAL, "%s: its shape is too large", name);
    if (size < npy->start || size - npy->start != npy->rows * npy->columns * npy->item)
        return gw_error(-EINVAL, "%s: its size does not match its shape", name);
    return 0;
}

size_t mr_npy_header(char out[MR_NPY_WRITTEN], uint64_t rows, uint64_t columns)
{
    char shape[48];
    int n;

    snprintf(shape, sizeof(shape), columns ? "(%llu, %llu)" : "(%llu,)", (unsigned long long)rows,
             (unsigned long long)columns);
    n = snprintf(out, MR_NPY_WRITTEN, "_NUMPY__  {'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
                 shape);
    memset(out + n, ' ', MR_NPY_WRITTEN - (size_t)n);
    memcpy(out, "\x93NUMPY\x01\x00\x76\x00", 10); /* version 1.0; 118 bytes follow */
    out[MR_NPY_WRITTEN - 1] = '\n';
    return MR_NPY_WRITTEN;
}
