/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe.h: how tokens reach their experts. Included by gpuwire/moe.h; names that end in _ are private.
 *
 * Rows for one expert lie together, in the order of experts, so that those for one rank do as well. Each
 * rank tells the others how many rows each of their experts gets. Then the rows go, in an all-to-all(v).
 */
#include <gpuwire/moe.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_MOE_H
#define GPUWIRE_DETAIL_COLLECTIVE_MOE_H

struct gw_moe_handle {
    uint32_t size, version;
    struct gw_moe_shape shape;
    uint32_t tokens; /* at most */
    uint32_t local;  /* experts of a rank */
    uint32_t row;    /* bytes */
    uint32_t pad;
    int32_t *at;       /* [tokens][top]: the row of a token for an expert; -1: none */
    uint32_t *count;   /* [experts]: rows that go there */
    uint32_t *first;   /* [experts]: the first of them */
    uint32_t *come;    /* [ranks][local]: rows that come */
    uint64_t *list;    /* [4][ranks]: what goes and comes, in elements: counts and places */
    uint8_t *out, *in; /* rows that go, and that come */
};

/* One thread: the rows of an expert, in the order of tokens. */
GW_DEV void gw_moe_route_(const struct gw_moe_handle *m, const struct gw_moe_io *io, uint32_t expert)
{
    uint64_t n = (uint64_t)io->n * m->shape.top, i;
    uint32_t rows = 0;

    for (i = 0; i < n; i++)
        if (io->expert[i] == (int32_t)expert) m->at[i] = rows < m->shape.capacity ? (int32_t)rows++ : -1;
    m->count[expert] = rows;
}

/* One thread: where each expert's rows begin, and what goes to each rank. */
GW_DEV void gw_moe_lay_(const struct gw_moe_handle *m, uint32_t ranks)
{
    uint32_t rows = 0, p, e;

    for (p = 0; p < ranks; p++) {
        m->list[ranks + p] = (uint64_t)rows * m->shape.hidden;
        for (e = p * m->local; e < (p + 1) * m->local; e++) {
            m->first[e] = rows;
            rows += m->count[e];
        }
        m->list[p] = (uint64_t)rows * m->shape.hidden - m->list[ranks + p];
    }
}

/* The first block: finds each token's rows. */
GW_DEV void gw_moe_plan_(const struct gw_team *t, const struct gw_moe_handle *m, const struct gw_moe_io *io)
{
    uint64_t n = (uint64_t)io->n * m->shape.top, i;
    uint32_t e;

    if (t->block) return;
    for (i = gw_thread_idx(); i < n; i += gw_block_dim())
        if (io->expert[i] < 0 || (uint32_t)io->expert[i] >= m->shape.experts) m->at[i] = -1;
    for (e = gw_thread_idx(); e < m->shape.experts; e += gw_block_dim()) gw_moe_route_(m, io, e);
    gw_syncthreads();
    if (gw_thread_idx() == 0) gw_moe_lay_(m, t->comm->ranks);
    gw_syncthreads();
    for (i = gw_thread_idx(); i < n; i += gw_block_dim())
        if (m->at[i] >= 0) m->at[i] += (int32_t)m->first[io->expert[i]];
}

/* All threads: the tokens into their rows, divided among blocks. */
GW_DEV void gw_moe_pack_(const struct gw_team *t, const struct gw_moe_handle *m, const struct gw_moe_io *io)
{
    uint64_t n = (uint64_t)io->n * m->shape.top, i;

    for (i = t->block; i < n; i += t->blocks)
        if (m->at[i] >= 0)
            gw_coll_copy_(m->out + (uint64_t)(uint32_t)m->at[i] * m->row,
                          (const uint8_t *)io->token + i / m->shape.top * m->row, m->row);
}

/* One thread: what comes from each rank. A count above the capacity is none: -EPROTO. */
GW_DEV int gw_moe_expect_(const struct gw_team *t, const struct gw_moe_handle *m)
{
    uint32_t ranks = t->comm->ranks, p, e;
    uint64_t rows = 0, before;

    for (p = 0; p < ranks; p++) {
        before = rows;
        for (e = 0; e < m->local; e++) {
            if (m->come[p * m->local + e] > m->shape.capacity) return -EPROTO;
            rows += m->come[p * m->local + e];
        }
        m->list[2 * ranks + p] = (rows - before) * m->shape.hidden;
        m->list[3 * ranks + p] = before * m->shape.hidden;
    }
    return 0;
}

/* All threads: rows between `in`, where they came one after the other, and the inbox: out of it when back
 * is 1. */
GW_DEV void gw_moe_box_(const struct gw_team *t, const struct gw_moe_handle *m, const struct gw_moe_io *io,
                        int back)
{
    uint32_t ranks = t->comm->ranks, p, e, s;
    uint64_t row = 0;

    for (p = 0; p < ranks; p++)
        for (e = 0; e < m->local; e++)
            for (s = 0; s < m->come[p * m->local + e]; s++, row++) {
                uint64_t place = ((uint64_t)e * ranks + p) * m->shape.capacity + s;
                uint8_t *in = m->in + row * m->row, *box = (uint8_t *)io->inbox + place * m->row;

                if (row % t->blocks == t->block) gw_coll_copy_(back ? in : box, back ? box : in, m->row);
            }
}

