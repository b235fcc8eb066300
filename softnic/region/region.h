/* SPDX-License-Identifier: Apache-2.0 */
/* region.h: memory regions and windows, and the way of bytes between them and messages. */
#ifndef SOFTNIC_REGION_REGION_H
#define SOFTNIC_REGION_REGION_H

#include <sys/uio.h>

#include "softnic/object/nic.h"

/* region/mr.c: the region by which a QP of pd may access len > 0 bytes at va, or NULL. */
struct sn_mr *sn_mr_find(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len);
struct sn_mr *sn_mr_check(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                          uint32_t access);
/* The same for a peer of this QP: rights may be for one QP alone. */
struct sn_mr *sn_mr_remote(struct sn_qp *qp, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                           uint32_t access);
int sn_mr_add(struct sn_pd *pd, struct sn_mr *mr); /* gives it a key. Takes the lock */
/* May its bytes be copied without packets, and how are they reached? mr NULL: inline data. */
bool sn_mr_copies(const struct sn_mr *mr);
bool sn_mr_published(const struct sn_mr *mr); /* can other processes know it? */
const struct sn_gpu_share *sn_mr_share(const struct sn_mr *mr);
struct sn_reach sn_mr_reach(const struct sn_mr *mr);
static inline bool sn_same_reach(struct sn_reach a, struct sn_reach b)
{
    return a.dma == b.dma && a.ctx == b.ctx;
}
int sn_mr_read(struct sn_mr *mr, uint64_t va, void *dst, uint32_t len, uint64_t ahead, uint64_t request);
int sn_mr_write(struct sn_mr *mr, uint64_t va, const void *src, uint32_t len);

/* region/publish.c: what peers on the same host are told of it. */
void sn_publish_region(struct sn_mr *mr, bool gone);

/* region/window.c: what a UMR or a SEND with invalidate does; NULL, or what is wrong with it, and nothing
 * happens. */
const char *sn_window_bind(struct sn_qp *qp, const struct gw_mlx5_bind *bind);
const char *sn_window_invalidate(struct sn_qp *qp, const struct sn_pd *pd, uint32_t rkey);
void sn_window_unbind_all(struct sn_mr *mr); /* those of a region, or the window itself */
void sn_window_unbind_qp(struct sn_qp *qp);  /* those that it has bound for its peer */

/* What an access names: `access` to `len` bytes at `va` of the region `key`, from protection domain `pd`. */
struct sn_mr_named {
    const struct sn_pd *pd;
    uint32_t key, access;
    uint64_t va, len;
};

/* region/diagnose.c: why sn_mr_check said no, or would. Returns why. */
const char *sn_mr_diagnose(const struct sn_nic *nic, const struct sn_mr_named *named, char why[SN_WHY]);
void sn_mr_note_gone(struct sn_nic *nic, const struct sn_mr *mr);
/* A send request, in words; and the oldest that is not complete. Return text. */
const char *sn_sreq_text(const struct sn_sreq *s, char text[SN_WHY]);
const char *sn_oldest_text(const struct sn_qp *qp, char text[SN_WHY]);

/* region/place.c: payload on its way into memory. It is there once sn_place_flush has said so. */
int sn_place(struct sn_qp *qp, struct sn_mr *mr, uint64_t va, const void *src, uint32_t len);
int sn_place_flush(struct sn_qp *qp);
int sn_place_end_write(struct sn_qp *qp); /* at the end of a WRITE without an immediate */
/* Hostile mode: writes what was held back for long enough, or all; and when the first of these has to be
 * called. */
void sn_place_due(struct sn_nic *nic);
void sn_place_push(struct sn_nic *nic);
uint64_t sn_place_next(const struct sn_nic *nic);
void sn_place_drop(struct sn_qp *qp);
/* Before the region is read: data that was held back past its completion is written. */
void sn_place_read(struct sn_mr *mr);
void sn_place_forget_mr(struct sn_nic *nic, struct sn_mr *mr);

/*
 * region/sgl.c: between a message and the pieces of a work request. 0, or -EACCES (a key, a bound or a right
 * is wrong), -EFAULT or -EIO (the memory failed), -EMSGSIZE (the pieces end before the message does). The
 * cursor is moved.
 */
void sn_cursor_reset(struct sn_cursor *c);
int sn_gather(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, uint8_t *dst, uint32_t len);
int sn_scatter_send(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, const uint8_t *src, uint32_t len);
int sn_scatter_recv(struct sn_qp *qp, uint32_t offset, const uint8_t *src, uint32_t len);
/* The same without the bytes: where they would go, at most SN_LIST_MAX pieces of memory that is reached in
 * one way. -EXDEV: it is not. */
enum { SN_LIST_MAX = 64 };
struct sn_places {
    struct iovec piece[SN_LIST_MAX];
    unsigned n;
    struct sn_reach by;
};
int sn_list_recv(struct sn_qp *qp, uint32_t offset, uint32_t len, struct sn_places *places);
/* Calls fn for each piece of bytes skip … skip + len of a send request, cut to them; mr is NULL for inline
 * data, otherwise a region that can be copied. False: fn said so, a key or a right is wrong, or it is another
 * region. */
typedef bool sn_piece_fn(void *arg, const struct gw_mlx5_piece *p, const struct sn_mr *mr);
bool sn_sreq_pieces(struct sn_qp *qp, const struct sn_sreq *s, uint32_t skip, uint32_t len, uint32_t access,
                    sn_piece_fn *fn, void *arg);

#endif
