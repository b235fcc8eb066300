/* SPDX-License-Identifier: Apache-2.0 */
/* Parses work-queue entries: copies each once, and checks every bound. */
#include "src/mlx5/wqe.h"

#include <string.h>

const char *gw_mlx5_why_text(enum gw_mlx5_why why)
{
    switch (why) {
    case GW_MLX5_OK: return "ok";
    case GW_MLX5_BAD_QUEUE: return "the queue's size or stride is no power of two";
    case GW_MLX5_NOT_POSTED: return "the entry reaches past the producer index in the doorbell record";
    case GW_MLX5_BAD_DS: return "ds is shorter than the opcode's fixed segments";
    case GW_MLX5_OVER_LIMIT: return "ds is above the queue pair's limit";
    case GW_MLX5_BAD_INDEX: return "the control segment's index is not the entry's place in the queue";
    case GW_MLX5_BAD_QPN: return "the control segment names another queue pair";
    case GW_MLX5_BAD_OPCODE: return "unknown or unsupported opcode";
    case GW_MLX5_BAD_OPMOD: return "the opcode modifier is not 0";
    case GW_MLX5_BAD_OPERAND:
        return "a masked atomic's opcode modifier is not 0x09: only 8 bytes are supported";
    case GW_MLX5_ZERO_LENGTH: return "a data segment of length 0, which hardware reads as 2^31 bytes";
    case GW_MLX5_INLINE_OVERRUN: return "an inline segment reaches past the entry's end";
    case GW_MLX5_INLINE_DENIED: return "inline data in an entry that receives";
    case GW_MLX5_BAD_ATOMIC: return "an atomic needs exactly one data segment, of 8 bytes";
    case GW_MLX5_BAD_UMR: return "a UMR that is neither the bind of a memory window nor an invalidation";
    case GW_MLX5_BAD_AV: return "a datagram's address vector is not marked as the long form";
    case GW_MLX5_TOO_LONG: return "the payload exceeds the largest message";
    }
    return "unknown reason";
}

static bool wqe_power_of_two(uint32_t x)
{
    return x && !(x & (x - 1));
}

/*
 * Copies n units out of the ring. Each 16 bytes are read once, by volatile loads. The compiler may neither
 * merge this with another copy nor come back to the ring for a value it already checked.
 */
static void copy_units(uint8_t *dst, const void *base, uint32_t ring_units, uint32_t first, uint32_t n)
{
    const volatile uint64_t *ring = base;

    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)((first + i) & (ring_units - 1)) * 2;
        uint64_t two[2] = {ring[at], ring[at + 1]};

        memcpy(dst + (size_t)i * GW_MLX5_UNIT, two, sizeof(two));
    }
}

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return gw_be32(v);
}

static uint64_t load64(const uint8_t *p)
{
    return (uint64_t)load32(p) << 32 | load32(p + 4);
}

static int bad(enum gw_mlx5_why *out, enum gw_mlx5_why why)
{
    *out = why;
    return why == GW_MLX5_BAD_OPCODE ? -EOPNOTSUPP : -EINVAL;
}

static void parse_ctrl(struct gw_mlx5_wqe *w)
{
    uint32_t op = load32(w->raw), qpn_ds = load32(w->raw + 4);
    uint8_t flags = w->raw[11];

    w->opmod = (uint8_t)(op >> 24);
    w->index = (uint16_t)(op >> 8);
    w->opcode = (uint8_t)op;
    w->qpn = qpn_ds >> 8;
    w->ds = qpn_ds & 0x3f;
    w->fence = flags & GW_MLX5_FENCE_MASK;
    w->signaled = flags & GW_MLX5_SIGNALED; /* CE 2 and 3; 0 and 1 ask for a CQE on error only */
    w->solicited = flags & GW_MLX5_SOLICITED;
    memcpy(&w->imm_be, w->raw + 12, 4);
}

/* Units in front of an entry's payload; 0: none of the kind of queue pair's opcodes. */
static uint32_t head_units(uint8_t opcode, enum gw_mlx5_form form)
{
    uint32_t head = gw_mlx5_head_units(opcode);

    if (opcode == GW_MLX5_UMR && form != GW_MLX5_FORM_UD) return GW_MLX5_UMR_UNITS;
    if (form == GW_MLX5_FORM_CONNECTED) return head;
    if (form == GW_MLX5_FORM_XRC) return head ? head + 1 : 0;
    return opcode == GW_MLX5_SEND || opcode == GW_MLX5_SEND_IMM ? GW_MLX5_UD_HEAD : 0;
}

