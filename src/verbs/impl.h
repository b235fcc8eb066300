/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of verbs/. */
#ifndef GW_VERBS_IMPL_H
#define GW_VERBS_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <gpuwire/detail/held.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/verbs/device_ops.h"
#include "src/verbs/settings.h"

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
/* Zeroes a piece again. 0 or a negative errno. */
int gw_arena_clear(struct gw_arena *a, const struct gw_piece *p);
/* By either address. Unknown ones are ignored. */
void gw_arena_free(struct gw_arena *a, const void *any);
/* Where the executor sees what the CPU sees at host; NULL: not in the arena. */
void *gw_arena_dev(struct gw_arena *a, const void *host);

/* ---- doorbell pages ------------------------------------------------------------------------------------ */

#define GW_UAR_PAGES 32

struct gw_uar {
    uint8_t *page; /* as libmlx5 mapped it */
    struct gw_mem mem;
    int error; /* why it could not be mapped for the executor */
    char why[400];
};

struct gw_proxy;

#define GW_MAX_WQEBBS 32768 /* of a send queue: detail/verbs/sq.h tells places in it apart by 16 bits */

/* ---- objects ------------------------------------------------------------------------------------------- */

struct gw_queue_ops;
struct gw_watch;
struct gw_flush;
struct gw_flush_target;

#define GW_LOST_WHY 240

struct gw_device {
    struct ibv_context *ctx;
    const struct gw_device_ops *ops; /* what is different on other NICs */
    struct gw_exec *exec;
    bool own_exec;
    bool mlx5;        /* its queues are in mlx5's format, and libmlx5 shows them */
    bool mode_forced; /* by GPUWIRE_POST: nothing else will do */
    bool roce;        /* its GIDs are IP addresses; else it is InfiniBand */
    uint16_t pkey_index;
    struct gw_settings settings;
    bool loops;                     /* a queue pair can be connected to itself: seen (probe.c) */
    uint32_t masked, masked_status; /* enum gw_probe_masked: what became of one; and its status */
    struct ibv_device_attr attr;
    struct ibv_pd *pd, *parent; /* for the CQs */
    struct ibv_td *td;
    struct ibv_cq *nudge;    /* of device_softnic.c, else NULL */
    struct ibv_qp *nudge_qp; /* the same */
    struct gw_arena queues;  /* host memory: rings and records */
    struct gw_arena handles; /* the executor's own memory: what only its threads touch */
    pthread_mutex_t lock;    /* creation and destruction */
    struct gw_uar uar[GW_UAR_PAGES];
    uint32_t uars;
    uint32_t objects;
    struct gw_proxy *proxy;
    struct gw_watch *watch;
    struct gw_flush_target *flush;                   /* flush.c */
    char no_flush[400];                              /* why there is none where it would be needed */
    char lost_why[GW_REACH_DMABUF + 1][GW_LOST_WHY]; /* by enum gw_reach: why not in this way; "": untried */
    struct gw_own_ah **ah; /* by number, from 1 on; under lock, and under the proxy's lock if there is one */
    uint32_t ahs, ah_free; /* places in it; none below is free */
    struct gw_device_info info;
};

struct gw_own_ah {
    struct gw_ah open; /* first: its address is the public one */
    uint32_t number;   /* as it was given, whatever has become of the public one */
    struct gw_pd *pd;
    struct ibv_ah *ah;
};

struct gw_pd {
    struct gw_device *dev;
    struct ibv_pd *pd, *parent;
    struct gw_piece sink;   /* where unused answers of atomics go, in host memory */
    struct ibv_mr *sink_mr; /* NULL: the device has no atomics */
    uint32_t objects;
};

/* Its maker fills in the first fields; rings and records are where the CPU sees them. */
struct gw_cq {
    struct gw_device *dev;
    const struct gw_queue_ops *ops;
    struct ibv_cq *cq;
    struct gw_mlx5_cqe *ring;
    uint32_t cqes, cqn;
    uint32_t *dbrec;
    int event_fd; /* readable after an event that was asked for; -1: made without GW_CQ_SLEEP */
    void *own;    /* the maker's */

    struct gw_cq_handle *handle; /* where the executor sees it */
    struct gw_cq_handle copy;    /* the constant part, as it was written there */
    struct gw_qp_entry *table;   /* what the executor's table holds, and as much again as scratch */
    uint32_t table_size, qps, max_qps;
    uint32_t room;          /* entries not spoken for */
    int alarm_fd;           /* stays readable once it is dead; -1: as event_fd */
    struct gw_flush *flush; /* flush.c; NULL: none is needed */
    struct gw_cq *next;     /* of the device's: watch.c */
};

