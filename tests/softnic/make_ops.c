/* SPDX-License-Identifier: Apache-2.0 */
/* What one side sends to its peer, and what becomes of memory by it. */
#include <stdlib.h>
#include <string.h>

#include "tests/softnic/workload.h"

/* A piece of the side's memory, with a gap before it that nobody may write to. */
static uint32_t take(struct side *s, uint32_t len, uint32_t align)
{
    uint32_t at = s->used + 1 + world_below(s->w, 16);

    at = (at + align - 1) / align * align;
    if (at + len > SIDE_MEM) abort(); /* the sizes below make that impossible */
    s->used = at + len;
    return at;
}

static uint32_t some_length(struct side *s, uint32_t mtu)
{
    switch (world_below(s->w, 8)) {
    case 0: return 0;
    case 1: return 1 + world_below(s->w, 64);
    case 2: return mtu;
    case 3: return mtu * (1 + world_below(s->w, 3)) + world_below(s->w, 3);
    case 4: return 1 + world_below(s->w, 3 * mtu);
    default: return 1 + world_below(s->w, 300);
    }
}

/* Cuts len bytes of memory into up to three pieces; with slack, more than that. Returns how many. */
static uint32_t cut(struct side *s, struct gw_mlx5_sge *sge, uint32_t *at, uint32_t len, uint32_t slack)
{
    uint32_t n = 0, left = len + slack;

    while (left && n < MAX_PIECES) {
        uint32_t k = n == MAX_PIECES - 1 ? left : 1 + world_below(s->w, left);

        at[n] = take(s, k, 1);
        sge[n] = (struct gw_mlx5_sge){(uintptr_t)s->mem + at[n], k, s->key};
        left -= k;
        n++;
    }
    return n;
}

/* Puts the message's bytes into pieces of a side's expected memory, and of its present memory if `now`. */
static void fill(struct side *s, const uint32_t *at, const struct gw_mlx5_sge *sge, uint32_t n,
                 const uint8_t *data, uint32_t len, bool now)
{
    for (uint32_t i = 0; i < n && len; i++) {
        uint32_t k = sge[i].length < len ? sge[i].length : len;

        memcpy(s->expected + at[i], data, k);
        if (now) memcpy(s->mem + at[i], data, k);
        data += k;
        len -= k;
    }
}

static void make_data(struct side *s, struct op *o, uint32_t len, uint8_t *data)
{
    uint32_t at[MAX_PIECES];

    rnd_bytes(&s->w->rnd, data, len);
    o->len = len;
    o->wr.num_sge = cut(s, o->sge, at, len, 0);
    fill(s, at, o->sge, o->wr.num_sge, data, len, true);
    o->wr.inl = len <= 200 && world_below(s->w, 4) == 0;
}

static void make_recv(struct side *s, struct op *o, const uint8_t *data, uint32_t len)
{
    uint32_t at[MAX_PIECES];

    o->consumes = true;
    o->recv_pieces = cut(s->peer, o->recv_sge, at, len, world_below(s->w, 2) ? world_below(s->w, 100) : 0);
    fill(s->peer, at, o->recv_sge, o->recv_pieces, data, len, false);
    s->peer->recv_total++;
}

static void make_send(struct side *s, struct op *o, uint32_t len, uint8_t *data)
{
    make_data(s, o, len, data);
    o->wr.opcode = world_below(s->w, 2) ? GW_MLX5_SEND : GW_MLX5_SEND_IMM;
    make_recv(s, o, data, len);
}

/* Where an earlier READ reads from: with a fence that READ must not see what is written now. */
static bool overwrite(struct side *s, struct op *o, uint32_t *len)
{
    struct op *read = &s->ops[world_below(s->w, (uint32_t)(o - s->ops) + 1)];

    if (read == o || !read->fresh || !read->len) return false;
    read->fresh = false;
    *len = read->len;
    o->remote = read->remote;
    o->wr.flags |= GW_MLX5_FENCE;
    return true;
}

static void make_write(struct side *s, struct op *o, uint32_t len, uint8_t *data)
{
    if (!overwrite(s, o, &len)) o->remote = take(s->peer, len, 1);
    make_data(s, o, len, data);
    memcpy(s->peer->expected + o->remote, data, len);
    o->wr.opcode = GW_MLX5_WRITE;
    if (world_below(s->w, 3)) return;
    o->wr.opcode = GW_MLX5_WRITE_IMM;
    make_recv(s, o, NULL, 0);
}

