/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h: the host side of gpuwire's verbs. gpuwire/verbs_device.h has the calls of kernels.
 *
 * A program opens a device for one executor (a GPU or CPU threads). It makes protection domains, completion
 * queues, queue pairs and memory regions, hands the *handles* (gw_qp_handle, gw_cq_handle) to its kernels,
 * and connects the queue pairs to peers. Kernels then post and poll by themselves. All memory that a kernel
 * touches is made and registered with these objects: create everything before a resident kernel (a loop)
 * starts. Afterwards only gw_qp_connect, gw_qp_abort, gw_qp_reset and gw_qp_fault may be called, which
 * neither allocate nor register.
 *
 *     gw_device_open(NULL, exec, &dev);
 *     gw_pd_create(dev, &pd);
 *     gw_cq_create(dev, &(struct gw_cq_attr){.cqe = 1024, .flags = GW_CQ_SLEEP}, &cq);
 *     gw_mr_register(pd, buffer, bytes, 0, &mr);
 *
 *     struct gw_qp_attr attr = {.send_cq = cq, .recv_cq = cq, .max_send_wr = 64, .max_recv_wr = 64};
 *     gw_qp_create(pd, &attr, &qp);
 *
 *     gw_qp_endpoint(qp, &mine);         // … exchange endpoints, or let rdma_cm do both: gpuwire/connect.h …
 *     gw_qp_connect(qp, &theirs, NULL);  // … kernels use gw_qp_handle(qp), gw_cq_handle(cq), mr->lkey …
 *
 * Host functions return 0 or a negative errno value, with one line for people in gw_last_error()
 * (gpuwire/error.h). Calls that make something may return -ENOMEM, those that touch a GPU's memory -EIO when
 * CUDA fails. An error of libibverbs' is passed on as it is. Create and destroy calls on one device are
 * serialised inside; calls on different objects may come from any thread. An object must outlive everything
 * that was made from it: destroy queue pairs before their CQs and PD, and everything before the device. The
 * wrong order returns -EBUSY and destroys nothing.
 *
 * Times are nanoseconds on CLOCK_MONOTONIC, deadlines are absolute, sizes are bytes.
 */
#ifndef GPUWIRE_VERBS_H
#define GPUWIRE_VERBS_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs_device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of libgpuwire, such as "0.1.0". */
GW_API const char *gw_version(void);

struct gw_device;
struct gw_pd;
struct gw_cq;
struct gw_qp;

/* ---- devices ------------------------------------------------------------------------------------------- */

/*
 * Opens a network device for kernels that run on `exec` (NULL: CPU threads). name: a device's name as
 * ibv_devices prints it, "softnic", or NULL to choose. With NULL it opens the device that GPUWIRE_DEVICE
 * names. Without that variable it opens a ConnectX with an active port, or another RoCE or InfiniBand NIC
 * with one, or the software NIC, in this order. Of several it takes the one nearest to the executor's GPU in
 * the PCI tree, or without a GPU the first by name. One process opens the software NIC or real devices, not
 * both.
 *
 * GPUWIRE_GID_INDEX, GPUWIRE_PKEY, GPUWIRE_SL, GPUWIRE_TC and GPUWIRE_TIMEOUT set how connections of the
 * device leave where a program does not (docs/hardware.md). On InfiniBand connections within a subnet go
 * without a global routing header, unless GPUWIRE_GRH=1. Without GPUWIRE_GID_INDEX the device uses an IPv4
 * address over RoCE v2 if it has one, never one of a VLAN or of an interface that is down. On a GPU the call
 * waits for all kernels of the process that run there, as gw_device_close does: while one is resident,
 * forever.
 *
 * On a GPU it also has a kernel post over a queue pair that is connected to itself, to host memory and to the
 * GPU's. That takes the NIC some milliseconds at most. What does not work within a second is not used: the
 * next posting mode, or way to GPU memory, is tried (gw_device_info.post_why, gpu_why).
 *
 * A thread of the library's sleeps until the device has an asynchronous event. When the device dies, all its
 * queue pairs fail (gw_fault_of: IBV_WC_FATAL_ERR), and calls that wait return -EIO. So does a queue pair, or
 * all that complete on a completion queue, when the NIC gives up just that. Link changes are printed on
 * standard error. The thread reads the context's events: a program must not (gw_device_context).
 *
 *   `-ENODEV`      none works; the error line says what was tried and why it failed.
 *   `-ENOENT`      no device of that name.
 *   `-EACCES`      its file may not be opened.
 *   `-ENETDOWN`    its port is not active.
 *   `-EINVAL`      GPUWIRE_POST is no posting mode, or another of these variables is out of range or names
 *                  what the device does not have.
 *   `-EOPNOTSUPP`  GPUWIRE_POST names a mode that is impossible there.
 */
