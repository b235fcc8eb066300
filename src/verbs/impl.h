/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of verbs/ share. */
#ifndef GW_VERBS_IMPL_H
#define GW_VERBS_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

/* ---- arena: memory that executor and NIC share, in few large pieces, so that each is registered once ------
 */

struct gw_arena_chunk;

struct gw_arena {
    struct gw_exec *exec;
    enum gw_mem_kind kind;
    size_t chunk_bytes;
    pthread_mutex_t lock;
    struct gw_arena_chunk *chunks;
};

/* One allocation: where the executor sees it, and where the CPU does (NULL in GPU memory). */
struct gw_piece {
    void *dev, *host;
    size_t size;
};

void gw_arena_init(struct gw_arena *a, struct gw_exec *exec, enum gw_mem_kind kind, size_t chunk_bytes);
/* All pieces must have been freed. */
void gw_arena_fini(struct gw_arena *a);
/* Zeroed; align is a power of two up to a page. Grows by a chunk when it must. 0 or -ENOMEM. */
int gw_arena_alloc(struct gw_arena *a, size_t size, size_t align, struct gw_piece *p);
/* By either address. Unknown ones are ignored. */
void gw_arena_free(struct gw_arena *a, const void *any);
/* Where the executor sees what the CPU sees at host; NULL: not in the arena. */
void *gw_arena_dev(struct gw_arena *a, const void *host);

/* ---- doorbell pages
 * ---------------------------------------------------------------------------------------- */

#define GW_UAR_PAGES 32

struct gw_uar {
    uint8_t *page; /* as libmlx5 mapped it */
    struct gw_mem mem;
    int error; /* why it could not be mapped for the executor */
    char why[160];
};

struct gw_proxy;

/* ---- objects
 * ----------------------------------------------------------------------------------------------- */

struct gw_device {
    struct ibv_context *ctx;
    struct gw_exec *exec;
    bool own_exec;
    struct ibv_device_attr attr;
    struct ibv_pd *pd, *parent; /* for the CQs */
    struct ibv_td *td;
    struct ibv_cq *nudge;    /* never used: polling it lets a NIC inside the process run */
    struct gw_arena queues;  /* host memory: rings and records */
    struct gw_arena handles; /* the executor's own memory: what only its threads touch */
    pthread_mutex_t lock;    /* creation and destruction */
    struct gw_uar uar[GW_UAR_PAGES];
    uint32_t uars;
    uint32_t objects;
    struct gw_proxy *proxy;
    struct gw_device_info info;
};

struct gw_pd {
    struct gw_device *dev;
    struct ibv_pd *pd, *parent;
    uint32_t objects;
};

struct gw_cq {
    struct gw_device *dev;
    struct ibv_cq_ex *cq;
    struct ibv_comp_channel *channel;
    struct mlx5dv_cq dv;
    struct gw_cq_handle *handle; /* where the executor sees it */
    struct gw_cq_handle copy;    /* the constant part, as it was written there */
    struct gw_qp_entry *table;   /* what the executor's table holds, and as much again as scratch */
    uint32_t table_size, qps, max_qps;
    uint32_t room;         /* entries not spoken for */
    pthread_mutex_t sleep; /* arming */
    uint32_t arm_sn;       /* events taken since the CQ was made */
    bool armed;
};

struct gw_qp {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct mlx5dv_qp dv;
    struct gw_qp_handle *handle; /* where the executor sees it */
    struct gw_qp_handle fresh;   /* as it is written there at creation and by a reset */
    struct gw_piece slots, rq_wr_ids;
    uint64_t *mailbox; /* doorbell proxy: its word */
    uint32_t psn;
};

/* Zeroed memory for an object that contains a handle (calloc does not align so far); for free(). */
void *gw_new(size_t size);

/* ---- between the files
 * ------------------------------------------------------------------------------------- */

/* choose.c: opens a device by the rules of gw_device_open. */
int gw_choose(const char *name, struct ibv_context **ctx, bool *soft);

/* device.c */
int gw_parent_domain(struct gw_device *dev, struct ibv_pd *pd, struct ibv_pd **parent);

/* uar.c: where the executor sees the register reg of a doorbell page: NULL and *why when it cannot. Under
 * dev->lock. */
void *gw_uar_map(struct gw_device *dev, void *reg, const char **why);
void gw_uar_unmap_all(struct gw_device *dev);

/* proxy.c: *mailbox is a word that the executor sees at *dev_mailbox; a thread moves what is written there to
 * reg. */
int gw_proxy_add(struct gw_device *dev, uint64_t *reg, uint64_t **mailbox, void **dev_mailbox);
void gw_proxy_remove(struct gw_device *dev, uint64_t *mailbox);
void gw_proxy_stop(struct gw_device *dev);

/* cq.c: under dev->lock. */
int gw_cq_attach(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle, uint32_t entries);
void gw_cq_detach(struct gw_cq *cq, uint32_t qpn, uint32_t entries);

/* cq_clean.c: drops a queue pair's completions; see gw_qp_reset. */
int gw_cq_clean(struct gw_cq *cq, uint32_t qpn, bool quiet, uint64_t deadline_ns);

/* mr.c: can memory of the executor's own be registered? Fills info.gpu_reach and info.gpu_why. */
void gw_mr_probe(struct gw_device *dev);

#endif
