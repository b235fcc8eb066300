/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.h: reducing: the entries of a partition are sorted (sort.h), and one thread reduces one key.
 * Included by device.h.
 *
 * The kernel runs twice. First it measures what each reduce puts. Then the host knows where each one's bytes
 * stand in the output, and the kernel writes them there, as many tiles of entries at a time as the buffer
 * holds.
 */
#ifndef GW_MAPREDUCE_REDUCE_H
#define GW_MAPREDUCE_REDUCE_H

GW_DEV const struct mr_pair *mr_entry_pair_(const struct mr_args_ *a, const struct mr_entry *e)
{
    return (const struct mr_pair *)(a->heap + e->at);
}

/* Have two entries the same key? */
GW_DEV bool mr_entry_same_(const struct mr_args_ *a, const struct mr_entry *x, const struct mr_entry *y)
{
    const struct mr_pair *p, *q;

    if (x->prefix != y->prefix) return false;
    p = mr_entry_pair_(a, x);
    q = mr_entry_pair_(a, y);
    return p->key == q->key && !mr_compare_(mr_pair_key_(p), p->key, mr_pair_key_(q), q->key);
}

GW_DEV const void *mr_next(struct mr_reduce *r, uint32_t *bytes)
{
    const struct mr_args_ *a = r->a;
    const struct mr_pair *p;

    if (r->next >= r->end) return NULL;
    if (r->next > r->at && !mr_entry_same_(a, &a->entry[r->at], &a->entry[r->next])) {
        r->end = r->next;
        return NULL;
    }
    p = mr_entry_pair_(a, &a->entry[r->next++]);
    if (bytes) *bytes = p->value;
    return mr_pair_value_(p);
}

GW_DEV void mr_put(struct mr_reduce *r, const void *from, uint64_t bytes)
{
    if (r->to) mr_bytes_(r->to + r->put, (const uint8_t *)from, (uint32_t)bytes);
    r->put += bytes;
}

GW_DEV void mr_put_char(struct mr_reduce *r, char c)
{
    mr_put(r, &c, 1);
}

GW_DEV void mr_put_text(struct mr_reduce *r, const char *text)
{
    while (*text) mr_put_char(r, *text++);
}

GW_DEV void mr_put_u64(struct mr_reduce *r, uint64_t v)
{
    char digit[20];
    uint32_t n = 0;

    do digit[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) mr_put_char(r, digit[--n]);
}

GW_DEV void mr_put_i64(struct mr_reduce *r, int64_t v)
{
    if (v < 0) mr_put_char(r, '-');
    mr_put_u64(r, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* The kernel of both passes: a->out says which. */
GW_DEV void mr_reduce_block_(const struct mr_args_ *a,
                             void (*reduce)(struct mr_reduce *r, const uint8_t *key, uint32_t bytes))
{
    uint64_t i = a->first_tile * a->tile_entries + gw_global_idx(), end = a->last_tile * a->tile_entries;

    if (end > a->entries) end = a->entries;
    for (; i < end; i += gw_global_dim()) {
        const struct mr_pair *p = mr_entry_pair_(a, &a->entry[i]);
        struct mr_reduce r;

        if (i && mr_entry_same_(a, &a->entry[i - 1], &a->entry[i])) {
            if (!a->out) a->length[i] = 0;
            continue;
        }
        r.state = a->state;
        r.state_bytes = a->state_bytes;
        r.a = a;
        r.at = r.next = i;
        r.end = a->entries;
        r.to = a->out ? a->out + (a->tile[i / a->tile_entries] - a->base) + a->length[i] : NULL;
        r.put = 0;
        reduce(&r, mr_pair_key_(p), p->key);
        if (!a->out) a->length[i] = r.put;
    }
}

#endif
