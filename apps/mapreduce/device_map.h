/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_map.h: mapping: blocks take pieces of the input, find the records in them, and emit pairs.
 * Included by device.h.
 */
#ifndef GW_MAPREDUCE_DEVICE_MAP_H
#define GW_MAPREDUCE_DEVICE_MAP_H

GW_DEV void mr_sample_(const struct mr_args_ *a, const uint8_t *key, uint32_t bytes)
{
    uint32_t i = gw_add_relaxed_u32_gpu(&a->dev->samples, 1);
    uint8_t *to = a->sample + (uint64_t)i * MR_SAMPLE;

    if (i >= a->sample_max) return;
    if (bytes > MR_SAMPLE_KEY) bytes = MR_SAMPLE_KEY;
    *(uint16_t *)to = (uint16_t)bytes;
    mr_bytes_(to + 2, key, bytes);
}

GW_DEV void mr_emit(struct mr_map *m, const void *key, uint32_t key_bytes, const void *value,
                    uint32_t value_bytes)
{
    const struct mr_args_ *a = m->a;
    struct mr_new n = {0, key_bytes, value_bytes, (const uint8_t *)key, value};

    if (key_bytes - 1 >= a->key) {
        mr_wrong_(a, MR_WRONG_KEY, key_bytes);
        return;
    }
    if (value_bytes > a->value || (a->combine_how && value_bytes != a->value)) {
        mr_wrong_(a, MR_WRONG_VALUE, value_bytes);
        return;
    }
    if (a->sample) {
        mr_sample_(a, n.key, key_bytes);
        return;
    }
    n.hash = mr_hash_(n.key, key_bytes);
    if (a->combine_how && key_bytes <= a->table_key && mr_table_add_(m, &n)) return;
    mr_pair_send_(a, (struct mr_bucket *)m->bucket, &n);
}

GW_DEV void mr_emit_u64(struct mr_map *m, const void *key, uint32_t key_bytes, uint64_t value)
{
    mr_emit(m, key, key_bytes, &value, 8);
}

typedef void (*mr_map_fn_)(struct mr_map *m, const uint8_t *record, uint32_t bytes);

/* Does a record of text begin at byte i of a piece? p[-1] is the byte before the piece. */
GW_DEV bool mr_text_begins_(const struct mr_args_ *a, const uint8_t *p, uint64_t offset, uint32_t i)
{
    bool first = offset + i == 0;

    if (a->input == MR_LINES) return first || p[(int64_t)i - 1] == '\n';
    return !mr_is_space(p[i]) && (first || mr_is_space(p[(int64_t)i - 1]));
}

/* Maps the record of text that begins at byte i of a piece. */
GW_DEV void mr_text_map_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, uint32_t i,
                         mr_map_fn_ map)
{
    bool words = m->a->input == MR_WORDS;
    uint32_t n = i;

    GW_NO_UNROLL_
    while (n < s->avail && !(words ? mr_is_space(p[n]) : p[n] == '\n')) n++;
    if ((n == s->avail && !s->last) || n - i > m->a->overlap) {
        mr_wrong_(m->a, MR_WRONG_LONG, s->offset + i);
        return;
    }
    m->offset = s->offset + i;
    map(m, p + i, n - i);
}

/* Where records begin, of those that each warp has found and not mapped. */
struct mr_starts {
    uint32_t at[32][64];
};

/* Each warp looks at 32 bytes at a time, and maps when it has found 32 records. So all its threads map,
 * though records begin at few of the bytes. A block of whole warps. */
GW_DEV void mr_map_text_packed_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, mr_map_fn_ map)
{
    GW_SHARED(struct mr_starts, starts);
    uint32_t *at = starts->at[gw_warp_idx()], lane = gw_lane(), base, n = 0;

    for (base = gw_thread_idx() - lane; base < s->bytes; base += gw_block_dim()) {
        bool begins = base + lane < s->bytes && mr_text_begins_(m->a, p, s->offset, base + lane);
        uint32_t mask = gw_ballot(gw_warp_all(), begins);

        if (begins) at[n + gw_popcount(mask & ((1u << lane) - 1))] = base + lane;
        n += gw_popcount(mask);
        if (n < 32) continue;
        gw_syncwarp(gw_warp_all());
        mr_text_map_(m, s, p, at[lane], map);
        n -= 32;
        gw_syncwarp(gw_warp_all()); /* the first 32 have been read */
        if (lane < n) at[lane] = at[32 + lane];
        gw_syncwarp(gw_warp_all());
    }
    gw_syncwarp(gw_warp_all());
    if (lane < n) mr_text_map_(m, s, p, at[lane], map);
}

/* A piece of text. */
GW_DEV void mr_map_text_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, mr_map_fn_ map)
{
    bool warp = m->a->by == MR_BY_WARP;
    uint32_t i, step = warp ? (gw_block_dim() + 31) / 32 : gw_block_dim();

    if (!warp && gw_block_dim() % 32 == 0) {
        mr_map_text_packed_(m, s, p, map);
        return;
    }
    for (i = warp ? gw_warp_idx() : gw_thread_idx(); i < s->bytes; i += step) {
        if (!mr_text_begins_(m->a, p, s->offset, i)) continue;
        mr_text_map_(m, s, p, i, map);
        if (warp) gw_syncwarp(gw_warp_mask());
    }
}