GW_API int gw_device_open(const char *name, struct gw_exec *exec, struct gw_device **out);

/* NULL is allowed. -EBUSY: something made from it is left. */
GW_API int gw_device_close(struct gw_device *dev);

/*
 * How kernels' requests reach the NIC. Kernels do the same in all three and cannot tell them apart. AUTO is
 * the mode that the environment variable GPUWIRE_POST names (direct, proxy-doorbell or proxy-post). Without
 * it, AUTO is direct on a ConnectX that a kernel's ring reaches. It is the doorbell proxy on another
 * ConnectX, and proxy-post on any other NIC.
 */
enum gw_post_mode {
    GW_POST_AUTO = 0,
    GW_POST_DIRECT = 1,         /* the kernel writes the NIC's register */
    GW_POST_PROXY_DOORBELL = 2, /* the kernel writes a mailbox, a CPU thread forwards it to the register */
    GW_POST_PROXY_POST = 3,     /* a CPU thread reads the kernel's queues and posts for it: any NIC with RC */
};

/* Where queues lie. */
enum gw_placement {
    GW_QUEUES_AUTO = 0, /* host memory */
    GW_QUEUES_HOST = 1, /* host memory, mapped into the GPU */
    GW_QUEUES_GPU = 2,  /* GPU memory: -EOPNOTSUPP, no device here offers it yet */
};

/* How memory of the executor reaches the NIC. */
enum gw_reach {
    GW_REACH_NONE = 0,
    GW_REACH_HOST = 1,   /* ordinary host memory: the executor runs on CPU threads */
    GW_REACH_DIRECT = 2, /* GPU memory, registered by its address (peer memory, or a software NIC) */
    GW_REACH_DMABUF = 3, /* GPU memory as a dma-buf */
};

struct gw_device_info {
    char name[64];
    char board[64]; /* board id or firmware, as the device tells */
    uint32_t soft;  /* 1: the software NIC */
    uint32_t port;
    uint32_t gid_index;
    uint32_t mtu; /* bytes, of the active path MTU */
    uint8_t gid[16];
    uint32_t lid;       /* 0 on Ethernet */
    uint32_t post_mode; /* enum gw_post_mode: what AUTO stands for */
    /* enum gw_reach for memory in the executor's own memory; NONE: use mapped host memory */
    uint32_t gpu_reach;
    uint32_t gpu_flush; /* 1: the GPU does not promise that a completion finds its data there, so each poll
                         * that takes such completions first has the NIC READ from that memory.
                         * GPUWIRE_GPU_FLUSH says 1 or 0 whatever the GPU promises */
    /* 0: gw_with_masks and gw_masked_fetch_add_op are refused (-EOPNOTSUPP). 1: a queue pair of this device
     * has executed one, or masked_why says why not */
    uint32_t masked_atomics;
    char post_why[400];   /* when post_mode is a proxy: why */
    char gpu_why[640];    /* when gpu_reach is NONE: why */
    char masked_why[200]; /* why not, or why that is not known */
    char soft_why[160];   /* when the software NIC was chosen and not named: what is against the real ones */
    char near_why[160];   /* when there were several NICs and none was named: what this one was chosen by */
    char gid_why[160];    /* which GIDs were passed over, and why; or that GPUWIRE_GID_INDEX chose */
    char flush_why[160];  /* when gpu_flush is 1: why */
};
/* Tells what gw_device_open found out about the device. Any thread. */
GW_API void gw_device_query(const struct gw_device *dev, struct gw_device_info *info);