struct gw_qp {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq;
    const struct gw_queue_ops *ops;
    uint32_t type; /* enum gw_qp_type */
    struct ibv_qp *qp;
    struct gw_mlx5_sq sq;
    struct gw_mlx5_rq rq;
    uint32_t *dbrec;
    void *own;           /* the maker's */
    struct ibv_qp *tell; /* CPU threads: gw_device_ops.ring_through; NULL: the proxy */

    struct gw_qp_handle *handle; /* where the executor sees it */
    struct gw_qp_handle fresh;   /* as it is written there at creation and by a reset */
    struct gw_piece slots, rq_slots;
    uint32_t psn;
    struct gw_qp *next; /* of the device's: watch.c */
};

static inline bool gw_has_atomics(const struct gw_device *dev)
{
    return dev->attr.atomic_cap != IBV_ATOMIC_NONE;
}

static inline bool gw_is_ud(const struct gw_qp *qp)
{
    return qp->type == GW_QP_UD;
}

/* ---- queues -------------------------------------------------------------------------------------------- */

/*
 * The maker of queues decides where they lie and what reads them. The rest of verbs/ knows only these calls.
 * All in mlx5's format, in memory that the executor sees. native.c: a ConnectX' own queues, through libmlx5,
 * in host memory. repost.c: queues that a CPU thread reads, for any NIC. Functions return 0 or a negative
 * errno with a line; they are called under dev->lock, but cq_arm, cq_event and qp_modify. */
struct gw_queue_ops {
    int (*cq_make)(struct gw_cq *cq, const struct gw_cq_attr *attr);
    void (*cq_free)(struct gw_cq *cq);  /* what there is of it */
    void (*cq_arm)(struct gw_cq *cq);   /* asks for an event at the next completion; any thread */
    void (*cq_event)(struct gw_cq *cq); /* takes the event, when event_fd is readable; any thread */

    /* Also sets qp->fresh.db, and how a ring of CPU threads is heard. *cap: what became of the attributes. */
    int (*qp_make)(struct gw_qp *qp, const struct gw_qp_attr *attr, struct ibv_qp_cap *cap);
    /* Its parts. Afterwards nothing writes completions of it. */
    void (*qp_free)(struct gw_qp *qp);
    /* As ibv_modify_qp, but a negative errno and no line. After RESET nothing writes completions of the queue
     * pair's earlier life, and the doorbell record is zero. */
    int (*qp_modify)(struct gw_qp *qp, struct ibv_qp_attr *attr, int mask);
};

/* 0, or -EOPNOTSUPP and a line: libmlx5 was told to make queue pairs whose requests are signed (native.c). */
int gw_unsigned(const struct gw_device *dev);
/* The same: libmlx5 was told that one thread alone calls it. */
int gw_many_threads(const struct gw_device *dev);

extern const struct gw_queue_ops gw_native_queues, gw_repost_queues;

/* Zeroed memory for an object that contains a handle (calloc does not align so far); for free(). */
void *gw_new(size_t size);

/* ---- between the files --------------------------------------------------------------------------------- */

/* choose.c: opens a device by the rules of gw_device_open for dev->exec: fills in ctx, ops, info.soft_why and
 * info.near_why. */
#define GW_CHOOSE_WHY 160
int gw_choose(const char *name, struct gw_device *dev);
bool gw_first_line(const char *path, char *line, size_t size);

/* choose_why.c: the error line of a device that cannot be opened (err: errno), and of one that is not there
 * (name NULL: of none at all); a negative errno. */
int gw_cannot_open(const char *device, int err);
int gw_no_device(const char *name, int err);

/* gid.c: the GID and the P_Key that are used, of all that exist. They fill in info.gid, .gid_index and
 * .gid_why, roce and pkey_index. 0, or -ENODEV or -EINVAL with a line. */
int gw_gid_choose(struct gw_device *dev, uint32_t gids);
int gw_pkey_choose(struct gw_device *dev, uint32_t keys);
/* The IP address, of that family, that the device has for rdma_cm; false: it has none. */
struct sockaddr_storage;
bool gw_own_address(const struct gw_device *dev, int family, struct sockaddr_storage *sa);

/* native.c: the domain that makes libmlx5 take its memory from dev->queues; NULL on other devices. */
int gw_parent_domain(struct gw_device *dev, struct ibv_pd *pd, struct ibv_pd **parent);

/* mode.c: decides info.post_mode, by GPUWIRE_POST, the device, and what is possible. */
int gw_mode_choose(struct gw_device *dev);
/* The maker of queues of that posting mode (enum gw_post_mode). */
const struct gw_queue_ops *gw_mode_queues(const struct gw_device *dev, uint32_t mode);
const char *gw_mode_name(uint32_t mode);
/* 0 when the device's queues can lie there (enum gw_placement). */
int gw_place(const struct gw_device *dev, uint32_t placement);

/* uar.c: where the executor sees the register reg of a doorbell page: NULL and *why when it cannot. Under
 * dev->lock. */
