/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wqe.h: reads work-queue entries that another party wrote, as a NIC does.
 *
 * Queue memory belongs to the program that posts, which may be wrong or hostile and may change it at any
 * time. So the parsers copy an entry out once, reading each byte once. They look at nothing but the copy
 * afterwards. Pure functions, any thread; the caller has ordered its reads after the doorbell record's
 * (acquire).
 */
#ifndef GW_SRC_MLX5_WQE_H
#define GW_SRC_MLX5_WQE_H

#include <stdbool.h>

#include <gpuwire/mlx5.h>

/* Which rule an entry breaks. gw_mlx5_why_text says it in words. */
enum gw_mlx5_why {
    GW_MLX5_OK,
    GW_MLX5_BAD_QUEUE,      /* the queue's size is no power of two, or its stride is wrong */
    GW_MLX5_NOT_POSTED,     /* reaches past the producer index */
    GW_MLX5_BAD_DS,         /* ds is 0, or shorter than the opcode's fixed segments */
    GW_MLX5_OVER_LIMIT,     /* ds above the queue pair's limit or the queue's size */
    GW_MLX5_BAD_INDEX,      /* the entry's own index is not its place */
    GW_MLX5_BAD_QPN,        /* the entry names another queue pair */
    GW_MLX5_BAD_OPCODE,     /* unknown or unsupported opcode */
    GW_MLX5_BAD_OPMOD,      /* opcode modifier not 0 */
    GW_MLX5_BAD_OPERAND,    /* a masked atomic's opcode modifier does not say 8 bytes */
    GW_MLX5_ZERO_LENGTH,    /* a data segment of length 0, which hardware reads as 2^31 bytes */
    GW_MLX5_INLINE_OVERRUN, /* an inline segment longer than the entry */
    GW_MLX5_INLINE_DENIED,  /* inline data in a READ, an atomic or a receive */
    GW_MLX5_BAD_ATOMIC,     /* an atomic without exactly one data segment of 8 bytes */
    GW_MLX5_TOO_LONG,       /* the payload exceeds GW_MLX5_MAX_MSG */
    GW_MLX5_BAD_UMR,        /* a UMR that is no bind of a window and no invalidation */
    GW_MLX5_BAD_AV,         /* a UD entry whose address vector is not the long form */
};
const char *gw_mlx5_why_text(enum gw_mlx5_why why);

/* A send WQE. Copies of it need only its first gw_mlx5_wqe_size() bytes: the entry itself comes last. */
struct gw_mlx5_wqe {
    enum gw_mlx5_why why;
    uint8_t opcode; /* enum gw_mlx5_opcode */
    uint8_t opmod;
    uint8_t ds;
    uint8_t fence; /* flags & GW_MLX5_FENCE_MASK: any bit means fenced */
    bool signaled; /* a CQE on success too */
    bool solicited;
    bool has_raddr;    /* WRITE, WRITE_IMM, READ, atomics */
    uint8_t data_unit; /* where the payload's segments start in raw[] */
    uint16_t index;    /* first WQEBB */
    uint16_t wqebbs;   /* 1 … 16 */
    uint16_t pieces;   /* data and inline segments with at least one byte */
    uint32_t qpn;
    uint32_t imm_be;
    uint32_t rkey;
    uint32_t length; /* payload bytes in all; 8 for atomics */
    uint64_t raddr;
    uint64_t swap_or_add, compare;    /* MASKED_FA: compare is the fields' boundaries */
    uint64_t swap_mask, compare_mask; /* MASKED_CS */
    uint32_t srqn;                    /* XRC: number of the shared receive queue that it is for */
    uint32_t dqpn, qkey;              /* UD: as the entry says; the rest of its address: gw_mlx5_wqe_av */
    uint8_t raw[GW_MLX5_MAX_DS * GW_MLX5_UNIT] __attribute__((aligned(16)));
};

enum { GW_MLX5_MAX_RQ_UNITS = 64 }; /* a receive WQE's stride is at most 1024 bytes */

