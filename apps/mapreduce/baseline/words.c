/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Word count and inverted index on CPU threads. The input is cut into pieces; a thread puts a piece's words
 * into a hash table of its own, whose entries point into the mapped files. Then each partition of the hash
 * values is merged from all tables, and the words that remain are sorted.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "baseline.h"

enum { PART_BITS = 8, PARTS = 1 << PART_BITS, PIECE = 1 << 20 };

/* A word of a file; for word count all files are file 0. */
struct entry {
    uint64_t head; /* its first eight bytes, zeros after its end */
    const uint8_t *bytes;
    uint64_t count; /* 0: free */
    uint32_t length, file;
};

/* The upper bits of a hash value choose the place: so a partition is a stretch of the table. */
struct table {
    struct entry *entry;
    uint64_t mask, used;
    uint32_t shift; /* of a hash value, after `skip` of its upper bits: the place */
    uint32_t skip;
};

struct words {
    const struct work *w;
    bool index;
    uint64_t pieces, *first; /* of each input, its first piece's number; and at the end their sum */
    uint32_t tables;
    struct table *table; /* of each thread */
    atomic_uint_fast64_t next;
    struct table part[PARTS];
    struct item *item;
    uint64_t items, start[PARTS];
    atomic_int err;
};

static void words_fail(struct words *s, int err)
{
    atomic_store_explicit(&s->err, err, memory_order_relaxed); /* the threads are joined before it is read */
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    unsigned __int128 p = (unsigned __int128)(h ^ v) * 0x9e3779b97f4a7c15u;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t entry_hash(const struct entry *e)
{
    uint64_t h = mix(e->head, e->length * 0x2545f4914f6cdd1du + e->file), v;

    for (uint32_t i = 8; i < e->length; i += 8) {
        memcpy(&v, e->bytes + (e->length - i < 8 ? e->length - 8 : i), sizeof(v));
        h = mix(h, v);
    }
    return mix(h, 0xd6e8feb86659fd93u);
}

static inline bool entry_same(const struct entry *a, const struct entry *b)
{
    return a->head == b->head && a->length == b->length && a->file == b->file &&
           (a->length <= 8 || !memcmp(a->bytes + 8, b->bytes + 8, a->length - 8));
}

static int table_make(struct table *t, uint32_t bits, uint32_t skip)
{
    t->entry = (struct entry *)calloc((uint64_t)1 << bits, sizeof(*t->entry));
    t->mask = ((uint64_t)1 << bits) - 1;
    t->shift = 64 - bits;
    t->skip = skip;
    t->used = 0;
    return t->entry ? 0 : -ENOMEM;
}

static int table_add(struct table *t, const struct entry *e);

static int table_grow(struct table *t)
{
    struct table more;
    int err = table_make(&more, 64 - t->shift + 2, t->skip);

    for (uint64_t i = 0; i <= t->mask && !err; i++)
        if (t->entry[i].count) err = table_add(&more, &t->entry[i]);
    if (err) return err;
    free(t->entry);
    *t = more;
    return 0;
}

static inline int table_add(struct table *t, const struct entry *e)
{
    uint64_t i = (entry_hash(e) << t->skip) >> t->shift;

    for (; t->entry[i].count; i = (i + 1) & t->mask)
        if (entry_same(&t->entry[i], e)) {
            t->entry[i].count += e->count;
            return 0;
        }
    t->entry[i] = *e;
    return 2 * ++t->used > t->mask ? table_grow(t) : 0;
}

/* ---- the map ------------------------------------------------------------------------------------------- */

#define EACH(byte) (0x0101010101010101u * (byte))

/* Bit 7 of each byte of v that is white space. No byte's sum reaches the next byte. */
static inline uint64_t spaces(uint64_t v)
{
    uint64_t low = v & EACH(0x7f), other = v ^ EACH(' ');
    uint64_t is_blank = ~(((other & EACH(0x7f)) + EACH(0x7f)) | other);
    uint64_t from_tab = low + EACH(0x80 - '\t'), above = low + EACH(0x80 - '\r' - 1);

    return (is_blank | (from_tab & ~above & ~v)) & EACH(0x80);
}

/* Eight bytes from p on, of which only those before end are read: the others become blanks. */
static inline uint64_t load_up_to(const uint8_t *p, const uint8_t *end)
{
    uint64_t v = EACH(' ');

    memcpy(&v, p, end - p < 8 ? (size_t)(end - p) : sizeof(v));
    return v;
}

static inline uint64_t load(const uint8_t *p, const uint8_t *end)
{
    uint64_t v;

    if (__builtin_expect(end - p < 8, 0)) return load_up_to(p, end);
    memcpy(&v, p, sizeof(v));
    return v;
}

/* The words that begin from p up to stop; the last one may go on up to end. */
static int words_of(struct table *t, struct entry *e, const uint8_t *p, const uint8_t *stop,
                    const uint8_t *end)
{
    while (p < stop) {
        uint64_t v = load(p, end), blank = spaces(v);
        uint32_t first = blank ? (uint32_t)__builtin_ctzll(blank) / 8 : 8;

        if (!first) { /* over white space, as far as it goes in these eight bytes */
            uint64_t none = ~blank & EACH(0x80);

            p += none ? __builtin_ctzll(none) / 8 : 8;
            continue;
        }
        e->bytes = p;
        e->head = first < 8 ? v & ~(UINT64_MAX << 8 * first) : v;
        for (p += first; !blank && p < end; p += first) {
            blank = spaces(load(p, end));
            first = blank ? (uint32_t)__builtin_ctzll(blank) / 8 : 8;
        }
        if (p > end) p = end;
        if (p - e->bytes > UINT32_MAX) return -E2BIG;
        e->length = (uint32_t)(p - e->bytes);
        if (table_add(t, e)) return -ENOMEM;
        p++;
    }
    return 0;
}

/* One piece. A word belongs to the piece that it begins in. */
static void words_map_piece(struct words *s, struct table *t, uint32_t file, uint64_t at)
{
    const struct input *in = &s->w->input[file];
    const uint8_t *p = in->bytes + at, *end = in->bytes + in->size;
    const uint8_t *stop = in->size - at > PIECE ? p + PIECE : end;
    struct entry e = {.count = 1, .file = s->index ? file : 0};
    int err;

    if (at && !mr_is_space(p[-1]))
        while (p < stop && !mr_is_space(*p)) p++;
    if ((err = words_of(t, &e, p, stop, end))) words_fail(s, err);
}

static void words_map(void *arg, uint64_t thread)
{
    struct words *s = (struct words *)arg;
    struct table *t = &s->table[thread];
    uint32_t file = 0;
    uint64_t i;

    if (table_make(t, 15, 0)) return words_fail(s, -ENOMEM);
    /* Relaxed: the number alone is shared. */
    while ((i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->pieces) {
        while (i >= s->first[file + 1]) file++;
        words_map_piece(s, t, file, (i - s->first[file]) * PIECE);
    }
}

/* ---- the merge ----------------------------------------------------------------------------------------- */

/* A part of a table ends at the first free place after its stretch, which what had no room there has taken.
 * */
static int merge_part(struct table *into, const struct table *from, uint64_t part)
{
    uint64_t each = (from->mask + 1) / PARTS;

    for (uint64_t i = part * each, n = 0; n <= from->mask; i = (i + 1) & from->mask, n++) {
        const struct entry *e = &from->entry[i];

        if (!e->count && n >= each) break;
        if (e->count && entry_hash(e) >> (64 - PART_BITS) == part && table_add(into, e)) return -ENOMEM;
    }
    return 0;
}

static void words_merge(void *arg, uint64_t part)
{
    struct words *s = (struct words *)arg;
    struct table *into = &s->part[part];

    if (table_make(into, 8, PART_BITS)) return words_fail(s, -ENOMEM);
    for (uint32_t k = 0; k < s->tables; k++)
        if (s->table[k].entry && merge_part(into, &s->table[k], part)) words_fail(s, -ENOMEM);
}

static bool word_less(const struct item *a, const struct item *b)
{
    const struct entry *x = (const struct entry *)a->extra, *y = (const struct entry *)b->extra;
    uint32_t n = x->length < y->length ? x->length : y->length;
    int order = n > 8 ? memcmp(x->bytes + 8, y->bytes + 8, n - 8) : 0;

    if (order) return order < 0;
    return x->length != y->length ? x->length < y->length : x->file < y->file;
}

static void words_collect(void *arg, uint64_t part)
{
    struct words *s = (struct words *)arg;
    struct item *to = s->item + s->start[part];

    for (uint64_t i = 0; i <= s->part[part].mask; i++) {
        const struct entry *e = &s->part[part].entry[i];

        if (e->count) *to++ = (struct item){__builtin_bswap64(e->head), e->bytes, (uint64_t)e};
    }
}

static int words_sort(struct words *s)
{
    for (int p = 0; p < PARTS; p++) {
        s->start[p] = s->items;
        s->items += s->part[p].used;
    }
    if (!(s->item = (struct item *)malloc((s->items + 1) * sizeof(*s->item)))) return -ENOMEM;
    parallel(s->w, PARTS, words_collect, s);
    return items_sort(s->w, s->item, s->items, word_less);
}

/* ---- the output ---------------------------------------------------------------------------------------- */

static void put_count(const struct words *s, const struct entry *e)
{
    char number[24];
    int n = snprintf(number, sizeof(number), "\t%llu\n", (unsigned long long)e->count);

    fwrite_unlocked(e->bytes, 1, e->length, s->w->out);
    fwrite_unlocked(number, 1, (size_t)n, s->w->out);
}

/* A word and its files, of which one is the next one. */
static void put_file(const struct words *s, uint64_t i)
{
    const struct entry *e = (const struct entry *)s->item[i].extra, *before;

    before = i ? (const struct entry *)s->item[i - 1].extra : NULL;
    if (!before || before->length != e->length || memcmp(before->bytes, e->bytes, e->length)) {
        if (before) putc_unlocked('\n', s->w->out);
        fwrite_unlocked(e->bytes, 1, e->length, s->w->out);
    }
    putc_unlocked('\t', s->w->out);
    fputs_unlocked(s->w->input[e->file].name, s->w->out);
}

static void words_put(const struct words *s)
{
    for (uint64_t i = 0; i < s->items; i++) {
        if (s->index)
            put_file(s, i);
        else
            put_count(s, (const struct entry *)s->item[i].extra);
    }
    if (s->index && s->items) putc_unlocked('\n', s->w->out);
}

static int words_run(struct words *s)
{
    s->tables = s->w->threads;
    s->first = (uint64_t *)calloc(s->w->inputs + 2, sizeof(*s->first));
    s->table = (struct table *)calloc(s->tables, sizeof(*s->table));
    if (!s->first || !s->table) return -ENOMEM;
    for (uint32_t i = 0; i < s->w->inputs; i++)
        s->first[i + 1] = s->first[i] + (s->w->input[i].size + PIECE - 1) / PIECE;
    s->pieces = s->first[s->w->inputs];
    parallel(s->w, s->tables, words_map, s);
    if (!s->err) parallel(s->w, PARTS, words_merge, s);
    if (!s->err) s->err = words_sort(s);
    if (!s->err) words_put(s);
    return s->err;
}

static int words_job(const struct work *w, bool index)
{
    struct words *s = (struct words *)calloc(1, sizeof(*s));
    int err = -ENOMEM;

    if (s) {
        s->w = w;
        s->index = index;
        err = words_run(s);
        for (uint32_t i = 0; s->table && i < s->tables; i++) free(s->table[i].entry);
        for (int p = 0; p < PARTS; p++) free(s->part[p].entry);
        free(s->table);
        free(s->first);
        free(s->item);
    }
    free(s);
    return err ? gw_error(err, err == -E2BIG ? "a word has more than 4 GiB" : "no memory for the words") : 0;
}

int words_count(const struct work *w)
{
    return words_job(w, false);
}

int words_index(const struct work *w)
{
    return words_job(w, true);
}
