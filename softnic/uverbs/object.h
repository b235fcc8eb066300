/* SPDX-License-Identifier: Apache-2.0 */
/* Inside softnic/uverbs: open files, their handles, and one decoded command. */
#ifndef SOFTNIC_UVERBS_OBJECT_H
#define SOFTNIC_UVERBS_OBJECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "softnic/nic/nic.h"
#include "softnic/uverbs/events.h"

enum uv_type { UV_PD, UV_MR, UV_CQ, UV_QP, UV_AH, UV_SRQ, UV_MW, UV_XRCD, UV_DM, UV_UAR };

/* Every handle stands for one of these. `users` counts objects made on top of this one; it cannot go before
 * they do. */
struct uv_object {
    enum uv_type type;
    uint32_t handle;
    uint32_t users;
    uint64_t locked; /* pages that it has locked (locked.c) */
};

struct uv_pd {
    struct uv_object obj;
    struct sn_pd *pd;
};

struct uv_mr {
    struct uv_object obj;
    struct uv_pd *pd;
    struct sn_mr *mr;
    void *gpu; /* what uv_dma_target gave for it, or NULL */
    struct uv_mr_user {
        uint64_t start, length, iova;
        uint32_t access;
    } user;     /* as asked for; a dma-buf and device memory have no start */
    bool of_fd; /* of a dma-buf, */
    void *map;  /* which is mapped here, or NULL: a GPU reaches it */
    size_t map_length;
    struct uv_dm *dm; /* whose memory it is, or NULL */
};

/* Device memory: what a ConnectX has on its chip is plain memory here. */
struct uv_dm {
    struct uv_object obj;
    void *memory;
    uint64_t length; /* as asked for; whole pages are mapped */
};

/* A doorbell page that was asked for as an object: imported devices have no others. */
struct uv_uar {
    struct uv_object obj;
    struct sn_uar *page;
};

struct uv_cq {
    struct uv_object obj;
    struct sn_cq *cq;
    struct uv_uar *uar; /* where it is armed, unless that is the context's first page */
    uint64_t user_handle;
    uint32_t cqe_size;
    struct uv_stream *channel, *async; /* channel may be NULL */
    uint32_t comp_sent, async_sent;    /* events put into the streams: atomic, the NIC's threads count */
};

struct uv_mw {
    struct uv_object obj;
    struct uv_pd *pd;
    struct sn_mr *mw;
};

/* One program's hold on an XRC domain; all that name the same file share it (xrcd.c). */
struct uv_xrcd {
    struct uv_object obj;
    struct uv_domain *domain;
};

struct uv_srq {
    struct uv_object obj;
    struct uv_pd *pd;
    struct uv_xrcd *xrcd; /* or NULL, and then no cq either */
    struct uv_cq *cq;
    struct sn_srq *srq;
    uint64_t user_handle;
    struct uv_stream *async;
    uint32_t async_sent;
    uint32_t max_wr, max_sge; /* what the queue has room for */
};

struct uv_qp {
    struct uv_object obj;
    struct uv_pd *pd;
    struct uv_cq *send_cq, *recv_cq;
    struct uv_srq *srq;   /* or NULL */
    struct uv_xrcd *xrcd; /* XRC_RECV: instead of all the above */
    struct uv_uar *uar;   /* where it is rung, unless that is one of the context's pages */
    struct sn_qp *qp;
    uint64_t user_handle;
    struct uv_stream *async;
    uint32_t async_sent;
    int bfreg; /* the doorbell register it occupies of the static ones, -1 for a dynamic page's */
    struct uv_qp_user {
        uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
        bool sig_all;
    } user; /* as asked at creation, for query_qp */
};

struct uv_ah {
    struct uv_object obj;
    struct uv_pd *pd;
};

#define UV_DM_BYTES (256u << 10) /* device memory of an open device, as much as a ConnectX has */

/* Doorbell pages: libmlx5 maps the static ones when it opens the device and a dynamic one for each thread
 * domain. */