/*
 * Tries, with a small piece of memory, whether the NIC reaches memory of the executor in this way. On a GPU a
 * kernel has it write there and read from there. HOST stands for mapped host memory. Returns 0, or a negative
 * errno and a line that says why not and what mends it. The errno is mostly -EOPNOTSUPP; with -EINVAL there
 * is no such way. It allocates: not while a resident kernel runs.
 */
GW_API int gw_reach_try(struct gw_device *dev, enum gw_reach how);

/*
 * Tries, with a small queue pair, whether kernels can post to the device in this mode. On a GPU a kernel
 * does, and has a second for it. Returns 0, or a negative errno and a line that says why not. The errno is
 * mostly -EOPNOTSUPP; with -EINVAL there is no such mode. It allocates: not while a resident kernel runs.
 */
GW_API int gw_post_try(struct gw_device *dev, enum gw_post_mode mode);

/* libibverbs' context and the executor, for programs that mix in their own calls. They live as long as the
 * device. */
GW_API struct ibv_context *gw_device_context(const struct gw_device *dev);
GW_API struct gw_exec *gw_device_exec(const struct gw_device *dev);

/*
 * Gives a NIC that runs inside this process (the software NIC) the calling thread for a moment; does nothing
 * on others. Polling and posting on CPU threads do this by themselves. Any thread; never blocks.
 */
GW_API void gw_device_progress(struct gw_device *dev);

/* ---- protection domains and memory --------------------------------------------------------------------- */

/* A protection domain: keys made in one are useless to queue pairs of another. */
GW_API int gw_pd_create(struct gw_device *dev, struct gw_pd **out);
GW_API int
gw_pd_destroy(struct gw_pd *pd); /* -EBUSY: queue pairs, regions or address handles are left in it */

struct gw_mr {
    uint64_t addr; /* what goes into work requests, here and at the peer */
    uint64_t length;
    uint32_t lkey;
    uint32_t rkey;
    uint32_t reach; /* enum gw_reach */
};

/*
 * For gw_mr_register: 0 stands for GW_MR_ALL. Local read is always allowed.
 *
 * GW_MR_RELAXED is added to the others, alone to GW_MR_ALL. The bus may then reorder what the NIC writes to
 * the region, which is faster on some hosts. Where the device or its driver does not know that, it counts for
 * nothing. With it a program sees data in these cases: a completion on the same host says so, or a word has
 * grown by the peer's gw_with_signal. A flag that a plain put writes says nothing about other puts, and of
 * two puts to one place the first may come last. GPUWIRE_RELAXED_ORDERING=1 adds it to all regions.
 */
enum gw_mr_access {
    GW_MR_LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
    GW_MR_REMOTE_WRITE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    GW_MR_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
    GW_MR_REMOTE_ATOMIC = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
    GW_MR_ALL =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    GW_MR_RELAXED = IBV_ACCESS_RELAXED_ORDERING,
};

/*
 * Registers [addr, addr + length). addr is host memory or an address in the GPU's own memory (cudaMalloc,
 * gw_mem of that kind); with a CPU executor, too, where the process has loaded the CUDA driver. GPU
 * memory goes as a dma-buf or by its address (peer memory); the device says which
 * is tried first. A part of a larger allocation may be registered, in several PDs. Any thread, with or
 * without a current CUDA context; it allocates: not while a resident kernel runs.
 *
 * A GPU may not promise that who sees a completion sees the data in its memory (those before Hopper). Then
 * completion queues of an executor on that GPU have the NIC READ from there before they tell of data
 * (gw_device_info.gpu_flush). Memory of other GPUs is refused, and so is all GPU memory where CPU threads
 * poll. A kernel that polls a word in such memory, and no completion queue, must see to it itself.
 *
 *   `-EOPNOTSUPP`  neither way works: the line says why each failed, and what would mend it. Or the GPU does
 *                  not promise that completions find their data there. Or it is managed memory
 *                  (cudaMallocManaged), which moves.
 *   `-ENOMEM`      more than this process may lock.
 *   `-EINVAL`      no bytes, or an access that the NIC does not take.
 */