int gw_mlx5_wqe_bind(const struct gw_mlx5_wqe *w, struct gw_mlx5_bind *b)
{
    const uint8_t *umr = w->raw + GW_MLX5_UNIT, *mkey = w->raw + 4 * GW_MLX5_UNIT,
                  *klm = w->raw + 8 * GW_MLX5_UNIT;
    const uint32_t base = GW_MLX5_UMR_MASK_FREE | GW_MLX5_UMR_MASK_MKEY;
    bool memory = w->ds == GW_MLX5_UMR_BIND_UNITS;
    uint64_t mask = load64(umr + 8), want;
    uint32_t how = GW_MLX5_UMR_OFFSET | GW_MLX5_UMR_INLINE, count = load32(umr + 4);

    memset(b, 0, sizeof(*b));
    if (w->ds != GW_MLX5_UMR_BIND_UNITS && w->ds != GW_MLX5_UMR_UNITS) return -EINVAL;
    b->mkey = gw_be32(w->imm_be);
    b->tag = mkey[7];
    b->type2 = (mask & GW_MLX5_UMR_MASK_QPN) != 0;
    want = base | (b->type2 ? GW_MLX5_UMR_MASK_QPN : 0) | (memory ? GW_MLX5_UMR_MASK_MEMORY : 0);
    if (b->type2) how |= memory ? GW_MLX5_UMR_CHECK_FREE : GW_MLX5_UMR_CHECK_QPN;
    if (umr[0] != how || mask != want || count != (memory ? GW_MLX5_UMR_ONE_PIECE << 16 : 0)) return -EINVAL;
    if (mkey[0] != (memory ? 0 : GW_MLX5_MKEY_FREE)) return -EINVAL;
    if (!memory) return 0;
    if (b->type2 && load32(mkey + 4) >> 8 != w->qpn) return -EINVAL;
    b->access = mkey[2];
    b->start = load64(mkey + 16);
    b->length = load32(klm);
    b->lkey = load32(klm + 4);
    b->addr = load64(klm + 8);
    return b->length && load64(mkey + 24) == b->length ? 0 : -EINVAL;
}

/* The rules for the control segment alone, in the order in which a reader of the message would look. */
static enum gw_mlx5_why check_ctrl(const struct gw_mlx5_wqe *w, const struct gw_mlx5_wqe_at *at)
{
    uint32_t head = head_units(w->opcode, at->form);

    if (w->qpn != at->qpn) return GW_MLX5_BAD_QPN;
    if (w->index != at->index) return GW_MLX5_BAD_INDEX;
    if (w->opcode != GW_MLX5_NOP && !head) return GW_MLX5_BAD_OPCODE;
    if (w->opcode == GW_MLX5_MASKED_CS || w->opcode == GW_MLX5_MASKED_FA) {
        if (w->opmod != GW_MLX5_OPMOD_8_BYTES) return GW_MLX5_BAD_OPERAND;
    } else if (w->opmod) {
        return GW_MLX5_BAD_OPMOD;
    }
    if (w->ds < 1 || w->ds < head) return GW_MLX5_BAD_DS;
    if (w->ds > at->max_ds || w->ds > GW_MLX5_MAX_DS || w->ds > at->wqebbs * GW_MLX5_UNITS_PER_BB)
        return GW_MLX5_OVER_LIMIT;
    if (gw_mlx5_wqebbs(w->ds) > at->avail) return GW_MLX5_NOT_POSTED;
    return GW_MLX5_OK;
}

/* p: what follows the control segment, or XRC's. */
static void parse_connected(struct gw_mlx5_wqe *w, const uint8_t *p)
{
    uint32_t head = gw_mlx5_head_units(w->opcode);

    w->has_raddr = head >= 2;
    if (w->has_raddr) {
        w->raddr = load64(p);
        w->rkey = load32(p + 8);
    }
    if (head >= 3) {
        w->swap_or_add = load64(p + 16);
        w->compare = load64(p + 24);
    }
    if (head == 4) {
        w->swap_mask = load64(p + 32);
        w->compare_mask = load64(p + 40);
    }
}