#define UV_MAX_STATIC_PAGES  512
#define UV_MAX_DYNAMIC_PAGES 256
#define UV_BFREGS_PER_PAGE   2 /* that libmlx5 hands out; the page's other two are its fast path's */

struct uv_uars {
    uint32_t static_pages;
    uint32_t low_latency; /* the number of static registers, the last ones, that serve one QP each */
    struct sn_uar *pages[UV_MAX_STATIC_PAGES];
    struct sn_uar *dynamic[UV_MAX_DYNAMIC_PAGES];
    uint16_t users[UV_MAX_STATIC_PAGES * UV_BFREGS_PER_PAGE];
};

struct uv_file {
    pthread_mutex_t lock; /* every command runs under it; the NIC's callbacks never take it */
    int refs;             /* the fd table's, and one for each call in progress */
    int fd;
    uint32_t tag;        /* in every handle, so that another file's handle is refused */
    unsigned generation; /* of the process: another one after fork */
    bool closed;
    bool memlock;       /* its pages count against the process's limit */
    bool child;         /* a forked child's: without a NIC, good for device memory alone */
    unsigned names;     /* fds that stand for it; under the table's lock */
    unsigned index;     /* of its NIC among the process's */
    struct sn_nic *nic; /* NULL until GET_CONTEXT */
    int start_error;    /* why it could not be had */
    struct uv_stream *async;
    struct ibv_context *unwrapped; /* whose entry points are to be wrapped at its next request */
    struct uv_uars uars;
    struct uv_object **objects; /* by index */
    uint32_t object_room, first_free;
    uint64_t dm_bytes; /* of device memory in use */
};

/* One command: its input in our memory, its output buffers in the caller's. */
struct uv_cmd {
    struct uv_file *file;
    const void *in;  /* core_in, zero-padded to what the handler reads */
    size_t in_len;   /* as the caller said */
    const void *uhw; /* the driver's part, likewise */
    size_t uhw_len;
    uint64_t out, uhw_out;
    size_t out_len, uhw_out_len;
    struct uv_stream *events; /* where the object's asynchronous events go; NULL: where the file's do */
};

/* uv_events - a reference to the stream for the events of an object that the command makes. */
struct uv_stream *uv_events(const struct uv_cmd *c);

#define UV_IN_ROOM 512 /* no command that we know is longer */

/* uv_reply - writes the core answer and, when there is one, the driver's; each cut to the caller's room. */
int uv_reply(const struct uv_cmd *c, const void *core, size_t core_len, const void *drv, size_t drv_len);

/* Handles. uv_new allocates a zeroed object of `size` bytes and gives it a handle; NULL when out of either.
 */
void *uv_new(struct uv_file *f, enum uv_type type, size_t size);
void *uv_find(struct uv_file *f, enum uv_type type, uint32_t handle);
void uv_free(struct uv_file *f, struct uv_object *o);

/*
 * Locked memory (locked.c). uv_lock_pages - the object has these bytes locked, instead of what it had: 0, or
 * -ENOMEM where that is more than the process may. uv_free lets go of it.
 */
int uv_lock_pages(const struct uv_file *f, struct uv_object *o, uint64_t addr, uint64_t length);
void uv_unlock_pages(struct uv_object *o);
void uv_locked_fork_child(void);

/* The place of an object in its file's table: its number where the ABI wants a short one; and back. */
uint32_t uv_index_of(const struct uv_object *o);
void *uv_find_at(struct uv_file *f, enum uv_type type, uint64_t index);

/* uv_destroy - takes the object away, also from the NIC; -EBUSY while others use it. */
int uv_destroy(struct uv_file *f, struct uv_object *o);

/*
 * The fd table (file.c). uv_enter finds a command fd's file and locks it, or says why it cannot be used
 * (-EBADF, -ENOMEM); uv_leave ends that. In a forked child the file is one of the child's own, without a NIC.
 * The result of uv_stream_of_fd is put when done.
 */
int uv_enter(int fd, struct uv_file **f);
void uv_leave(struct uv_file *f);
int uv_fd_add_stream(int fd, struct uv_stream *s);
struct uv_stream *uv_stream_of_fd(const struct uv_file *f, int fd);

