/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort.h: the kernels that sort a partition. An index of its pairs is made; short runs of it are sorted, then
 * runs are merged pass by pass, each thread a stretch of the output (merge path). Prefixes decide nearly all
 * comparisons; keys, and values where the job asks, decide the rest.
 */
#include "mapreduce.h"

enum { MR_RUN = 8 }; /* entries that one thread sorts at first */

GW_DEV uint64_t sort_prefix(const struct mr_args_ *a, const struct mr_pair *p)
{
    const uint8_t *key = mr_pair_key_(p);
    uint64_t v = 0;
    uint32_t i, n = a->flags & MR_SORT ? 8 : 4;

    for (i = 0; i < n; i++) v = v << 8 | (i < p->key ? key[i] : 0);
    return a->flags & MR_SORT ? v : (uint64_t)p->hash << 32 | v;
}

/* Can the job have the pair at p? `left` bytes are there up to its chunk's end. It may be a peer's. */
GW_DEV bool sort_sound(const struct mr_args_ *a, const struct mr_pair *p, uint32_t left)
{
    if (left < sizeof(*p) || mr_pair_bytes_(p->key, p->value) > left) return false;
    if (!p->key || p->key > a->key) return false;
    return a->combine_how ? p->value == a->value : p->value <= a->value;
}

/* Makes the entries of a partition's pairs: a thread walks through a chunk. */
GW_KERNEL(mr_index_kernel, struct mr_args_, a)
{
    uint32_t i, k;

    for (i = gw_global_idx(); i < a->part_chunks; i += gw_global_dim()) {
        const struct mr_stored *s = &a->part_chunk[i];
        uint64_t base = (uint64_t)s->chunk * MR_CHUNK + MR_CHUNK_HEAD;
        uint32_t at = 0;

        for (k = 0; k < s->pairs; k++) {
            const struct mr_pair *p = (const struct mr_pair *)(a->heap + base + at);
            struct mr_entry *e = &a->entry[a->part_first[i] + k];

            if (!sort_sound(a, p, s->bytes - at)) {
                mr_wrong_(a, MR_WRONG_PAIR, 0);
                return;
            }
            e->prefix = sort_prefix(a, p);
            e->at = base + at;
            at += mr_pair_bytes_(p->key, p->value);
        }
    }
}

GW_DEV bool sort_less(const struct mr_args_ *a, const struct mr_entry *x, const struct mr_entry *y)
{
    const struct mr_pair *p, *q;
    int c;

    if (x->prefix != y->prefix) return x->prefix < y->prefix;
    p = mr_entry_pair_(a, x);
    q = mr_entry_pair_(a, y);
    c = mr_compare_(mr_pair_key_(p), p->key, mr_pair_key_(q), q->key);
    if (!c && a->flags & MR_SORT_VALUES)
        c = mr_compare_(mr_pair_value_(p), p->value, mr_pair_value_(q), q->value);
    return c < 0;
}

/* Sorts runs of MR_RUN entries by insertion. */
GW_KERNEL(mr_runs_kernel, struct mr_args_, a)
{
    uint64_t r, i, k;

    for (r = (uint64_t)gw_global_idx() * MR_RUN; r < a->entries; r += (uint64_t)gw_global_dim() * MR_RUN) {
        uint64_t end = r + MR_RUN < a->entries ? r + MR_RUN : a->entries;

        for (i = r + 1; i < end; i++) {
            struct mr_entry e = a->entry[i];

            for (k = i; k > r && sort_less(a, &e, &a->entry[k - 1]); k--) a->entry[k] = a->entry[k - 1];
            a->entry[k] = e;
        }
    }
}

/* How many of the first `diagonal` merged entries of x and y come from x. */
GW_DEV uint64_t sort_path(const struct mr_args_ *a, const struct mr_entry *x, uint64_t xn,
                          const struct mr_entry *y, uint64_t yn, uint64_t diagonal)
{
    uint64_t low = diagonal > yn ? diagonal - yn : 0, high = diagonal < xn ? diagonal : xn;

    while (low < high) {
        uint64_t mid = (low + high) / 2;

        if (sort_less(a, &y[diagonal - 1 - mid], &x[mid]))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Merges n entries from output `from` on, of the runs that begin at `base`. */
GW_DEV void sort_merge(const struct mr_args_ *a, uint64_t base, uint64_t from, uint64_t n)
{
    uint64_t left = a->entries - base;
    uint64_t xn = left < a->run ? left : a->run, yn = left - xn < a->run ? left - xn : a->run;
    const struct mr_entry *x = a->entry + base, *y = x + xn;
    uint64_t i = sort_path(a, x, xn, y, yn, from - base), k = from - base - i, end = from + n;

    if (end > base + xn + yn) end = base + xn + yn;
    for (; from < end; from++) {
        bool second = i == xn || (k < yn && sort_less(a, &y[k], &x[i]));

        a->spare[from] = second ? y[k++] : x[i++];
    }
}

/* One pass: runs of a->run entries become runs of twice as many, from entry to spare. */
GW_KERNEL(mr_merge_kernel, struct mr_args_, a)
{
    uint64_t n = GW_ON_GPU ? 16 : 4096, from;

    if (n > 2 * a->run) n = 2 * a->run;
    for (from = (uint64_t)gw_global_idx() * n; from < a->entries; from += (uint64_t)gw_global_dim() * n)
        sort_merge(a, from / (2 * a->run) * (2 * a->run), from, n);
}

/* After the measuring reduce: where in its tile each output begins, and how long the tile's are. */
GW_KERNEL(mr_tiles_kernel, struct mr_args_, a)
{
    uint64_t t, i;

    for (t = gw_global_idx(); t * a->tile_entries < a->entries; t += gw_global_dim()) {
        uint64_t end = (t + 1) * a->tile_entries, sum = 0;

        if (end > a->entries) end = a->entries;
        for (i = t * a->tile_entries; i < end; i++) {
            uint64_t n = a->length[i];

            a->length[i] = sum;
            sum += n;
        }
        a->tile[t] = sum;
    }
}
