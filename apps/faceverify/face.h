/* SPDX-License-Identifier: Apache-2.0 */
/*
 * face.h: what every part of faceverify shares: the requests and replies on the wire, the histogram of a
 * picture, the distance of two, and the key and value in memcached. Plain C, for hosts and kernels. All
 * numbers are little endian. No function here waits or allocates; any thread may call each of them.
 */
#ifndef FACE_H
#define FACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/fn.h>

/* ---- a picture ----------------------------------------------------------------------------------------- */

/* A picture is FACE_SIDE rows of FACE_SIDE grey bytes, from the top left. FACE_GRID × FACE_GRID square cells
 * of FACE_CELL pixels cover it. */
enum {
    FACE_SIDE = 136,
    FACE_GRID = 8,
    FACE_CELL = 17,
    FACE_PIXELS = FACE_SIDE * FACE_SIDE,
    FACE_CELLS = FACE_GRID * FACE_GRID,
    FACE_CELL_PIXELS = FACE_CELL * FACE_CELL, /* the largest count, and the sum of a cell's counts */
};

/* ---- its histogram ------------------------------------------------------------------------------------- */

/*
 * Local binary patterns (8 neighbours, radius 1, uniform). Bit i of a pixel's code says that its neighbour i
 * is at least as bright: 0 is the right one, then counterclockwise (upper right, up, upper left, …). Outside
 * the picture the nearest pixel of its border counts. The bin of a code with at most two changes around its
 * circle is its place among such codes, in ascending order (0 … 57). All other codes share bin 58.
 */
enum {
    FACE_BINS = 59,
    FACE_COUNTS = FACE_CELLS * FACE_BINS,
};

/* Cell by cell, row by row; a cell's bins lie together. 7,552 bytes. */
struct face_histogram {
    uint16_t count[FACE_COUNTS];
};

/* The bins of all 256 codes. */
GW_FN void face_bins(uint8_t bin[256])
{
    uint32_t code, turned, next = 0;

    for (code = 0; code < 256; code++) {
        turned = (code << 1 | code >> 7) & 0xff;
        bin[code] = (uint8_t)(gw_popcount(code ^ turned) <= 2 ? next++ : FACE_BINS - 1);
    }
}

/* The code of the pixel at x, y. */
GW_FN uint32_t face_code(const uint8_t *pixels, int x, int y)
{
    int l = x ? x - 1 : 0, r = x < FACE_SIDE - 1 ? x + 1 : x;
    const uint8_t *row = pixels + y * FACE_SIDE, *up = y ? row - FACE_SIDE : row;
    const uint8_t *down = y < FACE_SIDE - 1 ? row + FACE_SIDE : row;
    uint8_t c = row[x];

    return (uint32_t)(row[r] >= c) | (uint32_t)(up[r] >= c) << 1 | (uint32_t)(up[x] >= c) << 2 |
           (uint32_t)(up[l] >= c) << 3 | (uint32_t)(row[l] >= c) << 4 | (uint32_t)(down[l] >= c) << 5 |
           (uint32_t)(down[x] >= c) << 6 | (uint32_t)(down[r] >= c) << 7;
}

/* The histogram of a picture, the plain way: what every faster one must equal. */
GW_FN void face_histogram_of(const uint8_t *pixels, struct face_histogram *h)
{
    uint8_t bin[256];
    int x, y;

    face_bins(bin);
    memset(h, 0, sizeof(*h));
    for (y = 0; y < FACE_SIDE; y++)
        for (x = 0; x < FACE_SIDE; x++)
            h->count[(y / FACE_CELL * FACE_GRID + x / FACE_CELL) * FACE_BINS +
                     bin[face_code(pixels, x, y)]]++;
}

/* ---- the distance of two histograms -------------------------------------------------------------------- */

/*
 * Chi-square: the sum of (a-b)²/(a+b) over all counts, divided by its largest value: 0 (the same) … 1. Terms
 * are truncated to 1/FACE_TERM and added as integers. So every order of adding, on every processor, gives
 * the same bits.
 */
enum { FACE_TERM = 2048 };

/* Of two counts of FACE_CELL_PIXELS at most. */
GW_FN uint32_t face_term(uint32_t a, uint32_t b)
{
    uint32_t d = a > b ? a - b : b - a;

    return d ? (uint32_t)((float)(d * d) / (float)(a + b) * FACE_TERM) : 0;
}

/* The distance that a sum of terms means. */
GW_FN float face_distance(uint32_t terms)
{
    return (float)terms / ((float)FACE_TERM * 2 * FACE_PIXELS);
}

/* Could this have come out of a picture? Each cell must have counted all its pixels. */
GW_FN bool face_histogram_valid(const struct face_histogram *h)
{
    uint32_t cell, i, sum;

    for (cell = 0; cell < FACE_CELLS; cell++) {
        for (sum = i = 0; i < FACE_BINS; i++) sum += h->count[cell * FACE_BINS + i];
        if (sum != FACE_CELL_PIXELS) return false;
    }
    return true;
}

/* The distance of two valid histograms. */
GW_FN float face_compare(const struct face_histogram *a, const struct face_histogram *b)
{
    uint32_t i, terms = 0;

    for (i = 0; i < FACE_COUNTS; i++) terms += face_term(a->count[i], b->count[i]);
    return face_distance(terms);
}

/* A distance of at most this much is a match, unless the server's --threshold says otherwise. Of drawn people
 * (`roc --drawn`) it lets one in a hundred others pass. */
#define FACE_THRESHOLD 0.134f