/* uv_describe - what sysfs shows of a NIC. 0, or a negative errno, which has been said (device.c). */
struct sn_tree_info;
int uv_describe(unsigned index, struct sn_tree_info *info);

/* Handlers: under the file's lock, with a context unless said otherwise. 0 or a negative errno. */
int uv_get_context(const struct uv_cmd *c); /* makes the context */
int uv_query_device(const struct uv_cmd *c);
int uv_query_device_ex(const struct uv_cmd *c);
int uv_query_port(const struct uv_cmd *c);
int uv_alloc_pd(const struct uv_cmd *c);
int uv_dealloc_pd(const struct uv_cmd *c);
int uv_create_ah(const struct uv_cmd *c);
int uv_destroy_ah(const struct uv_cmd *c);
int uv_reg_mr(const struct uv_cmd *c);
int uv_rereg_mr(const struct uv_cmd *c);
int uv_dereg_mr(const struct uv_cmd *c);
int uv_create_comp_channel(const struct uv_cmd *c);
int uv_create_cq(const struct uv_cmd *c);
int uv_create_cq_ex(const struct uv_cmd *c);
int uv_resize_cq(const struct uv_cmd *c);
int uv_destroy_cq(const struct uv_cmd *c);
int uv_create_qp(const struct uv_cmd *c);
int uv_create_qp_ex(const struct uv_cmd *c);
int uv_query_qp(const struct uv_cmd *c);
int uv_modify_qp(const struct uv_cmd *c);
int uv_modify_qp_ex(const struct uv_cmd *c);
int uv_destroy_qp(const struct uv_cmd *c);
int uv_create_srq(const struct uv_cmd *c);
int uv_create_xsrq(const struct uv_cmd *c);
int uv_modify_srq(const struct uv_cmd *c);
int uv_query_srq(const struct uv_cmd *c);
int uv_destroy_srq(const struct uv_cmd *c);
int uv_alloc_mw(const struct uv_cmd *c);
int uv_dealloc_mw(const struct uv_cmd *c);
int uv_open_xrcd(const struct uv_cmd *c);
int uv_close_xrcd(const struct uv_cmd *c);

/* Ends of objects, used by uv_destroy (each in its handler's file). */
void uv_pd_end(struct uv_file *f, struct uv_pd *pd);
void uv_mr_end(struct uv_file *f, struct uv_mr *mr);
void uv_cq_end(struct uv_file *f, struct uv_cq *cq);
void uv_qp_end(struct uv_file *f, struct uv_qp *qp);
void uv_srq_end(struct uv_file *f, struct uv_srq *srq);
void uv_mw_end(struct uv_file *f, struct uv_mw *mw);
void uv_xrcd_end(struct uv_file *f, struct uv_xrcd *xrcd);
void uv_dm_end(struct uv_file *f, struct uv_dm *dm);
void uv_uar_end(struct uv_file *f, struct uv_uar *uar);
struct sn_xrcd *uv_xrcd_of(const struct uv_xrcd *xrcd);
void uv_xrcds_forget(void); /* in a forked child: the domains are the parent's */

/* Doorbell pages (uar.c). */
int uv_uars_init(struct uv_file *f, uint32_t registers, uint32_t low_latency);
void uv_uars_end(struct uv_file *f);
int uv_bfreg_take(struct uv_file *f, int *index);           /* a static register for a new QP */
struct sn_uar *uv_uar_static(struct uv_file *f, int index); /* its page */
void uv_bfreg_give(struct uv_file *f, int index);
uint32_t uv_bfreg_reply(int index); /* as libmlx5 numbers it */
struct sn_uar *uv_uar_dynamic(struct uv_file *f,
                              uint32_t bfreg_index); /* NULL when that page is not mapped */
struct uv_uar *uv_uar_numbered(struct uv_file *f, uint32_t page_id);