/* Of fresh memory, or of what an earlier WRITE of this connection wrote, which must be seen. */
static void make_read(struct side *s, struct op *o, uint32_t len, uint8_t *data)
{
    const struct op *from = &s->ops[world_below(s->w, (uint32_t)(o - s->ops) + 1)];
    uint32_t at[MAX_PIECES];

    if (from != o && from->len &&
        (from->wr.opcode == GW_MLX5_WRITE || from->wr.opcode == GW_MLX5_WRITE_IMM)) {
        len = from->len;
        o->remote = from->remote;
        memcpy(data, s->peer->expected + o->remote, len);
    } else {
        rnd_bytes(&s->w->rnd, data, len);
        o->fresh = true;
        o->remote = take(s->peer, len, 1);
        memcpy(s->peer->expected + o->remote, data, len);
        memcpy(s->peer->mem + o->remote, data, len);
    }
    o->len = len;
    o->wr.opcode = GW_MLX5_READ;
    o->wr.num_sge = cut(s, o->sge, at, len, 0);
    fill(s, at, o->sge, o->wr.num_sge, data, len, false);
}

/* On the 8 bytes of an earlier atomic of this connection, or on new ones. */
static void make_atomic(struct side *s, struct op *o)
{
    const struct op *from = &s->ops[world_below(s->w, (uint32_t)(o - s->ops) + 1)];
    uint64_t before, after;
    uint32_t at[MAX_PIECES];

    if (from != o && from->len == 8 && from->wr.opcode >= GW_MLX5_ATOMIC_CS) {
        o->remote = from->remote;
    } else {
        o->remote = take(s->peer, 8, 8);
        rnd_bytes(&s->w->rnd, s->peer->mem + o->remote, 8);
        memcpy(s->peer->expected + o->remote, s->peer->mem + o->remote, 8);
    }
    memcpy(&before, s->peer->expected + o->remote, 8);
    o->wr.opcode = world_below(s->w, 2) ? GW_MLX5_ATOMIC_FA : GW_MLX5_ATOMIC_CS;
    o->wr.swap_or_add = rnd64(&s->w->rnd);
    o->wr.compare = world_below(s->w, 3) ? before : before + 1;
    after = before + o->wr.swap_or_add;
    if (o->wr.opcode == GW_MLX5_ATOMIC_CS) after = o->wr.compare == before ? o->wr.swap_or_add : before;
    memcpy(s->peer->expected + o->remote, &after, 8);
    o->len = 8;
    at[0] = take(s, 8, 1);
    o->sge[0] = (struct gw_mlx5_sge){(uintptr_t)s->mem + at[0], 8, s->key};
    o->wr.num_sge = 1;
    fill(s, at, o->sge, 1, (const uint8_t *)&before, 8, false);
}

static void make_op(struct side *s, struct op *o, uint32_t mtu)
{
    static uint8_t data[8 * 4096];
    uint32_t len = some_length(s, mtu);

    switch (world_below(s->w, 12)) {
    case 0: o->nop = true; break;
    case 1:
    case 2:
    case 3: make_write(s, o, len, data); break;
    case 4:
    case 5: make_read(s, o, len, data); break;
    case 6:
    case 7: make_atomic(s, o); break;
    default: make_send(s, o, len, data); break;
    }
    o->wr.sge = o->sge;
    o->wr.imm_be = (uint32_t)rnd64(&s->w->rnd);
    o->wr.raddr = (uintptr_t)s->peer->mem + o->remote;
    o->wr.rkey = s->peer->key;
    o->signaled = world_below(s->w, 2) || o == &s->ops[s->op_count - 1] || (o - s->ops) % 4 == 3;
    if (o->signaled) o->wr.flags |= GW_MLX5_SIGNALED;
    if (s->sig_all) o->signaled = true;
    if (world_below(s->w, 6) == 0) o->wr.flags |= GW_MLX5_FENCE;
    if (world_below(s->w, 4) == 0) o->wr.flags |= GW_MLX5_SOLICITED;
}

void make_ops(struct side *s, uint32_t count, uint32_t mtu)
{
    s->op_count = count;
    for (uint32_t i = 0; i < count; i++) make_op(s, &s->ops[i], mtu);
}
