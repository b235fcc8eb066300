/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with any cache and any head of up to GEN_GPU_HEAD, and the join of parts. */
#ifndef GW_GENERATE_GPU_KERNELS_ATTEND_ANY_H
#define GW_GENERATE_GPU_KERNELS_ATTEND_ANY_H

#include "src/generate/gpu/kernels/attend.h"

struct gen_any_room {
    float q[GEN_GPU_GROUP][GEN_GPU_HEAD], sum[GEN_GPU_GROUP][GEN_GPU_HEAD];
    float score[GEN_GPU_GROUP][GEN_PAGE + 1];
    float most[GEN_GPU_GROUP], all[GEN_GPU_GROUP], scaled[GEN_GPU_GROUP];
};

/* Scores of a page's keys: an element for each head and key. */
GW_DEV void gen_any_scores(const struct gen_attend_args *a, const struct gen_attend_place *p, uint32_t page,
                           struct gen_any_room *room)
{
    uint64_t keys = gen_attend_page(a, p, page, 0);
    uint32_t e, i;

    for (e = gw_thread_idx(); e < p->heads * GEN_PAGE; e += gw_block_dim()) {
        uint32_t head = e / GEN_PAGE, token = e % GEN_PAGE;
        uint64_t key = keys + (uint64_t)token * a->cache.width;
        float s = 0;
        for (i = 0; i < a->head; i++) s += room->q[head][i] * gen_get(a->cache.dtype, a->cache.at, key + i);
        room->score[head][token] = gen_attend_score(a, s, a->step->position[p->row], page * GEN_PAGE + token);
    }
}

/* Scores become weights; a thread has a head. */
GW_DEV void gen_any_weigh(struct gen_any_room *room, uint32_t heads)
{
    uint32_t head, i;

    for (head = gw_thread_idx(); head < heads; head += gw_block_dim()) {
        float *s = room->score[head], most = room->most[head];
        for (i = 0; i < GEN_PAGE; i++) most = s[i] > most ? s[i] : most;
        room->scaled[head] = gen_attend_weight(room->most[head], most);
        room->most[head] = most;
        room->all[head] *= room->scaled[head];
        for (i = 0; i < GEN_PAGE; i++) room->all[head] += s[i] = gen_attend_weight(s[i], most);
    }
}

GW_DEV void gen_any_values(const struct gen_attend_args *a, const struct gen_attend_place *p, uint32_t page,
                           struct gen_any_room *room)
{
    uint64_t values = gen_attend_page(a, p, page, 1);
    uint32_t e, i;

    for (e = gw_thread_idx(); e < p->heads * a->value_head; e += gw_block_dim()) {
        uint32_t head = e / a->value_head, at = e % a->value_head;
        float sum = room->sum[head][at] * room->scaled[head];
        for (i = 0; i < GEN_PAGE; i++) { /* what lies after the row's position may be no number */
            float weight = room->score[head][i];
            if (weight != 0)
                sum +=
                    weight * gen_get(a->cache.dtype, a->cache.at, values + (uint64_t)i * a->cache.width + at);
        }
        room->sum[head][at] = sum;
    }
}

GW_DEV void gen_any_begin(const struct gen_attend_args *a, const struct gen_attend_place *p,
                          struct gen_any_room *room)
{
    uint32_t e;

    for (e = gw_thread_idx(); e < p->heads * a->head; e += gw_block_dim())
        room->q[e / a->head][e % a->head] = gen_row_get(&a->q, p->row, p->head * a->head + e);
    for (e = gw_thread_idx(); e < p->heads * a->value_head; e += gw_block_dim())
        room->sum[e / a->value_head][e % a->value_head] = 0;
    for (e = gw_thread_idx(); e < p->heads; e += gw_block_dim()) room->most[e] = -INFINITY, room->all[e] = 0;
}

GW_KERNEL(gen_attend_any, struct gen_attend_args, a)
{
    GW_SHARED(struct gen_any_room, room);
    struct gen_attend_place p;
    uint32_t page, e;

    if (!gen_attend_row(a, &p)) return;
    gen_any_begin(a, &p, room);
    gw_syncthreads();
    for (page = p.page; page < p.end; page++) {
        gen_any_scores(a, &p, page, room);
        gw_syncthreads(); /* all scores are there */
        gen_any_weigh(room, p.heads);
        gw_syncthreads(); /* all weights are */
        gen_any_values(a, &p, page, room);
        gw_syncthreads(); /* weights are used: the next scores take their place */
    }
    for (e = gw_thread_idx(); e < p.heads * a->value_head; e += gw_block_dim()) {
        uint32_t head = e / a->value_head, i = e % a->value_head;
        gen_attend_put(a, &p, (p.head + head) * a->value_head + i, room->sum[head][i],
                       gen_attend_by(a, p.head + head, room->most[head], room->all[head]));
    }
    for (e = gw_thread_idx(); e < p.heads && a->splits > 1; e += gw_block_dim())
        gen_attend_put_numbers(a, &p, p.head + e, room->most[e], room->all[e]);
}

/* A block for each row and head: parts are added up in order. */
GW_KERNEL(gen_attend_join, struct gen_attend_args, a)
{
    uint32_t slot = gw_block_idx() / a->heads, head = gw_block_idx() % a->heads, row, i, s;
    float most = -INFINITY, all = 0, by;

    if (!gen_attend_slot_row(a, slot, &row)) return;
    for (s = 0; s < a->splits; s++) {
        float m = gen_attend_numbers(a, s, slot, head)[0];
        most = m > most ? m : most;
    }
    for (s = 0; s < a->splits; s++) {
        const float *part = gen_attend_numbers(a, s, slot, head);
        all += part[1] * gen_attend_weight(part[0], most);
    }
    by = gen_attend_by(a, head, most, all);
    for (i = gw_thread_idx(); i < a->value_head; i += gw_block_dim()) {
        float sum = 0;
        for (s = 0; s < a->splits; s++)
            sum += a->partial[gen_attend_part(a, s, slot, head) * a->value_head + i] *
                   gen_attend_weight(gen_attend_numbers(a, s, slot, head)[0], most);
        gen_row_put(&a->y, row, head * a->value_head + i, sum * by);
    }
}

#endif