static enum gw_mlx5_why parse_fixed(struct gw_mlx5_wqe *w, enum gw_mlx5_form form)
{
    uint32_t head = head_units(w->opcode, form), dqpn;

    w->data_unit = w->opcode == GW_MLX5_NOP || w->opcode == GW_MLX5_UMR ? w->ds : (uint8_t)head;
    if (w->opcode == GW_MLX5_UMR) {
        struct gw_mlx5_bind bind;

        return gw_mlx5_wqe_bind(w, &bind) ? GW_MLX5_BAD_UMR : GW_MLX5_OK;
    }
    if (form != GW_MLX5_FORM_UD || !head) {
        if (form == GW_MLX5_FORM_XRC && head) w->srqn = load32(w->raw + GW_MLX5_UNIT) & 0xffffff;
        parse_connected(w, w->raw + (form == GW_MLX5_FORM_XRC ? 2 : 1) * GW_MLX5_UNIT);
        return GW_MLX5_OK;
    }
    dqpn = gw_be32(gw_mlx5_wqe_av(w)->dqpn_be);
    w->qkey = gw_be32(gw_mlx5_wqe_av(w)->qkey_be);
    w->dqpn = dqpn & 0xffffff;
    return dqpn & GW_MLX5_AV_EXTENDED ? GW_MLX5_OK : GW_MLX5_BAD_AV;
}

/*
 * The segment at *unit of an entry of `end` units: its piece, and *unit moved past it. Returns false at the
 * end, or when an inline segment does not fit. In the second case *unit stays below end. An inline segment of
 * no bytes gives a piece of length 0.
 */
static bool next_segment(const uint8_t *raw, uint32_t end, uint32_t *unit, struct gw_mlx5_piece *piece)
{
    const uint8_t *p = raw + (size_t)*unit * GW_MLX5_UNIT;
    uint32_t count;

    if (*unit >= end) return false;
    count = load32(p);
    *piece = (struct gw_mlx5_piece){.length = count & 0x7fffffff};
    if (!(count >> 31)) {
        piece->lkey = load32(p + 4);
        piece->addr = load64(p + 8);
        ++*unit;
        return true;
    }
    if (piece->length + 4 > (end - *unit) * GW_MLX5_UNIT) return false;
    piece->inl = p + 4;
    *unit += (piece->length + 4 + GW_MLX5_UNIT - 1) / GW_MLX5_UNIT;
    return true;
}

static enum gw_mlx5_why check_data(struct gw_mlx5_wqe *w)
{
    bool receives = w->opcode == GW_MLX5_READ || gw_mlx5_is_atomic(w->opcode);
    uint32_t unit = w->data_unit;
    struct gw_mlx5_piece piece;
    uint64_t total = 0;

    while (next_segment(w->raw, w->ds, &unit, &piece)) {
        if (piece.inl && receives) return GW_MLX5_INLINE_DENIED;
        if (!piece.inl && !piece.length) return GW_MLX5_ZERO_LENGTH;
        total += piece.length;
        w->pieces += piece.length != 0;
    }
    if (unit < w->ds) return receives ? GW_MLX5_INLINE_DENIED : GW_MLX5_INLINE_OVERRUN;
    if (total > GW_MLX5_MAX_MSG) return GW_MLX5_TOO_LONG;
    w->length = (uint32_t)total;
    /* Its remote address is the responder's to judge. */
    return gw_mlx5_is_atomic(w->opcode) && (w->pieces != 1 || total != 8) ? GW_MLX5_BAD_ATOMIC : GW_MLX5_OK;
}