GW_API int gw_mr_register(struct gw_pd *pd, void *addr, size_t length, uint32_t access, struct gw_mr **out);
GW_API int gw_mr_free(struct gw_mr *mr); /* NULL is allowed */

/*
 * Gives the region new keys: mr->lkey and mr->rkey change, and the old keys open nothing once it returns.
 * For memory that goes from one peer to the next. No request may use the region during the call. It calls
 * libibverbs and not CUDA, so it may be called while a resident kernel runs. Any thread. For a moment the
 * memory is registered twice, which counts twice against what the process may lock. On an error (-ENOMEM,
 * or what the driver says) the old keys still hold.
 */
GW_API int gw_mr_rekey(struct gw_mr *mr);

/* ---- completion queues --------------------------------------------------------------------------------- */

enum gw_cq_flags {
    GW_CQ_ONE_POLLER = 1, /* one thread at a time polls it: the poller takes no lock */
    GW_CQ_SLEEP = 2,      /* CPU threads sleep while they wait for it (gw_wait_cq) */
};

struct gw_cq_attr {
    uint32_t cqe;   /* at least this number of entries; see below */
    uint32_t flags; /* enum gw_cq_flags */
    uint32_t qps;   /* at most this number of queue pairs use it; 0: 64 */
    /* enum gw_post_mode: of the queue pairs that use it; only PROXY_POST makes a difference */
    uint32_t post_mode;
    uint32_t placement; /* enum gw_placement */
};

/*
 * A completion queue, shared by any number of queue pairs of any PD. It can never overrun: gw_qp_create
 * refuses a queue pair whose queues could fill it beyond its size (-ENOSPC). Each queue pair takes some of
 * the `cqe` entries: as many as its send queue has WQEBBs and its receive queue has entries. The WQEBBs are
 * at least max_send_wr, rounded up to a power of two. Returns -EINVAL if an attribute is out of range,
 * -EOPNOTSUPP where the placement does not allow it, -ENOMEM, or the driver's error.
 */
GW_API int gw_cq_create(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_cq **out);
GW_API int gw_cq_destroy(struct gw_cq *cq); /* -EBUSY: queue pairs use it */

/* The handle as the executor addresses it: pass it to kernels. */
GW_API struct gw_cq_handle *gw_cq_handle(const struct gw_cq *cq);

/*
 * Sleeps until the CQ is not empty, and returns 1. With deadline 0, or on a CQ without GW_CQ_SLEEP, it looks
 * once. stop may be NULL, and stop_fd -1; it does not read from stop_fd. Errors:
 *
 *   `-ETIMEDOUT`   the deadline has passed;
 *   `-EAGAIN`      the CQ is empty, and the call only looked;
 *   `-ECANCELED`   *stop is non-zero, or stop_fd is readable;
 *   `-EIO`         the device or the CQ has died;
 *   `-EOPNOTSUPP`  the CQ's kernels run on a GPU.
 */
GW_API int gw_cq_wait(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd);

/* ---- queue pairs --------------------------------------------------------------------------------------- */

enum gw_qp_flags {
    GW_QP_ONE_POSTER = 1, /* one thread at a time posts to it: posting takes no atomic operation */
    GW_QP_SIGNAL_ALL = 2, /* every work request completes with a CQE, as sq_sig_all */
    GW_QP_LOCK_FREE =
        4, /* CPU threads wait for none that was stopped in the midst of a post (on a GPU none ever does) */
};

enum gw_qp_type {
    GW_QP_RC = 0, /* connected and reliable, to one peer */
    GW_QP_UD = 1, /* datagrams, to and from anybody who knows the Q_Key: gpuwire/verbs_ud.h */
};

