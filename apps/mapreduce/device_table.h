/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_table.h: combining: a mapper block's table has the pairs whose values wait for more of the same
 * key. Included by device.h.
 */
#ifndef GW_MAPREDUCE_DEVICE_TABLE_H
#define GW_MAPREDUCE_DEVICE_TABLE_H

/* A place of a block's table: this, the value, the key. */
struct mr_place {
    uint32_t tag; /* 0 free, 1 being written, else of the key there */
    uint32_t key; /* bytes */
};

GW_DEV void mr_number_f32_(void *into, const void *from)
{
    for (;;) {
        uint32_t old = gw_ld_relaxed_u32_gpu(into), now;
        float f;

        memcpy(&f, &old, 4);
        f += *(const float *)from;
        memcpy(&now, &f, 4);
        if (gw_cas_relaxed_u32_gpu(into, old, now) == old) return;
    }
}

GW_DEV void mr_number_f64_(void *into, const void *from)
{
    for (;;) {
        uint64_t old = gw_ld_relaxed_u64_gpu(into), now;
        double f;

        memcpy(&f, &old, 8);
        f += *(const double *)from;
        memcpy(&now, &f, 8);
        if (gw_cas_relaxed_u64_gpu(into, old, now) == old) return;
    }
}

GW_DEV void mr_number_extreme_(void *into, uint64_t v, bool max)
{
    for (;;) {
        uint64_t old = gw_ld_relaxed_u64_gpu(into);

        if ((max ? v <= old : v >= old) || gw_cas_relaxed_u64_gpu(into, old, v) == old) return;
    }
}

/* Combines a value into one that other threads combine into, too. */
GW_DEV void mr_combine_(struct mr_map *m, struct mr_place *p, uint32_t tag, const void *value, uint32_t bytes)
{
    uint8_t *into = (uint8_t *)(p + 1);
    const uint8_t *from = (const uint8_t *)value;
    uint32_t i, round = 0;

    switch (m->a->combine_how) {
    case MR_SUM_U64:
        GW_NO_UNROLL_
        for (i = 0; i < bytes; i += 8) gw_add_relaxed_u64_gpu(into + i, *(const uint64_t *)(from + i));
        break;
    case MR_SUM_F32:
        for (i = 0; i < bytes; i += 4) mr_number_f32_(into + i, from + i);
        break;
    case MR_SUM_F64:
        for (i = 0; i < bytes; i += 8) mr_number_f64_(into + i, from + i);
        break;
    case MR_MIN_U64:
    case MR_MAX_U64:
        for (i = 0; i < bytes; i += 8)
            mr_number_extreme_(into + i, *(const uint64_t *)(from + i), m->a->combine_how == MR_MAX_U64);
        break;
    default: /* the job's own, which one thread at a time runs: the tag is the lock */
        /* acquire: not before the last one's value is whole; release: not seen free before this one's is */
        while (gw_cas_acquire_u32_gpu(&p->tag, tag, 1) != tag) mr_idle_(round++);
        m->combine(into, value);
        gw_st_release_u32_gpu(&p->tag, tag);
    }
}

/* The tag of a place that is not being written. acquire: its key was written before. */
GW_DEV uint32_t mr_place_tag_(struct mr_place *p)
{
    uint32_t tag, round = 0;

    while ((tag = gw_ld_acquire_u32_gpu(&p->tag)) == 1) mr_idle_(round++);
    return tag;
}

GW_DEV struct mr_place *mr_place_at_(const struct mr_map *m, uint32_t i)
{
    uint32_t at = i & (m->a->table_slots - 1);

    return (struct mr_place *)((uint8_t *)m->table + (uint64_t)at * m->a->table_stride);
}

/* A key's place in the table. If there was none, *fresh: it now has the value, or zeros for NULL. NULL: there
 * is no room; with a value, none near where the key belongs. */
GW_DEV struct mr_place *mr_place_get_(struct mr_map *m, const struct mr_new *n, bool *fresh)
{
    uint32_t tag = n->hash | 2, probes = n->value ? MR_PROBES : m->a->table_slots, i;

    *fresh = false;
    GW_NO_UNROLL_
    for (i = 0; i < probes; i++) {
        struct mr_place *p = mr_place_at_(m, n->hash + i);
        uint8_t *its_key = (uint8_t *)(p + 1) + mr_up8_(m->a->value);
        uint32_t seen = mr_place_tag_(p);

        if (!seen) {
            seen = gw_cas_acquire_u32_gpu(&p->tag, 0, 1);
            if (!seen) {
                p->key = n->key_bytes;
                if (n->value)
                    mr_bytes_((uint8_t *)(p + 1), (const uint8_t *)n->value, n->value_bytes);
                else
                    memset(p + 1, 0, n->value_bytes);
                mr_bytes_(its_key, n->key, n->key_bytes);
                gw_st_release_u32_gpu(&p->tag, tag); /* who sees the tag sees key and value */
                *fresh = true;
                return p;
            }
            if (seen == 1) seen = mr_place_tag_(p);
        }
        if (seen == tag && p->key == n->key_bytes &&
            !mr_compare_(its_key, n->key_bytes, n->key, n->key_bytes))
            return p;
    }
    return NULL;
}

/* Combines a pair in the block's table. false: there is no place for its key. */
GW_DEV bool mr_table_add_(struct mr_map *m, const struct mr_new *n)
{
    bool fresh;
    struct mr_place *p = mr_place_get_(m, n, &fresh);

    if (p && !fresh) mr_combine_(m, p, n->hash | 2, n->value, n->value_bytes);
    return p != NULL;
}

GW_DEV uint64_t *mr_sums(struct mr_map *m, const void *key, uint32_t key_bytes)
{
    const uint8_t *k = (const uint8_t *)key;
    struct mr_new n = {mr_hash_(k, key_bytes), key_bytes, m->a->value, k, NULL};
    bool fresh;
    struct mr_place *p = mr_place_get_(m, &n, &fresh);

    return p ? (uint64_t *)(p + 1) : NULL;
}

/* Sends all that the block's table has. All threads of the block. */
GW_DEV void mr_table_flush_(struct mr_map *m)
{
    const struct mr_args_ *a = m->a;
    uint32_t i;

    for (i = gw_thread_idx(); i < a->table_slots; i += gw_block_dim()) {
        struct mr_place *p = mr_place_at_(m, i);
        uint8_t *key = (uint8_t *)(p + 1) + mr_up8_(a->value);
        struct mr_new n = {mr_hash_(key, p->key), p->key, a->value, key, p + 1};

        if (!p->tag) continue;
        mr_pair_send_(a, (struct mr_bucket *)m->bucket, &n);
        p->tag = 0;
    }
}

#endif