int gw_mlx5_wqe_parse(struct gw_mlx5_wqe *out, const struct gw_mlx5_wqe_at *at)
{
    uint32_t first = at->index * GW_MLX5_UNITS_PER_BB, ring_units = at->wqebbs * GW_MLX5_UNITS_PER_BB;

    memset(out, 0, offsetof(struct gw_mlx5_wqe, raw));
    if (!wqe_power_of_two(at->wqebbs) || at->wqebbs > 0x8000) return bad(&out->why, GW_MLX5_BAD_QUEUE);
    if (!at->avail) return bad(&out->why, GW_MLX5_NOT_POSTED);
    copy_units(out->raw, at->base, ring_units, first, 1);
    parse_ctrl(out);
    out->why = check_ctrl(out, at);
    if (out->why) return bad(&out->why, out->why);
    copy_units(out->raw + GW_MLX5_UNIT, at->base, ring_units, first + 1, out->ds - 1u);
    out->wqebbs = (uint16_t)gw_mlx5_wqebbs(out->ds);
    out->why = parse_fixed(out, at->form);
    if (!out->why) out->why = check_data(out);
    return out->why ? bad(&out->why, out->why) : out->wqebbs;
}

static bool rq_shape_ok(uint32_t wqes, uint32_t stride, uint32_t least_units)
{
    uint32_t units = stride / GW_MLX5_UNIT;

    return wqe_power_of_two(wqes) && wqes <= 0x8000 && wqe_power_of_two(stride) && units >= least_units &&
           units <= GW_MLX5_MAX_RQ_UNITS;
}

/* The bytes that a data segment of length 0 stands for; refused where libmlx5 writes none such. */
#define ZERO_MEANS (1u << 31)

/* The list in out->raw: up to `units` segments, or to the one that ends it. */
static enum gw_mlx5_why parse_list(struct gw_mlx5_rwqe *out, uint32_t units, bool zero_ok)
{
    uint32_t unit = 0, n;
    struct gw_mlx5_piece piece;

    while (unit < units) {
        n = unit;
        if (!next_segment(out->raw, units, &unit, &piece) || piece.inl) return GW_MLX5_INLINE_DENIED;
        if (!piece.length && piece.lkey == GW_MLX5_INVALID_LKEY) break;
        if (!piece.length && !zero_ok) return GW_MLX5_ZERO_LENGTH;
        out->length += piece.length ? piece.length : ZERO_MEANS;
        out->pieces = (uint16_t)(n + 1);
    }
    return GW_MLX5_OK;
}

int gw_mlx5_rwqe_parse(struct gw_mlx5_rwqe *out, const void *base, uint32_t wqes, uint32_t stride,
                       uint32_t index)
{
    uint32_t units = stride / GW_MLX5_UNIT;

    memset(out, 0, offsetof(struct gw_mlx5_rwqe, raw));
    if (!rq_shape_ok(wqes, stride, 1)) return bad(&out->why, GW_MLX5_BAD_QUEUE);
    copy_units(out->raw, base, wqes * units, (index & (wqes - 1)) * units, units);
    out->why = parse_list(out, units, false);
    return out->why ? bad(&out->why, out->why) : out->pieces;
}

int gw_mlx5_srq_wqe_parse(struct gw_mlx5_rwqe *out, const void *base, uint32_t wqes, uint32_t stride,
                          uint32_t index, uint16_t *next)
{
    uint32_t units = stride / GW_MLX5_UNIT, first = (index & (wqes - 1)) * units;
    uint8_t link[GW_MLX5_UNIT];

    memset(out, 0, offsetof(struct gw_mlx5_rwqe, raw));
    if (!rq_shape_ok(wqes, stride, 2)) return bad(&out->why, GW_MLX5_BAD_QUEUE);
    copy_units(link, base, wqes * units, first, 1);
    *next = (uint16_t)load32(link);
    copy_units(out->raw, base, wqes * units, first + 1, units - 1);
    out->why = parse_list(out, units - 1, true);
    return out->why ? bad(&out->why, out->why) : out->pieces;
}

bool gw_mlx5_wqe_piece(const struct gw_mlx5_wqe *wqe, uint32_t *unit, struct gw_mlx5_piece *piece)
{
    uint32_t at = *unit ? *unit : wqe->data_unit;
    bool more;

    do more = next_segment(wqe->raw, wqe->ds, &at, piece);
    while (more && !piece->length);
    *unit = at;
    return more;
}

bool gw_mlx5_rwqe_piece(const struct gw_mlx5_rwqe *wqe, uint32_t *unit, struct gw_mlx5_piece *piece)
{
    if (*unit >= wqe->pieces || !next_segment(wqe->raw, wqe->pieces, unit, piece)) return false;
    if (!piece->length) piece->length = ZERO_MEANS;
    return true;
}