/* All threads: all rows to the ranks of their experts, or back. */
GW_DEV int gw_moe_exchange_(const struct gw_team *t, const struct gw_moe_handle *m, int back,
                            uint64_t deadline_ns)
{
    uint32_t ranks = t->comm->ranks;
    struct gw_coll c =
        gw_coll_of_(GW_COLL_ALLTOALLV, back ? m->in : m->out, back ? m->out : m->in, 0, m->shape.dtype);

    c.send_count = m->list + (back ? 2 : 0) * ranks;
    c.send_at = m->list + (back ? 3 : 1) * ranks;
    c.recv_count = m->list + (back ? 0 : 2) * ranks;
    c.recv_at = m->list + (back ? 1 : 3) * ranks;
    return gw_coll_synced_(t, &c, deadline_ns);
}

/* All threads: each of the team's blocks learns what the others do. */
GW_DEV int gw_moe_counts_(const struct gw_team *t, const struct gw_moe_handle *m, uint64_t deadline_ns)
{
    int err =
        gw_coll_alltoall(t, m->count, m->come, m->local, gw_coll_type(GW_DTYPE_U32, GW_SUM), deadline_ns);

    if (!err && t->block == 0) err = gw_coll_agree_(gw_thread_idx() ? 0 : gw_moe_expect_(t, m));
    if (err == -EPROTO && gw_thread_idx() == 0) { /* the other blocks wait for this one */
        struct gw_coll_block_ b;

        b.h = t->comm;
        b.block = t->block;
        b.deadline = deadline_ns;
        gw_coll_fail_(&b, err, t->comm->rank);
    }
    return err;
}

GW_DEV int gw_moe_send(const struct gw_team *team, struct gw_moe_handle *moe, const struct gw_moe_io *io,
                       uint64_t deadline_ns)
{
    uint32_t ranks = team->comm->ranks, i;
    int err;

    if (io->n > moe->tokens) return -EINVAL;
    err = gw_coll_sync(team, deadline_ns);
    if (err) return err;
    gw_moe_plan_(team, moe, io);
    err = gw_coll_sync(team, deadline_ns);
    if (err) return err;
    gw_moe_pack_(team, moe, io);
    err = gw_moe_counts_(team, moe, deadline_ns);
    if (!err) err = gw_moe_exchange_(team, moe, 0, deadline_ns);
    if (err) return err;
    gw_moe_box_(team, moe, io, 0);
    for (i = gw_thread_idx(); team->block == 0 && i < ranks * moe->local; i += gw_block_dim())
        io->count[i] = moe->come[i % ranks * moe->local + i / ranks];
    return gw_coll_sync(team, deadline_ns);
}

/* One element of one token's result. */
GW_DEV void gw_moe_add_(const struct gw_moe_handle *m, const struct gw_moe_io *io, uint64_t token, uint32_t h)
{
    uint64_t i = token * m->shape.top, to = token * m->shape.hidden + h;
    float sum = 0;
    uint32_t k;

    for (k = 0; k < m->shape.top; k++, i++) {
        uint64_t at = (uint64_t)(uint32_t)m->at[i] * m->shape.hidden + h;

        if (m->at[i] < 0) continue;
        if (m->shape.dtype == GW_DTYPE_F32)
            sum += io->weight[i] * ((const float *)m->out)[at];
        else if (m->shape.dtype == GW_DTYPE_F16)
            sum += io->weight[i] * gw_of_f16_(((const uint16_t *)m->out)[at]);
        else
            sum += io->weight[i] * gw_of_bf16_(((const uint16_t *)m->out)[at]);
    }
    if (m->shape.dtype == GW_DTYPE_F32)
        ((float *)io->result)[to] = sum;
    else
        ((uint16_t *)io->result)[to] = m->shape.dtype == GW_DTYPE_F16 ? gw_to_f16_(sum) : gw_to_bf16_(sum);
}

GW_DEV int gw_moe_return(const struct gw_team *team, struct gw_moe_handle *moe, const struct gw_moe_io *io,
                         uint64_t deadline_ns)
{
    uint64_t t;
    uint32_t h;
    int err;

    if (io->n > moe->tokens) return -EINVAL;
    err = gw_coll_sync(team, deadline_ns);
    if (err) return err;
    gw_moe_box_(team, moe, io, 1);
    err = gw_moe_exchange_(team, moe, 1, deadline_ns);
    if (err) return err;
    for (t = team->block; t < io->n; t += team->blocks)
        for (h = gw_thread_idx(); h < moe->shape.hidden; h += gw_block_dim()) gw_moe_add_(moe, io, t, h);
    return gw_coll_sync(team, deadline_ns);
}

#endif