/* A piece of whole records. */
GW_DEV void mr_map_records_(struct mr_map *m, const struct mr_slot *s, const uint8_t *p, uint64_t offset,
                            mr_map_fn_ map)
{
    uint32_t size = m->a->record, n = s->bytes / size, i;
    bool warp = m->a->by == MR_BY_WARP;
    uint32_t step = warp ? (gw_block_dim() + 31) / 32 : gw_block_dim();
    uint64_t first = s->number;

    if (m->a->by == MR_BY_BLOCK) {
        m->offset = offset;
        m->number = first;
        map(m, p, n * size);
        return;
    }
    for (i = warp ? gw_warp_idx() : gw_thread_idx(); i < n; i += step) {
        m->offset = offset + (uint64_t)i * size;
        m->number = first + i;
        map(m, p + (uint64_t)i * size, size);
        if (warp) gw_syncwarp(gw_warp_mask());
    }
}

/* Waits for the next piece. NULL: there is none, or the round is given up. All threads of a block. */
GW_DEV struct mr_slot *mr_slot_next_(const struct mr_args_ *a)
{
    uint64_t ticket = 0;
    uint32_t round;

    if (gw_thread_idx() == 0) {
        ticket = gw_add_relaxed_u64_gpu(&a->dev->ticket, 1);
        for (round = 0;; round++) {
            /* acquire: the piece was written before */
            if (gw_ld_acquire_u64(&a->slot[ticket % a->slots].ready) == ticket + 1) break;
            /* acquire: `tickets` was */
            if ((gw_ld_acquire_u32(&a->ctl->no_more) && ticket >= gw_ld_relaxed_u64(&a->ctl->tickets)) ||
                mr_stopped_(a)) {
                ticket = UINT64_MAX;
                break;
            }
            mr_idle_(round);
        }
    }
    ticket = gw_group_first(GW_BLOCK, ticket);
    return ticket == UINT64_MAX ? NULL : &a->slot[ticket % a->slots];
}

/* Maps a piece. The slot is free again when its bytes are not needed there. All threads of a block. */
GW_DEV void mr_map_piece_(struct mr_map *m, struct mr_slot *slot, uint32_t mapper, mr_map_fn_ map)
{
    const struct mr_args_ *a = m->a;
    struct mr_slot s = *slot;
    uint8_t *p = a->buffers + (uint64_t)(slot - a->slot) * a->buffer;
    uint8_t *own = s.keep ? a->kept + (s.keep - 1) : a->own ? a->own + (uint64_t)mapper * a->buffer : NULL;

    if (own) {
        if (!s.is_kept) gw_copy_share(own, p, MR_LEAD + (uint64_t)s.avail, gw_thread_idx(), gw_block_dim());
        p = own;
        gw_syncthreads();
        if (gw_thread_idx() == 0) gw_st_release_u64(&slot->taken, s.ready); /* after the copy's loads */
    }
    if (a->combine_how && a->flags & MR_FILES_APART && !a->sample && m->file != s.file) {
        mr_table_flush_(m);
        gw_syncthreads();
    }
    m->file = s.file;
    if (a->input == MR_LINES || a->input == MR_WORDS)
        mr_map_text_(m, &s, p + MR_LEAD, map);
    else
        mr_map_records_(m, &s, p + MR_LEAD, s.offset, map);
    gw_syncthreads();
    if (!own && gw_thread_idx() == 0) gw_st_release_u64(&slot->taken, s.ready); /* after the map's loads */
}

/* Is it this block that sends what its table has? Of blocks that share one it is the last. All threads. */
GW_DEV bool mr_last_to_combine_(const struct mr_args_ *a)
{
    uint32_t before = gw_grid_dim() - 1;

    if (!(a->flags & MR_ONE_TABLE)) return true;
    /* release: what this block has combined, all before the barrier. acquire: what the others have */
    if (gw_thread_idx() == 0) before = gw_add_acq_rel_u32_gpu(&a->dev->arrived, 1);
    return gw_group_first(GW_BLOCK, before) == gw_grid_dim() - 1;
}

/* The kernel of a round: each block is a mapper. */
GW_DEV void mr_map_block_(const struct mr_args_ *a, mr_map_fn_ map, void (*combine)(void *, const void *))
{
    uint32_t mapper = gw_block_idx(), i;
    struct mr_slot *slot;
    struct mr_map m;

    memset(&m, 0, sizeof(m));
    m.a = a;
    m.state = a->state;
    m.state_bytes = a->state_bytes;
    m.record = a->record;
    m.bucket = a->bucket + ((uint64_t)mapper * a->groups + gw_warp_idx() % a->groups) * a->parts;
    m.table = a->table;
    if (!(a->flags & MR_ONE_TABLE)) m.table = a->table + (uint64_t)mapper * a->table_slots * a->table_stride;
    m.combine = combine;
    while ((slot = mr_slot_next_(a))) mr_map_piece_(&m, slot, mapper, map);
    gw_syncthreads();
    if (a->combine_how && !a->sample && mr_last_to_combine_(a)) mr_table_flush_(&m);
    gw_syncthreads();
    for (i = gw_thread_idx(); i < a->groups * a->parts && !a->sample && !mr_failed_(a); i += gw_block_dim()) {
        struct mr_bucket *b = a->bucket + (uint64_t)mapper * a->groups * a->parts + i;
        uint32_t chunk = (uint32_t)(b->word >> 32);

        if (chunk != MR_NO_CHUNK) mr_chunk_seal_(a, chunk, i % a->parts);
        b->word = (uint64_t)MR_NO_CHUNK << 32 | MR_ROOM;
    }
    gw_syncthreads();
    /* release: the movers that see all mappers ended see all that they have sealed */
    if (gw_thread_idx() == 0) gw_add_release_u32_gpu(&a->dev->mapped, 1);
}

#endif
