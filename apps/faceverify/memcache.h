/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcache.h: what a kernel says to memcached, and how it reads the answers: the binary protocol's GETK and
 * GETKQ, and the text protocol's get. Pure functions, for hosts and kernels. An answer is hostile: each bound
 * is checked, and what makes no sense is MC_BROKEN.
 */
#ifndef MEMCACHE_H
#define MEMCACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>

enum mc_protocol { MC_BINARY, MC_TEXT };

enum {
    MC_KEY_MAX = 250, /* memcached's own limit */
    MC_HEAD = 24,     /* bytes of the binary protocol's header */
    MC_ASK_MAX = MC_HEAD + MC_KEY_MAX,
    MC_LINE_MAX = 512,      /* longest line of the text protocol that is read */
    MC_EXTRA_MAX = 4096,    /* longest text of an error */
    MC_SKIP_MAX = 16 << 20, /* longest value that is skipped, because it is too long to be ours */

    MC_GETK = 0x0c,
    MC_GETKQ = 0x0d,
    MC_MAGIC_ASK = 0x80,
    MC_MAGIC_ANSWER = 0x81,
    MC_NOT_FOUND = 1, /* a status */
};

GW_FN uint32_t mc_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Are these n bytes the same? (Kernels have no memcmp.) */
GW_FN bool mc_same(const void *a, const void *b, uint32_t n)
{
    const uint8_t *p = (const uint8_t *)a, *q = (const uint8_t *)b;

    while (n && *p == *q) p++, q++, n--;
    return !n;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/* Writes the question for a key to `to`, which has MC_ASK_MAX bytes, and returns its length. */
GW_FN uint32_t mc_ask(uint8_t *to, uint32_t protocol, const char *key, uint32_t len, uint32_t opaque)
{
    if (protocol == MC_TEXT) {
        memcpy(to, "get ", 4);
        memcpy(to + 4, key, len);
        memcpy(to + 4 + len, "\r\n", 2);
        return 4 + len + 2;
    }
    memset(to, 0, MC_HEAD);
    to[0] = MC_MAGIC_ASK;
    to[1] = MC_GETK;
    to[3] = (uint8_t)len;
    to[11] = (uint8_t)len;
    memcpy(to + 12, &opaque, 4);
    memcpy(to + MC_HEAD, key, len);
    return MC_HEAD + len;
}

/* Makes a question quiet, if the protocol can: memcached says nothing when it has no such key. A later
 * question that is not quiet must follow, whose answer tells so. */
GW_FN void mc_ask_quietly(uint8_t *question, uint32_t protocol)
{
    if (protocol == MC_BINARY) question[1] = MC_GETKQ;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

enum mc_kind {
    MC_MORE,     /* it is not complete */
    MC_VALUE,    /* key and value */
    MC_MISS,     /* memcached has no such key */
    MC_TOO_LONG, /* a value of more than max_value bytes. Skip `used` bytes: there may be more than came */
    MC_REFUSED,  /* an error, in good form */
    MC_BROKEN,   /* not what memcached says: the connection is of no use any more */
};

/* An answer, by offsets from its first byte. */
struct mc_answer {
    uint32_t kind, used; /* enum mc_kind; bytes of the whole answer */
    uint32_t opaque;     /* binary */
    uint32_t key, key_len, value, value_len;
};

GW_FN void mc_answer_is(struct mc_answer *a, uint32_t kind, uint32_t used)
{
    a->kind = kind;
    a->used = used;
}

GW_FN void mc_binary_answer(const uint8_t *p, uint32_t n, uint32_t max_value, struct mc_answer *a)
{
    uint32_t key, extras, status, body;

    if (n < MC_HEAD) return;
    key = (uint32_t)p[2] << 8 | p[3];
    extras = p[4];
    status = (uint32_t)p[6] << 8 | p[7];
    body = mc_be32(p + 8);
    memcpy(&a->opaque, p + 12, 4);
    if (p[0] != MC_MAGIC_ANSWER || (p[1] != MC_GETK && p[1] != MC_GETKQ) || p[5] || key > MC_KEY_MAX ||
        body > MC_SKIP_MAX || key + extras > body || (status && body > MC_EXTRA_MAX)) {
        mc_answer_is(a, MC_BROKEN, 0);
        return;
    }
    a->key = MC_HEAD + extras;
    a->key_len = key;
    a->value = a->key + key;
    a->value_len = body - extras - key;
    if (!status && a->value_len > max_value)
        mc_answer_is(a, MC_TOO_LONG, MC_HEAD + body);
    else if (n - MC_HEAD >= body)
        mc_answer_is(a, !status ? MC_VALUE : status == MC_NOT_FOUND ? MC_MISS : MC_REFUSED, MC_HEAD + body);
}

/* ---- the text protocol --------------------------------------------------------------------------------- */

/* Bytes of the line that begins here, with its end mark. 0: it is not complete. MC_LINE_MAX + 1: too long. */
GW_FN uint32_t mc_line(const uint8_t *p, uint32_t n)
{
    uint32_t i;

    for (i = 1; i < n && i < MC_LINE_MAX; i++)
        if (p[i - 1] == '\r' && p[i] == '\n') return i + 1;
    return n < MC_LINE_MAX ? 0 : MC_LINE_MAX + 1;
}

/* Does the line begin with this word, or text? */
GW_FN bool mc_begins(const uint8_t *line, uint32_t n, const char *text, uint32_t len)
{
    return n >= len && mc_same(line, text, len);
}

/* Reads a number of up to 20 digits that ends before a blank or the end of the line; *at goes past it.
 * UINT64_MAX: none, or too large. */
GW_FN uint64_t mc_number(const uint8_t *line, uint32_t n, uint32_t *at)
{
    uint32_t from = *at;
    uint64_t v = 0;

    for (; *at < n && line[*at] >= '0' && line[*at] <= '9' && *at - from < 19; ++*at)
        v = v * 10 + line[*at] - '0';
    return *at == from || *at >= n || (line[*at] != ' ' && line[*at] != '\r') ? UINT64_MAX : v;
}

/* VALUE KEY FLAGS BYTES [CAS]\r\n: 0, or -1. */
GW_FN int mc_value_line(const uint8_t *line, uint32_t n, struct mc_answer *a)
{
    uint32_t at = 6;
    uint64_t bytes;

    a->key = at;
    while (at < n && line[at] > ' ') at++;
    a->key_len = at - a->key;
    if (a->key_len < 1 || a->key_len > MC_KEY_MAX || line[at++] != ' ') return -1;
    if (mc_number(line, n, &at) > UINT32_MAX || line[at++] != ' ') return -1;
    bytes = mc_number(line, n, &at);
    if (bytes > MC_SKIP_MAX) return -1;
    a->value = n;
    a->value_len = (uint32_t)bytes;
    if (line[at] == ' ') {
        at++;
        if (mc_number(line, n, &at) == UINT64_MAX) return -1;
    }
    return line[at] == '\r' && at + 2 == n ? 0 : -1;
}

GW_FN bool mc_is_error(const uint8_t *line, uint32_t n)
{
    return (mc_begins(line, n, "ERROR\r\n", 7) && n == 7) || mc_begins(line, n, "CLIENT_ERROR ", 13) ||
           mc_begins(line, n, "SERVER_ERROR ", 13);
}

GW_FN void mc_text_answer(const uint8_t *p, uint32_t n, uint32_t max_value, struct mc_answer *a)
{
    uint32_t line = mc_line(p, n), end;

    if (!line) return;
    if (line > MC_LINE_MAX) {
        mc_answer_is(a, MC_BROKEN, 0);
    } else if (line == 5 && mc_begins(p, line, "END\r\n", 5)) {
        mc_answer_is(a, MC_MISS, line);
    } else if (mc_is_error(p, line)) {
        mc_answer_is(a, MC_REFUSED, line);
    } else if (!mc_begins(p, line, "VALUE ", 6) || mc_value_line(p, line, a)) {
        mc_answer_is(a, MC_BROKEN, 0);
    } else {
        end = a->value + a->value_len; /* then "\r\nEND\r\n" */
        if (a->value_len > max_value)
            mc_answer_is(a, MC_TOO_LONG, end + 7);
        else if (n >= end + 7 && mc_same(p + end, "\r\nEND\r\n", 7))
            mc_answer_is(a, MC_VALUE, end + 7);
        else if (n >= end + 7)
            mc_answer_is(a, MC_BROKEN, 0);
    }
}

/*
 * Reads the answer that begins at p, of which n bytes have come. max_value: bytes of the longest value that
 * is of use. With MC_MORE the caller calls again when more have come. An answer that ends otherwise has
 * MC_ANSWER_ROOM(max_value) bytes at most, but for MC_TOO_LONG.
 */
GW_FN void mc_answer_read(uint32_t protocol, const uint8_t *p, uint32_t n, uint32_t max_value,
                          struct mc_answer *a)
{
    memset(a, 0, sizeof(*a));
    if (protocol == MC_TEXT)
        mc_text_answer(p, n, max_value, a);
    else
        mc_binary_answer(p, n, max_value, a);
}
#define MC_ANSWER_ROOM(max_value) ((max_value) + MC_HEAD + 255 + MC_KEY_MAX + MC_EXTRA_MAX)

#endif