/* A receive WQE. */
struct gw_mlx5_rwqe {
    enum gw_mlx5_why why;
    uint16_t pieces;
    uint64_t length; /* what fits, in all */
    uint8_t raw[GW_MLX5_MAX_RQ_UNITS * GW_MLX5_UNIT] __attribute__((aligned(16)));
};

/* One stretch of payload: memory (inl NULL), or bytes inside the entry's private copy. */
struct gw_mlx5_piece {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
    const uint8_t *inl;
};

/* Each kind of queue pair puts something else after the control segment. */
enum gw_mlx5_form {
    GW_MLX5_FORM_CONNECTED, /* RC and UC: nothing else */
    GW_MLX5_FORM_XRC,       /* the number of the shared receive queue */
    GW_MLX5_FORM_UD,        /* an address vector; SEND, SEND_IMM and NOP alone */
};

/* An entry of a send queue: where it lies, and what it may take. */
struct gw_mlx5_wqe_at {
    const void *base; /* the queue's first WQEBB */
    uint32_t wqebbs;  /* of the whole queue */
    uint32_t qpn;     /* whose it is */
    uint16_t index;   /* the entry's first WQEBB; only the low bits count */
    uint32_t avail;   /* WQEBBs from index to the producer index */
    uint32_t max_ds;  /* 16-byte units that the queue pair allows; 63 where it is more */
    enum gw_mlx5_form form;
};

/*
 * Parses that WQE. Returns the WQEBBs it takes, or -EINVAL (malformed) or -EOPNOTSUPP (opcode) with
 * out->why set. Then out->opcode, ds, index, qpn and flags are the control segment's, as far as it was read.
 */
int gw_mlx5_wqe_parse(struct gw_mlx5_wqe *out, const struct gw_mlx5_wqe_at *at);

/* The request of a parsed UMR entry. Returns 0, or -EINVAL if gw_mlx5_put_bind does not write such an entry.
 * No such entry passes the parser above. */
int gw_mlx5_wqe_bind(const struct gw_mlx5_wqe *wqe, struct gw_mlx5_bind *bind);

/* Parses the index-th receive WQE of the queue. Returns the number of pieces, or -EINVAL with out->why set.
 */
int gw_mlx5_rwqe_parse(struct gw_mlx5_rwqe *out, const void *base, uint32_t wqes, uint32_t stride,
                       uint32_t index);

/*
 * Parses entry index of a shared receive queue, and reads which one comes after it: *next, as it stands
 * there. A zero-length piece counts as 2^31 bytes, which is what hardware takes it for. As gw_mlx5_rwqe_parse
 * otherwise.
 */
int gw_mlx5_srq_wqe_parse(struct gw_mlx5_rwqe *out, const void *base, uint32_t wqes, uint32_t stride,
                          uint32_t index, uint16_t *next);

/* Bytes of *wqe that matter; the rest of raw[] was never written. */
static inline size_t gw_mlx5_wqe_size(const struct gw_mlx5_wqe *wqe)
{
    return offsetof(struct gw_mlx5_wqe, raw) + (size_t)wqe->ds * GW_MLX5_UNIT;
}

/* The address vector of a UD entry that gw_mlx5_wqe_parse accepted, NOPs excepted. */
static inline const struct gw_mlx5_av *gw_mlx5_wqe_av(const struct gw_mlx5_wqe *wqe)
{
    return (const struct gw_mlx5_av *)(wqe->raw + GW_MLX5_UNIT);
}

/*
 * Walks the payload of a parsed entry: start with *unit = 0, stop when it returns false. The pieces come in
 * message order; their lengths add up to ->length. Only for entries whose parse succeeded.
 */
bool gw_mlx5_wqe_piece(const struct gw_mlx5_wqe *wqe, uint32_t *unit, struct gw_mlx5_piece *piece);
bool gw_mlx5_rwqe_piece(const struct gw_mlx5_rwqe *wqe, uint32_t *unit, struct gw_mlx5_piece *piece);

#endif