struct gw_qp_attr {
    struct gw_cq *send_cq;
    struct gw_cq *recv_cq; /* may be the same */
    uint32_t max_send_wr;  /* work requests of one WQEBB that fit, larger ones take more; UD: of one entry */
    uint32_t max_recv_wr;
    uint32_t max_send_sge; /* 0: 1 */
    uint32_t max_recv_sge; /* 0: 1 */
    uint32_t max_inline;   /* bytes */
    uint32_t flags;        /* enum gw_qp_flags */
    uint32_t post_mode;    /* enum gw_post_mode. DIRECT where it is impossible: -EOPNOTSUPP with the reason */
    uint32_t placement;    /* enum gw_placement */
    uint32_t type;         /* enum gw_qp_type */
};

/*
 * A queue pair, in state RESET. A UD queue pair's requests take two WQEBBs, or more. So its send queue has
 * twice as many as max_send_wr says, or more, and takes as many entries of its CQ.
 *
 *   `-ENOSPC`      a CQ has too few free entries.
 *   `-EINVAL`      attributes are out of range, or do not go together.
 *   `-EOPNOTSUPP`  not in this posting mode or placement.
 *   -ENOMEM; else the driver's error.
 */
GW_API int gw_qp_create(struct gw_pd *pd, const struct gw_qp_attr *attr, struct gw_qp **out);

/* Only when no kernel uses it or its CQs. NULL is allowed. Returns 0. */
GW_API int gw_qp_destroy(struct gw_qp *qp);

/*
 * Posts n receives without a buffer, as gw_recv_empty does, from the host: so that a peer's first messages
 * find one before a kernel runs. No kernel may use the queue pair during the call. -EAGAIN: not n free; none
 * was posted.
 */
GW_API int gw_qp_recv_empty(struct gw_qp *qp, uint32_t n, uint64_t wr_id);

/* The handle as the executor addresses it: pass it to kernels. Lives as long as the queue pair. */
GW_API struct gw_qp_handle *gw_qp_handle(const struct gw_qp *qp);
/* Its number, as completions and the peer name it; it stays the same through resets. */
GW_API uint32_t gw_qp_num(const struct gw_qp *qp);

/* Queue pairs that kernels address by the rank of their peers: gpuwire/verbs_set.h. */
struct gw_qp_set;
/*
 * A set of `each` queue pairs to each of `ranks` peers: qp[rank * each + i], NULL: none (one's own rank,
 * say). They are made before and destroyed after it, and may be connected, reset and used by themselves as
 * well. It allocates memory of the executor: before a resident kernel starts. Any thread. -EINVAL: no ranks
 * or no queue pair for each, more than 2^20 in all, or one of another device; -ENOMEM.
 */
GW_API int gw_qp_set_create(struct gw_device *dev, struct gw_qp *const *qp, uint32_t ranks, uint32_t each,
                            struct gw_qp_set **out);
/* Only when no kernel uses it. NULL is allowed. Returns 0. */
GW_API int gw_qp_set_destroy(struct gw_qp_set *set);
/* The handle as the executor addresses it: pass it to kernels. Any thread. */
GW_API const struct gw_qp_set_handle *gw_qp_set_handle(const struct gw_qp_set *set);

/* How a peer reaches a queue pair. */
struct gw_endpoint {
    uint8_t gid[16];
    uint32_t qpn;
    uint32_t psn;
    uint32_t mtu; /* bytes */
    uint32_t lid;
};
#define GW_ENDPOINT_TEXT 96 /* bytes that always hold its text, with the final zero */

/* This queue pair as a peer must name it. Its PSN changes with each gw_qp_reset. */
GW_API void gw_qp_endpoint(const struct gw_qp *qp, struct gw_endpoint *ep);

/* Text form: gw:1:GID as 32 hex digits:QPN hex:PSN hex:MTU:LID. */
GW_API void gw_endpoint_format(const struct gw_endpoint *ep, char text[GW_ENDPOINT_TEXT]);
/* 0; -EPROTONOSUPPORT: of another version; -EINVAL: not of that form, or a value out of range. *ep is then
 * unchanged. */
GW_API int gw_endpoint_parse(const char *text, struct gw_endpoint *ep);

