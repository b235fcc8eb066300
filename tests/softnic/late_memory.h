/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_memory.h: two ends' memory once more, like that of a GPU whose copies end late. They end one after the
 * other, each after a number of looks, or when a thread waits for it. A copy reads and writes its bytes only
 * then. At each look the test has its say, in the middle of a NIC's work: what it finds there a program could
 * find.
 */
#ifndef TESTS_SOFTNIC_LATE_MEMORY_H
#define TESTS_SOFTNIC_LATE_MEMORY_H

#include "tests/softnic/rig.h"

enum { LATE_QUEUE = 256, LATE_ENDS = 2, LATE_NEVER = 0 };

struct late_end {
    struct sn_gpu_share share;
    uint8_t *mem;
    struct sn_mr *mr;
};

struct late_copy {
    uint8_t *to, *from;
    uint32_t len;
};

static struct late {
    struct late_end end[LATE_ENDS];
    struct late_copy copy[LATE_QUEUE];
    uint64_t issued, done; /* copies, all told */
    uint64_t most;         /* under way at once */
    unsigned patience;     /* looks for each; LATE_NEVER: it ends when it is waited for */
    unsigned looks, waits;
    uint64_t fail_move; /* this copy is not taken: counted from 1; 0: all are */
    uint64_t fail_at;   /* this copy writes something else, and who waits for it is told */
    uint64_t failed;    /* and has not been yet */
    void (*at_look)(void);
} late;

static inline void late_do(uint64_t until)
{
    for (; (int64_t)(until - late.done) > 0; late.done++) {
        struct late_copy *c = &late.copy[(late.done + 1) % LATE_QUEUE];

        if (late.done + 1 == late.fail_at) {
            memset(c->to, 0xee, c->len);
            late.failed = late.fail_at;
        } else {
            memmove(c->to, c->from, c->len);
        }
    }
}

static inline int late_move(void *ctx, uint64_t addr, void *from_ctx, uint64_t from, uint32_t len)
{
    struct late_end *to = ctx, *src = from_ctx;

    if (late.fail_move && late.issued + 1 >= late.fail_move) {
        late.fail_move = 0;
        return -EIO;
    }
    if (late.issued - late.done == LATE_QUEUE - 1) late_do(late.issued);
    late.issued++;
    late.copy[late.issued % LATE_QUEUE] = (struct late_copy){to->mem + addr, src->mem + from, len};
    if (late.issued - late.done > late.most) late.most = late.issued - late.done;
    return 0;
}

static inline bool late_start(void *ctx, uint64_t *mark)
{
    (void)ctx;
    *mark = late.issued;
    return true;
}

static inline bool late_ended(void *ctx, uint64_t mark)
{
    (void)ctx;
    if (late.at_look) late.at_look();
    if (late.patience && ++late.looks % late.patience == 0 && late.done != late.issued)
        late_do(late.done + 1);
    return (int64_t)(late.done - mark) >= 0;
}

static inline int late_await(void *ctx, uint64_t mark)
{
    (void)ctx;
    late.waits += (int64_t)(late.done - mark) < 0;
    late_do(mark);
    if (!late.failed || late.failed > mark) return 0;
    late.failed = late.fail_at = 0;
    return -EIO;
}

/* Others' too: the thread that waits for a mark gets its failure. So fail_at and fail_move do not go
 * together. */
static inline int late_flush(void *ctx)
{
    (void)ctx;
    late_do(late.issued);
    return 0;
}

/* What is read or written in that time comes after the copies to these bytes; others stay under way. */
static inline uint8_t *late_bytes(void *ctx, uint64_t addr, uint32_t len)
{
    uint8_t *at = ((struct late_end *)ctx)->mem + addr;

    for (uint64_t i = late.done; i != late.issued; i++) {
        const struct late_copy *c = &late.copy[(i + 1) % LATE_QUEUE];

        if (at < c->to + c->len && c->to < at + len) late_do(late.issued);
        if (late.done == late.issued) break;
    }
    return at;
}

static inline int late_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead,
                            uint64_t request)
{
    (void)ahead;
    (void)request;
    memcpy(dst, late_bytes(ctx, addr, len), len);
    return 0;
}

static inline int late_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    memcpy(late_bytes(ctx, addr, len), src, len);
    return 0;
}

static inline const void *late_line(void *ctx)
{
    (void)ctx;
    return &late;
}

static inline const struct sn_gpu_share *late_share(void *ctx)
{
    return &((struct late_end *)ctx)->share;
}

static const struct sn_dma_ops late_ops = {.read = late_read,
                                           .write = late_write,
                                           .flush = late_flush,
                                           .start = late_start,
                                           .ended = late_ended,
                                           .await = late_await,
                                           .line = late_line,
                                           .move = late_move,
                                           .share = late_share};

/* For struct fake_peers. */
static inline struct sn_reach late_reach(const struct sn_gpu_share *gpu)
{
    for (int i = 0; i < LATE_ENDS; i++)
        if (gpu == &late.end[i].share) return (struct sn_reach){&late_ops, &late.end[i]};
    return (struct sn_reach){NULL, NULL};
}

static inline bool late_under_way(void)
{
    return late.issued != late.done;
}

static inline struct sn_mr *late_region(struct sn_pd *pd, int end)
{
    struct sn_mr_init init = {
        .length = RIG_MEM, .access = (uint32_t)rig_access, .dma = &late_ops, .dma_ctx = &late.end[end]};
    struct sn_mr *mr;

    assert_int_equal(sn_mr_create(pd, &init, &mr), 0);
    return mr;
}

static inline void late_up(struct rig *r, unsigned patience)
{
    struct end *ends[LATE_ENDS] = {&r->a, &r->b};

    memset(&late, 0, sizeof(late));
    late.patience = patience;
    for (int i = 0; i < LATE_ENDS; i++) {
        struct late_end *l = &late.end[i];

        l->mem = ends[i]->mem;
        l->share.size = RIG_MEM;
        l->mr = late_region(ends[i]->pd, i);
    }
}

static inline void late_down(void)
{
    assert_int_equal(late.issued, late.done);
    late.at_look = NULL;
    for (int i = 0; i < LATE_ENDS; i++)
        if (late.end[i].mr) assert_int_equal(sn_mr_destroy(late.end[i].mr), 0);
}

#endif