/*
 * uv_map_again - a second mapping, at *at, of `length` bytes of a shared mapping; `hint` and `flags` as for
 * mmap(). The program unmaps what it got when it likes, and the first mapping stays. 0 or a negative errno.
 */
int uv_map_again(void *memory, size_t length, void *hint, int flags, void **at);

/* uv_dm_map - maps device memory, by the number that mmap offsets have for it (dm.c). 0 or a negative errno.
 */
int uv_dm_map(struct uv_file *f, uint64_t index, size_t length, void *hint, int flags, void **at);

/*
 * uv_clock_map - the page by which libmlx5 turns time stamps into the time of day (clock.c). 0 or a negative
 * errno.
 */
int uv_clock_map(void *hint, int prot, int flags, void **at);

/*
 * uv_mr_make - makes the object of a region that init describes. The object then owns what init names; when
 * the call fails, it lets go of that. 0 or a negative errno (mr.c).
 */
int uv_mr_make(struct uv_file *f, struct uv_pd *pd, const struct sn_mr_init *init, struct uv_mr **mr);
/* uv_mr_check - can a region have these rights? 0, -EINVAL, -EOPNOTSUPP (mr.c). */
int uv_mr_check(uint32_t access);
uint32_t uv_mr_kept(uint32_t access); /* those of them that the NIC checks */

/* uv_fill_context - the answer to GET_CONTEXT. With no registers it is the one to an imported device
 * (device.c).
 */
struct mlx5_ib_alloc_ucontext_resp;
void uv_fill_context(struct mlx5_ib_alloc_ucontext_resp *r, bool small_uars, uint32_t registers);

/*
 * uv_dma_target - how the NIC reaches this memory (gpumem.c). 1 and *ops, *ctx for GPU memory; 0 for host
 * memory; a negative errno, with a line on stderr, for memory that it cannot reach. uv_dma_end, once no
 * region uses it.
 */
int uv_dma_target(uint64_t addr, uint64_t length, const struct sn_dma_ops **ops, void **ctx);
/* sn_mr_init.unordered, of such a ctx or NULL. */
bool uv_dma_unordered(const void *ctx);
void uv_dma_end(void *ctx);

/*
 * uv_wrap_context - adds progress to a libmlx5 context's post and poll (ops.c). uv_wrapped counts them.
 * Programs, and librdmacm, hand a context from thread to thread by means of their own. So wrapping it is a
 * release, and using it an acquire. Every thread then sees it, and libmlx5's entry points, as they were at
 * that time.
 */
void uv_wrap_context(struct ibv_context *ctx);
extern unsigned uv_wrapped;

/* Its NIC, for a file: taken into f->nic by GET_CONTEXT, given back when that fails. */
int uv_take_nic(struct uv_file *f);
void uv_give_nic(struct uv_file *f);

/* uv_refuse_child - says once why a forked child's request is refused (file.c). -EIO. */
int uv_refuse_child(void);

/* The NIC's callbacks (cq.c): events go to the channels and the async fds. */
void uv_on_cq_event(void *user, void *cq_user);
void uv_on_async_event(void *user, enum ibv_event_type type, void *object_user);
void uv_on_device_event(struct sn_nic *nic, enum ibv_event_type type);

/* uv_driven - the NIC that those wrappers drive for a context; NULL makes them fail with EIO: closed, or
 * opened before a fork. Any thread, no lock (file.c). */
struct sn_nic *uv_driven(const struct ibv_context *ctx);

/*
 * uv_wrap_cq, uv_wrap_qp - the same for the extended interfaces of an object, given by what its creation
 * calls user_handle. That is libmlx5's own struct; otherwise nothing happens (ops_ex.c). uv_real_ops: a
 * function of the libmlx5 whose entry points are wrapped, or NULL.
 */
void uv_wrap_cq(uint64_t user_handle);
void uv_wrap_qp(uint64_t user_handle);
const void *uv_real_ops(void);

/* uv_decode - one RDMA_VERBS_IOCTL buffer (ioctl.c), with the file's lock held. */
int uv_decode(struct uv_file *f, uint64_t arg);

#endif