void *gw_uar_map(struct gw_device *dev, void *reg, const char **why);
void gw_uar_unmap_all(struct gw_device *dev);

/* doorbell.c: *mailbox is a word that the executor sees at *dev_mailbox; the proxy thread moves what is
 * written there to reg. Under dev->lock. */
int gw_doorbell_add(struct gw_device *dev, uint64_t *reg, uint64_t **mailbox, void **dev_mailbox);
void gw_doorbell_remove(struct gw_device *dev, uint64_t *mailbox);

/* proxy.c */
void gw_proxy_stop(struct gw_device *dev);
/* Any thread, after CPU threads have rung: wakes the proxy thread if it sleeps. */
void gw_proxy_rang(struct gw_device *dev);

/* sleep.c: a channel whose reads do not block: several threads may wake for one event. *out is set on
 * failure, too, when there is something to destroy. */
int gw_channel_make(struct gw_device *dev, struct ibv_comp_channel **out);

/* Before a CPU thread sleeps, once its queues are armed (gw_device_ops.leave). cq: any of them. */
void gw_cq_leave(struct gw_cq *cq);

/* cq.c: gw_cq_create, for pollers that flush with this; NULL: they need not. */
int gw_cq_create_plain(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_flush *flush,
                       struct gw_cq **out);
/* Under dev->lock. */
int gw_cq_attach(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle, uint32_t entries);
void gw_cq_detach(struct gw_cq *cq, uint32_t qpn, uint32_t entries);

/* cq_clean.c: drops a queue pair's completions; see gw_qp_reset. */
int gw_cq_clean(struct gw_cq *cq, uint32_t qpn, bool quiet, uint64_t deadline_ns);

/* connect.c */
bool gw_connect_sane(const struct gw_connect_opts *opts);
/* The way to the peer's host. */
struct ibv_ah_attr gw_way_to(const struct gw_device *dev, const struct gw_endpoint *peer,
                             const struct gw_connect_opts *opts);
enum ibv_mtu gw_mtu_code(uint32_t bytes);
/* One word of the handle, while kernels may look at it. */
int gw_qp_set_state(struct gw_qp *qp, uint32_t state);

/* ah.c: the address handle of that number (gw_ah_handle.number), under the proxy's lock; NULL: none of this
 * PD. */
struct ibv_ah *gw_ah_of(const struct gw_pd *pd, uint32_t number);

/* refused.c: the error line of memory or queues that the kernel did not take (err: a negative errno). It
 * explains -ENOMEM, which nearly always is the limit of locked memory. Returns err. */
int gw_refused(const struct gw_device *dev, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* mr.c: can memory of the executor's own be registered, and does the NIC reach it? Fills info.gpu_reach and
 * info.gpu_why. */
void gw_mr_probe(struct gw_device *dev);
/* gw_mr_register in this way alone; HOST: as host memory, NONE: in any. -EOPNOTSUPP: not in this way. */
#define GW_MR_STRICT_ (1u << 30) /* beside rights: never with relaxed ordering */
int gw_mr_register_by(struct gw_pd *pd, void *addr, size_t length, uint32_t access, enum gw_reach how,
                      struct gw_mr **out);

/* probe.c: what gw_post_try and gw_reach_try promise; how: HOST, DIRECT or DMABUF. */
int gw_probe_post(struct gw_device *dev, uint32_t mode);
void gw_masked_tell(struct gw_device *dev); /* in its info: what has been found out about masked atomics */
int gw_probe_memory(struct gw_device *dev, enum gw_reach how);

/* flush.c: may memory at addr, of a GPU, be a NIC's target? 0, or -EOPNOTSUPP and why not. */
int gw_order_refuses(const struct gw_device *dev, const void *addr);
/* When the ways to memory are known: makes what completion queues need to wait for data in memory of the
 * executor's GPU. Without it that memory counts as out of reach. */
void gw_flush_open(struct gw_device *dev);
void gw_flush_close(struct gw_device *dev);
/* Of a completion queue: *out is what its poller flushes with; NULL: it need not. Not under dev->lock. */
int gw_flush_make(struct gw_device *dev, uint32_t mode, struct gw_flush **out);
void gw_flush_free(struct gw_device *dev, struct gw_flush *flush);
struct gw_flush_handle *gw_flush_handle_of(const struct gw_flush *flush); /* where the executor sees it */

/* watch.c: a thread that gets the events when the device, or a queue, dies. 0 or a negative errno. */
int gw_watch_start(struct gw_device *dev);
void gw_watch_stop(struct gw_device *dev);
/* The objects that it tells. `del` comes before libibverbs destroys the queue, and outside of no lock but
 * dev->lock. */
void gw_watch_cq(struct gw_cq *cq);
void gw_watch_cq_del(struct gw_cq *cq);
void gw_watch_qp(struct gw_qp *qp);
void gw_watch_qp_del(struct gw_qp *qp);

#endif