/* Zero fields take the value in parentheses. */
struct gw_connect_opts {
    uint32_t mtu;          /* bytes (the smaller of both endpoints') */
    uint8_t timeout;       /* the peer's acknowledgement: 4.096 µs · 2^timeout, 1 … 31
                              (GPUWIRE_TIMEOUT, else 18: 1.07 s) */
    uint8_t retry_cnt;     /* 1 … 7 (7) */
    uint8_t rnr_retry;     /* 1 … 7 (7: forever) */
    uint8_t min_rnr_timer; /* 1 … 31 (12: 0.64 ms) */
    uint8_t rd_atomic;     /* READs and atomics in flight, each way (16, or what the device can) */
    uint8_t traffic_class; /* (GPUWIRE_TC, else 0) */
    uint8_t hop_limit;     /* (64) */
    uint8_t service_level; /* InfiniBand's SL, 0 … 15; the priority on Ethernet, 0 … 7 (GPUWIRE_SL, else 0) */
};

/*
 * RESET → INIT → RTR → RTS towards the peer (which may be the queue pair itself, or another one of this
 * process). Receives may be posted before. The host may call it while kernels run, but not while one posts
 * sends to this queue pair. Returns -EINVAL if an option or the endpoint is out of range, or for a UD queue
 * pair. Otherwise the driver's error.
 */
GW_API int gw_qp_connect(struct gw_qp *qp, const struct gw_endpoint *peer,
                         const struct gw_connect_opts *opts);

/*
 * The same for a UD queue pair, which has no peer: from now on it sends, and receives what comes with this
 * Q_Key. After gw_qp_reset it is called again. -EINVAL: it is an RC queue pair.
 */
GW_API int gw_qp_activate(struct gw_qp *qp, uint32_t qkey);

/* Moves the queue pair to the error state: everything posted completes flushed. For taking a connection down,
 * also while kernels post. Any thread. 0, or as ibv_modify_qp: -EINVAL, say. */
GW_API int gw_qp_abort(struct gw_qp *qp);

enum gw_reset_flags {
    GW_RESET_QUIET = 1, /* the caller promises that no thread polls the queue pair's CQs during the call */
};

/*
 * Back to RESET, empty, with a new PSN, ready for gw_qp_connect to another peer; its endpoint changes. Legal
 * when no thread posts to the queue pair during the call. Its completions that were not polled are dropped.
 * Without GW_RESET_QUIET the CQs' pollers may go on (a running loop). The call then waits until they have
 * passed the last completion of this queue pair, which they do as soon as they poll. Returns -ETIMEDOUT if
 * they did not before the deadline. The queue pair must not be used then: call again. Returns -EINVAL and
 * others as gw_qp_abort.
 */
GW_API int gw_qp_reset(struct gw_qp *qp, uint32_t flags, uint64_t deadline_ns);

/* ---- where datagrams go -------------------------------------------------------------------------------- */

/* An address handle. Kernels use `handle`: copy it to where the executor reads it (into a kernel's argument,
 * or with gw_copy_in). */
struct gw_ah {
    struct gw_ah_handle handle;
};

/*
 * How datagrams of this PD's queue pairs reach the host that peer names. Its gid and lid count, and opts'
 * traffic class and hop limit (opts may be NULL); each request names the queue pair there. It allocates no
 * memory of the executor: also while a resident kernel runs, though it may take milliseconds to find out who
 * that is. Any thread. -EHOSTUNREACH and others from libibverbs: no host has that address; -EINVAL: a GID of
 * zeros; -ENOMEM.
 */
GW_API int gw_ah_create(struct gw_pd *pd, const struct gw_endpoint *peer, const struct gw_connect_opts *opts,
                        struct gw_ah **out);
/* When all requests that use it have completed. NULL is allowed. 0, or what the driver says. */
GW_API int gw_ah_destroy(struct gw_ah *ah);

/* The first error, as gw_fault_of (gpuwire/verbs_device.h) tells a kernel. 0: none. 1: *fault says which. Any
 * thread, also while kernels run. */
GW_API int gw_qp_fault(struct gw_qp *qp, struct gw_fault *fault);
/* One line: what happened, and what usually causes it. */
GW_API void gw_fault_text(const struct gw_fault *fault, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