/* ---- names --------------------------------------------------------------------------------------------- */

enum { FACE_NAME_MAX = 200 };

/* Can a key of memcached hold this name? It has 1 to FACE_NAME_MAX bytes, no blank, no control byte. UTF-8 is
 * fine. */
GW_FN bool face_name_valid(const char *name, size_t len)
{
    size_t i;

    if (len < 1 || len > FACE_NAME_MAX) return false;
    for (i = 0; i < len; i++)
        if ((uint8_t)name[i] <= ' ' || name[i] == 0x7f) return false;
    return true;
}

/* FNV-1a of 64 bits: it goes into a value, and tells another name's value. */
GW_FN uint64_t face_name_hash(const char *name, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    size_t i;

    for (i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 0x100000001b3u;
    return h;
}

/* ---- in memcached -------------------------------------------------------------------------------------- */

/* The key is "face:" and the name. */
#define FACE_PREFIX "face:"
enum { FACE_PREFIX_LEN = 5, FACE_KEY_MAX = FACE_PREFIX_LEN + FACE_NAME_MAX };

#define FACE_VALUE_MAGIC 0x56465747u /* "GWFV" */
enum { FACE_VALUE_VERSION = 1, FACE_KIND_LBP = 1 };

/* The value of a key: 7,568 bytes. */
struct face_value {
    uint32_t magic;
    uint16_t version, kind; /* FACE_VALUE_VERSION; FACE_KIND_LBP: what follows */
    uint64_t name_hash;     /* face_name_hash of the name */
    struct face_histogram histogram;
};

/* Writes the key of a name, without an end mark, and returns its length. key has FACE_KEY_MAX bytes. */
GW_FN size_t face_key(char *key, const char *name, size_t len)
{
    memcpy(key, FACE_PREFIX, FACE_PREFIX_LEN);
    memcpy(key + FACE_PREFIX_LEN, name, len);
    return FACE_PREFIX_LEN + len;
}

/* Fills in all but the histogram. */
GW_FN void face_value_head(struct face_value *v, const char *name, size_t len)
{
    v->magic = FACE_VALUE_MAGIC;
    v->version = FACE_VALUE_VERSION;
    v->kind = FACE_KIND_LBP;
    v->name_hash = face_name_hash(name, len);
}

/* Is it a value of this name, as far as its first 16 bytes tell? */
GW_FN bool face_value_is_of(const struct face_value *v, uint64_t name_hash)
{
    return v->magic == FACE_VALUE_MAGIC && v->version == FACE_VALUE_VERSION && v->kind == FACE_KIND_LBP &&
           v->name_hash == name_hash;
}

/* ---- on the wire --------------------------------------------------------------------------------------- */

/*
 * A client connects, sends requests one after another, and may send the next before it has the reply to the
 * last. Replies come in any order; the id says whose they are. A request is this head, the name, zeroes up
 * to a multiple of 16, and the picture.
 */
#define FACE_REQUEST_MAGIC 0x51465747u /* "GWFQ" */
#define FACE_REPLY_MAGIC   0x52465747u /* "GWFR" */
enum { FACE_WIRE_VERSION = 1, FACE_PORT = 7150 };

struct face_request {
    uint32_t magic;
    uint8_t version, name_len; /* FACE_WIRE_VERSION; 1 … FACE_NAME_MAX */
    uint16_t flags;            /* 0 */
    uint64_t id;               /* of the client's choice */
};

/* Bytes that a name takes in a request. */
GW_FN uint32_t face_name_room(uint32_t len)
{
    return (len + 15) & ~15u;
}

/* Bytes of a whole request; FACE_REQUEST_MAX at most. */
GW_FN uint32_t face_request_bytes(uint32_t name_len)
{
    return (uint32_t)sizeof(struct face_request) + face_name_room(name_len) + FACE_PIXELS;
}
enum { FACE_REQUEST_MAX = 16 + 208 + FACE_PIXELS };

enum face_verdict {
    FACE_MATCH,
    FACE_NO_MATCH,
    FACE_UNKNOWN,     /* memcached has no such name */
    FACE_UNAVAILABLE, /* memcached is gone, or too slow, or its value makes no sense: ask again later */
    FACE_MALFORMED,   /* the name, or the head; after a wrong head the server closes the connection */
    FACE_BUSY,        /* the server has no room: ask again later */
    FACE_VERDICTS,
};

/* When a request passed each point: nanoseconds on a clock of the server's. 0: it did not come that far. */
enum face_point { FACE_RECEIVED, FACE_ASKED, FACE_ANSWERED, FACE_COMPARED, FACE_REPLIED, FACE_POINTS };

struct face_reply {
    uint32_t magic;
    uint8_t version, verdict; /* FACE_WIRE_VERSION; enum face_verdict */
    uint16_t zero;
    uint64_t id;
    float distance, threshold; /* distance: of FACE_MATCH and FACE_NO_MATCH */
    uint64_t ns[FACE_POINTS];
};

/* Is it the head of a request that this version understands? The name is not looked at. */
GW_FN bool face_request_valid(const struct face_request *r)
{
    return r->magic == FACE_REQUEST_MAGIC && r->version == FACE_WIRE_VERSION && r->name_len >= 1 &&
           r->name_len <= FACE_NAME_MAX && !r->flags;
}

static_assert(sizeof(struct face_histogram) == 7552 && sizeof(struct face_value) == 7568, "as documented");
static_assert(sizeof(struct face_request) == 16 && sizeof(struct face_reply) == 64, "as documented");

#endif
