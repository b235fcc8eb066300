/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h: the software NIC as an object model: what the kernel's driver would ask of a ConnectX.
 *
 * uverbs/ decodes the uverbs ABI into these calls; runtime/process.c gives the NIC a wire, a clock and a
 * thread. The engine itself is passive: it has no thread, no clock, no socket and no randomness of its own.
 * So several of them can run in one thread on virtual time. Everything happens inside sn_nic_progress().
 *
 * Unless said otherwise functions return 0 or a negative errno, and any thread may call them. They take the
 * NIC's lock, which is held for microseconds and never during a wait. Callbacks of struct sn_nic_config run
 * inside the lock, on whatever thread caused them: they must not call the functions below and must not block.
 *
 * Memory that queues, records and doorbell pages live in belongs to the caller and must stay until the object
 * is destroyed. If it does not, accesses fail with an error (mem/guard.h), and do not end the process.
 */
#ifndef SOFTNIC_NIC_NIC_H
#define SOFTNIC_NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h> /* names and values only: attributes, states, events; nothing of it is called */

struct sn_nic;
struct sn_uar;
struct sn_pd;
struct sn_mr;
struct sn_cq;
struct sn_qp;
struct sn_srq;
struct sn_xrcd;

enum {
    SN_MAX_QP = 16384,
    SN_MAX_CQ = 16384,
    SN_MAX_PD = 16384,
    SN_MAX_SRQ = 16384,
    SN_MAX_MR = 1 << 20,
    SN_MAX_UAR = 16384,
    SN_MAX_PKEYS = 8, /* of its port */
    SN_MAX_SQ_WQEBB = 32768,
    SN_MAX_RQ_WQE = 32768,  /* of a queue pair's own queue, and of a shared one */
    SN_MAX_RQ_STRIDE = 512, /* bytes */
    SN_MAX_CQE = 1 << 22,
    SN_PEER_PIECES = 128,  /* of a peer's memory in one copy */
    SN_MAX_RD_ATOMIC = 16, /* READs and atomics outstanding, as initiator and as destination */
    SN_MAX_MSG = 1 << 30,
    SN_MAX_INLINE = 512, /* what a QP may ask for; the engine executes any inline data that a WQE holds */
};

/* ---- the wire ------------------------------------------------------------------------------------------ */

/*
 * One RoCEv2 packet, from the first byte of the BTH to the last of the ICRC. The ICRC counts the packet as
 * sent to UDP port 4791, with DF set; on the way out with IPv4 ID 0.
 */
struct sn_frame {
    uint8_t src_gid[16], dst_gid[16];
    uint16_t sport; /* UDP source port, host order. Out: config.sport */
    uint16_t ip_id; /* in: IPv4 ID, if has_ip_id */
    bool has_ip_id; /* in: else the ICRC is accepted if it is right for any ID; 0 is tried first */
    uint8_t ecn; /* the two bits of the IP header. 3: congestion experienced. Out: 2 if config.ecn, else 0 */
    bool same_host; /* in: a process of this host sent it, from the slot whose port is `sport` at src_gid */
    bool no_icrc;   /* its last four bytes say nothing. In: it came over memory. Out: in_memory said so */
    /* its payload lists pieces of the sender's memory, where the bytes are: see rendezvous.c; or is empty,
     * since they are in their place already: see eager_copy.c. A wire to other hosts takes none */
    bool rndv;
    bool icrc_checked; /* in: the wire found its ICRC right */
    uint32_t len;      /* multiple of 4 */
    uint8_t *data;
};

enum { SN_MAD_LEN = 256 }; /* bytes of a management datagram */
enum { SN_SLOT_PORT = 0xc000, SN_NO_SLOT = -1 };
enum {
    SN_FRAME_MAX = 4096 + 64, /* bytes of the longest frame the engine makes or takes */
    SN_TX_FRAMES = 64,        /* made and not yet taken by the wire, or looped and not yet received */
};

/* Which process of this host has a slot. */
struct sn_owner {
    enum {
        SN_OWNER_UNKNOWN, /* the slot is on another host, or the system does not tell */
        SN_OWNER_NOBODY,  /* it is on this host and free */
        SN_OWNER_PROCESS,
    } kind;
    uint32_t uid;
    uint64_t id; /* never the same for two of them */
};

static inline bool sn_same_owner(struct sn_owner a, struct sn_owner b)
{
    return a.kind == b.kind && a.uid == b.uid && a.id == b.id;
}

struct sn_wire_ops {
    /* Takes up to n frames, in order, and returns how many (0 … n). The bytes are no longer used when it
     * returns. What it did not take is offered again, first, at a later call. A frame that is taken may get
     * lost. */
    int (*send)(void *ctx, const struct sn_frame *frames, int n);
    /* Fills in up to max received frames and returns how many. Their data stays valid until the next call,
     * and may be written to. *more: there may be more waiting (also when it returns 0). Never waits. */
    int (*recv)(void *ctx, struct sn_frame *frames, int max, bool *more);
    /* The process that has this queue pair's slot, or had it less than a millisecond ago. NULL: it is not
     * known. */
    struct sn_owner (*owner)(void *ctx, const uint8_t gid[16], uint32_t qpn);
};

/* ---- peers on the same host ---------------------------------------------------------------------------- */

/* How another process comes to an allocation of GPU memory: by the driver's handle for it, or by files that
 * its process hands over. */
enum sn_gpu_way { SN_GPU_BY_HANDLE, SN_GPU_BY_FILES };

/* An allocation of GPU memory, or several that follow each other, for processes that see that GPU. */
struct sn_gpu_share {
    uint8_t handle[64]; /* the driver's, of this allocation alone; BY_FILES: a number never given twice */
    uint8_t gpu[16];    /* its UUID */
    uint64_t base, size;
    uint32_t way, files; /* BY_FILES: their number */
};

/*
 * A NIC tells its peers on the same host these things, so that they can execute WRITEs and READs themselves
 * instead of sending packets. Peers see it the moment it is set; `pd` names a protection domain of this NIC.
 */
struct sn_peer_region {
    uint64_t iova, addr, length;
    uint32_t access, pd;
    const struct sn_gpu_share *gpu; /* memory of a GPU, which the region lies in; NULL: plain memory */
};

/* The terms of a connection's requester that both ends know. Packets fail where they were told otherwise. */
struct sn_peer_terms {
    uint8_t gid[16]; /* its address */
    uint32_t psn;    /* of its first request */
    uint32_t mtu;    /* bytes */
    uint16_t pkey;
    uint16_t reads; /* at a time: the requester's most, and the most that the responder answers */
};

/* A queue pair that takes requests, and from which other. */
struct sn_peer_queue {
    uint32_t dest_qpn, access, pd;
    struct sn_peer_terms terms;
};

/* One access that a requester is about to make: of QP src_qpn here, to QP dst_qpn there. */
struct sn_peer_access {
    uint32_t src_qpn, dst_qpn, rkey;
    /* IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_READ; 0: a copy of what that queue pair offers of its own,
     * rkey being an lkey of its. */
    uint32_t access;
    uint64_t va, length;
    /* with access 0 the offer has come by packets already, and mtu alone counts */
    struct sn_peer_terms terms;
};

enum { SN_PKEY_BASE = 0x7fff }; /* the bits that name a partition */

/*
 * sn_peer_queue_takes - would the queue pair's responder take packets of this request? These are all of its
 * checks that do not look at a region. They are partition, the peer's address and number, PSN, path MTU, what
 * the queue pair allows, and how many READs it answers at a time.
 */
static inline bool sn_peer_queue_takes(const struct sn_peer_queue *q, const struct sn_peer_access *a)
{
    const struct sn_peer_terms *there = &q->terms, *here = &a->terms;

    if (q->dest_qpn != a->src_qpn || (q->access & a->access) != a->access) return false;
    if (there->mtu != here->mtu) return false;
    if (!a->access) return true;
    if (there->psn != here->psn || ((there->pkey ^ here->pkey) & SN_PKEY_BASE)) return false;
    if (memcmp(there->gid, here->gid, sizeof(there->gid))) return false;
    return a->access != IBV_ACCESS_REMOTE_READ || (here->reads && here->reads <= there->reads);
}

struct sn_peer;
struct iovec;

/* How memory is reached that is not plain, a GPU's say, for copies; dma NULL: it is plain. */
struct sn_reach {
    const struct sn_dma_ops *dma;
    void *ctx;
};

/* A copy between two lists of pieces of the same length, in order. */
struct sn_copy {
    bool write; /* from here to there */
    const struct iovec *here, *there;
    unsigned n_here, n_there;          /* there: SN_PEER_PIECES at most */
    struct sn_reach by_here, by_there; /* by_there as it was granted */
};

/* A copy that may be under way still. */
struct sn_copying {
    struct sn_reach to; /* where it goes; no dma: it has ended, and what was copied is visible */
    uint64_t mark;      /* for to.dma->ended and to.dma->await */
};

/*
 * Direct access to peers of the same host, from the module that knows processes. All but quiesce are called
 * inside the NIC's lock and must not wait for anybody. Nothing of it changes what a program sees: what cannot
 * be done, or would be an error, goes by packets, and the responder says so.
 */
struct sn_peer_ops {
    /* Region `key` is this from now on; NULL: it is gone. */
    void (*region)(void *ctx, uint32_t key, const struct sn_peer_region *region);
    /* Queue pair qpn takes requests; NULL: it does not. */
    void (*queue)(void *ctx, uint32_t qpn, const struct sn_peer_queue *queue);
    /* Waits until no peer is using what was taken back before. Not inside the lock. */
    void (*quiesce)(void *ctx);

    /* The peer that has this queue pair, or NULL: unknown, not yet or no longer known, or of no use. */
    struct sn_peer *(*find)(void *ctx, const uint8_t gid[16], uint32_t qpn);
    /* Do frames to it travel in memory, where nothing can happen to them? Then they need no ICRC. */
    bool (*in_memory)(void *ctx, const uint8_t gid[16], uint32_t qpn);
    /* Can a frame to it leave? Not while the memory by which it would is full, unless it stands still or has
     * taken nothing for very long: then frames get lost. Said of a frame before it is made; as many as the
     * NIC makes before it offers them to the wire find room then. */
    bool (*room)(void *ctx, const uint8_t gid[16], uint32_t qpn, uint64_t now);
    /* Is it known to be able to copy from this NIC's memory? Then it may be sent offers. */
    bool (*pulls)(void *ctx, const uint8_t gid[16], uint32_t qpn);
    /* Has it not taken yet what it was sent? Then the sender has the time to copy. */
    bool (*lags)(void *ctx, const struct sn_peer *peer);
    /* Accesses begin: until leave, nothing that was granted is taken back, unless this process stands still:
     * then copy fails. False: the peer is gone. */
    bool (*enter)(void *ctx, struct sn_peer *peer, uint64_t now);
    /* May this be done? Then *addr is where va is, in the peer's memory or, if *by is not plain, for that. */
    bool (*grant)(void *ctx, struct sn_peer *peer, const struct sn_peer_access *access, uint64_t *addr,
                  struct sn_reach *by);
    /* Returns the bytes copied, fewer than all if memory at one of the ends failed; or a negative errno. With
     * under_way NULL what was copied is visible; else the copy may be under way still, before leave, if
     * *under_way says so. */
    int64_t (*copy)(void *ctx, struct sn_peer *peer, const struct sn_copy *copy,
                    struct sn_copying *under_way);
    void (*leave)(void *ctx, struct sn_peer *peer);
    /* May peers copy to this NIC's memory? Then one may say that it has. */
    bool (*lends)(void *ctx);
};

/* ---- the NIC ------------------------------------------------------------------------------------------- */

struct sn_nic_config {
    uint8_t gid[16]; /* its address */
    /* Its GID table: how many entries (0: one, the address), and by bits which are the address, and which are
     * empty. What is sent from one of the others is lost. */
    uint8_t gids;
    uint32_t gids_own, gids_empty;
    uint8_t pkeys; /* of its P_Key table; 0: one, the default */
    uint16_t pkey[SN_MAX_PKEYS];
    uint8_t slot;   /* bits 16 … 23 of all its QP numbers */
    uint16_t sport; /* UDP source port of its frames */
    uint64_t seed;  /* of what is only to vary, and may be foreseen */
    /* Fills `len` bytes that no stranger can guess, for numbers and keys; 0, or a negative errno, with which
     * what was to be made fails. NULL: they come from the seed, and can be replayed. */
    int (*secret)(void *to, size_t len);
    bool hostile;  /* placement and completions as late and as unordered as a NIC is allowed to be */
    bool overtake; /* with hostile: what a WRITE wrote may come after later WRITEs, and its completion */
    bool by_index; /* a ring's index says how far to go, and not the record; see engine/rung.c */
    bool no_atomics, no_masked; /* its queue pairs execute none for their peers, or none with masks */
    bool deaf;         /* send queues' rings are looked for only when a thread has called sn_nic_posted */
    bool ecn;          /* packets say that they may be marked; marks and notifications have consequences */
    bool loop_on_wire; /* frames to its own QPs take the wire too (for simulation); else they stay inside */
    uint32_t max_mtu;  /* largest path MTU a QP may have, bytes: 256 … 4096; 0: 4096 */

    /* Per QP: unacknowledged request packets and bytes at most. 0: defaults (64 packets, 128 KiB). Half of it
     * is sent after a loss until things go well again. */
    uint32_t window_packets, window_bytes;
    /* Unanswered requests are repeated when the answer is overdue, going by how long answers take, though not
     * earlier than this; 0: default (1 ms). The program's own timeout counts all the same, and alone counts
     * as a retry. */
    uint64_t probe_ns;
    /* SENDs and WRITEs from this length on are offered to peers that copy; if these cannot, the bytes of
     * WRITEs with immediate data are placed. 0: default. */
    uint32_t rndv_min;
    /* Packets received and packets made in one sn_nic_progress() call at most. 0: default (256). */
    uint32_t budget;

    const struct sn_wire_ops *wire;
    void *wire_ctx;

    const struct sn_peer_ops *peers; /* NULL: everything goes by packets */
    void *peers_ctx;

    void *user; /* first argument of the callbacks; each of them may be NULL */
    void (*cq_event)(void *user, void *cq_user); /* an armed CQ has a completion; it is disarmed now */
    /* object_user: the `user` of the QP, CQ or SRQ, as the type of event says */
    void (*async_event)(void *user, enum ibv_event_type type, void *object_user);
    /*
     * A management datagram came to queue pair 1 of dgid (the NIC) from sgid. True: mad holds the answer now,
     * which is sent to where it came from. Contents are the peer's: nothing but its length was checked.
     * slot: the sender's slot, as the kernel of this host vouches for it. SN_NO_SLOT: the sender is on
     * another host, and nothing vouches for it.
     */
    bool (*mad)(void *user, const uint8_t dgid[16], const uint8_t sgid[16], int slot,
                uint8_t mad[SN_MAD_LEN]);
    /* One line, without newline, that explains what a program or a peer did wrong. Not more than a few per
     * object. */
    void (*report)(void *user, const char *line);
    /* The same about what looks like an attack, also for people who do not want to read the others. */
    void (*warn)(void *user, const char *line);
    void *report_user; /* their first argument; NULL: user */
    bool report_all;   /* more than a few per object, too */
};

int sn_nic_create(const struct sn_nic_config *config, struct sn_nic **nic);

/* Has the NIC a GID of that index? Any thread. */
bool sn_gid_there(const struct sn_nic *nic, unsigned index);

/* -EBUSY while objects exist. */
int sn_nic_destroy(struct sn_nic *nic);

/* As if the device had died: from now on it executes nothing, and completes nothing. Objects can be made and
 * destroyed. */
void sn_nic_fail(struct sn_nic *nic);

/*
 * Does the pending work: takes doorbells, receives and sends packets, runs timers. It does a bounded amount,
 * in turn for all queue pairs that have work. `now`: nanoseconds on a clock that never goes back; any epoch.
 *
 * Returns the time of the next call: `now` if there is work left; SN_NEVER if nothing is pending (except
 * doorbells and packets, which are not announced). SN_CONTENDED: another thread is inside and will look again
 * before it leaves.
 */
#define SN_NEVER     UINT64_MAX
#define SN_CONTENDED UINT64_C(0)
uint64_t sn_nic_progress(struct sn_nic *nic, uint64_t now);

/*
 * The same by a thread that has just posted, and will soon post again or call sn_nic_progress. It takes
 * doorbells and makes packets, but leaves receiving and timers to others. A packet that follows others of its
 * queue pair that are not acknowledged yet waits for company, as small segments of TCP do (RFC 896). It waits
 * until there are enough for one system call, or until the next sn_nic_progress. The acknowledgement brings
 * that about if nothing else does.
 */
uint64_t sn_nic_posted(struct sn_nic *nic, uint64_t now);

bool sn_nic_deaf(const struct sn_nic *nic); /* as it was made. No lock */

/* Number of QPs that may be rung without a system call (beyond INIT) plus CQs that may be armed for them. No
 * lock. */
unsigned sn_nic_ringable(const struct sn_nic *nic);

/* Grows with every doorbell taken, packet received and completion written. For back-off. No lock. */
uint64_t sn_nic_activity(const struct sn_nic *nic);

/* Around fork(), and at the process's end: no thread is inside the engine while the lock is held. */
void sn_nic_lock(struct sn_nic *nic);
bool sn_nic_trylock(struct sn_nic *nic);
void sn_nic_unlock(struct sn_nic *nic);

struct sn_counters {
    uint64_t doorbells, cq_arms;
    uint64_t wqes, bad_wqes;
    uint64_t cqes, error_cqes, cq_events;
    uint64_t tx_packets, tx_bytes; /* frames given to the wire or looped back, whole length */
    uint64_t rx_packets, rx_bytes;
    uint64_t retransmits;                /* packets sent again */
    uint64_t go_backs, timeouts, probes; /* times a requester went back, and of these by timeout */
    uint64_t acks_sent, naks_seq_sent, naks_inv_sent, naks_access_sent, naks_op_sent, rnr_sent;
    uint64_t naks_received, rnr_received;
    uint64_t duplicates; /* requests that were executed before */
    /* executed without packets, and copies made for it */
    uint64_t direct_requests, direct_bytes, direct_copies;
    uint64_t direct_gpu_bytes; /* those of them from or to a GPU's memory */
    uint64_t direct_refused;   /* that would have been, but their memory failed or the system refused */
    uint64_t rndv_sent, rndv_taken, rndv_refused, rndv_bytes; /* bytes: of those taken */
    uint64_t eager_sent, eager_taken, eager_refused; /* messages whose bytes were there before them */
    uint64_t drop_malformed, drop_icrc, drop_no_qp, drop_state, drop_address, drop_pkey, drop_opcode,
        drop_psn, drop_stale;
    uint64_t wrong_keys;    /* requests that named a key, or a range, that the peer was not given */
    uint64_t drop_qkey;     /* UD: the Q_Key is not the queue pair's */
    uint64_t drop_no_recv;  /* UC, UD: no receive was posted */
    uint64_t drop_refused;  /* UC: not allowed, or not as the protocol has it */
    uint64_t lost_messages; /* UC: begun and not ended, because packets are missing or were dropped */
    uint64_t ecn_marked, cnp_sent, cnp_received;
};
void sn_nic_counters(const struct sn_nic *nic,
                     struct sn_counters *out); /* no lock; each number by itself is right */

/*
 * Sends a management datagram from queue pair 1 to queue pair 1 at dgid. It is on the wire when this returns,
 * also if dgid is the NIC's own. It may get lost. -EAGAIN: the wire takes nothing now.
 */
int sn_nic_mad_send(struct sn_nic *nic, const uint8_t dgid[16], const uint8_t mad[SN_MAD_LEN]);

/* ---- doorbell pages ------------------------------------------------------------------------------------ */

/*
 * A 4 KiB page of registers: BlueFlame register k = 0 … 3 at 0x800 + k * 512, two halves of 256 bytes each;
 * the CQ doorbell at 0x20. The page is a shared mapping, so that mremap(page, 0, …) can map it a second time.
 * All bits set means "not rung", a value that no doorbell can have.
 */
enum { SN_UAR_SIZE = 4096, SN_UAR_BF = 0x800, SN_UAR_BF_SIZE = 512, SN_UAR_BF_COUNT = 4, SN_UAR_CQ = 0x20 };

int sn_uar_create(struct sn_nic *nic, struct sn_uar **uar); /* -ENOMEM */

/*
 * For a page whose queue pairs do not say which register they are given: a ring of any counts for all of
 * them. Before the page has users.
 */
void sn_uar_merge(struct sn_uar *uar);
int sn_uar_destroy(struct sn_uar *uar); /* -EBUSY while a QP or CQ uses it */
void *sn_uar_page(struct sn_uar *uar);  /* no lock */

/* ---- protection domains, memory regions ---------------------------------------------------------------- */

int sn_pd_create(struct sn_nic *nic, struct sn_pd **pd);
int sn_pd_destroy(struct sn_pd *pd); /* -EBUSY while an MR, SRQ or QP uses it */

/*
 * How the engine reaches a region's memory. addr is an address within [init.addr, init.addr + init.length):
 * the engine has checked that. All return 0 or a negative errno (-EFAULT: not mapped; -EIO), which fails the
 * work request. Called inside the NIC's lock.
 */
typedef int (*sn_dma_fill)(void *with, uint64_t offset, void *to, uint32_t n);
typedef int (*sn_dma_drain)(void *with, uint64_t offset, const void *from, uint32_t n);
struct sn_dma_ops {
    /* Copies len bytes at addr to dst, all earlier writes included. If `request` is not 0, it names one work
     * request and none before it. Then up to `ahead` (>= len) bytes from addr on may be fetched now, to
     * answer later reads of that request. */
    int (*read)(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request);
    /* Copies len bytes from src to addr. They may become visible as late as the next flush, in any order; of
     * two writes to one byte the later one stays. */
    int (*write)(void *ctx, uint64_t addr, const void *src, uint32_t len);
    /* As a write of what fill(with, offset, to, n) puts at `to`: n bytes from offset on, one stretch after
     * the other. And as a read that drain(with, offset, from, n) takes. They save a copy, and use no region
     * of these functions. Their error ends it, and is returned. NULL: there is no such way. */
    int (*write_by)(void *ctx, uint64_t addr, uint32_t len, sn_dma_fill fill, void *with);
    int (*read_by)(void *ctx, uint64_t addr, uint32_t len, sn_dma_drain drain, void *with);
    /* Writes before it become visible no later than those after it. NULL: they do anyhow. */
    void (*order)(void *ctx);
    /* All writes are visible to the memory's user when it returns. Called before a completion or an
     * acknowledgement that vouches for them. NULL: writes are visible at once. */
    int (*flush)(void *ctx);
    /*
     * The same without waiting, or all of these NULL. After `start` all writes so far are on their way, and
     * *mark names them; false: flush them. If `ended`, await(mark) would not wait. After `await` they are
     * visible, as by flush. It returns 0 or a negative errno. Writes that were started for regions of one
     * line become visible in the order of the starts.
     */
    bool (*start)(void *ctx, uint64_t *mark);
    bool (*ended)(void *ctx, uint64_t mark);
    int (*await)(void *ctx, uint64_t mark);
    const void *(*line)(void *ctx);
    /* As a write of what a read of the other region, with the same functions, would give. -EXDEV: not between
     * these two. NULL: never; and then peers reach the region by packets only. */
    int (*move)(void *ctx, uint64_t addr, void *from_ctx, uint64_t from, uint32_t len);
    /* How another process opens the region's memory, valid as long as the region; NULL: it cannot. May itself
     * be NULL. */
    const struct sn_gpu_share *(*share)(void *ctx);
};
extern const struct sn_dma_ops sn_host_dma; /* memory of this process; ctx is not used */

struct sn_mr_init {
    uint64_t addr, length; /* what the DMA functions are given; length 0 is allowed and grants nothing */
    uint64_t iova;         /* the address by which work requests and peers name addr */
    uint32_t access; /* IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND; relaxed
                        ordering is ignored */
    const struct sn_dma_ops *dma; /* NULL: &sn_host_dma */
    void *dma_ctx;
    bool unordered; /* who sees a completion need not see what the NIC has written there before */
};

/* -EINVAL: addr or iova + length overflow; unknown access bits; remote write or atomic without local write.
 */
int sn_mr_create(struct sn_pd *pd, const struct sn_mr_init *init, struct sn_mr **mr);
/*
 * From now on the region is what init says, in pd, under the same key: work under way meets the one or the
 * other. Errors as above, and nothing has changed then. After it returns nothing touches the old memory.
 */
int sn_mr_change(struct sn_mr *mr, struct sn_pd *pd, const struct sn_mr_init *init);
/* Always succeeds: work under way that needs the region fails. After it returns nothing touches the memory.
 */
int sn_mr_destroy(struct sn_mr *mr);
uint32_t sn_mr_key(const struct sn_mr *mr); /* lkey and rkey; never 0, never 0x100 */

/*
 * A memory window: a key that grants nothing until a work request of a QP of its domain binds it. It is bound
 * to a part of a region that was registered with IBV_ACCESS_MW_BIND. Its key's lower byte changes with every
 * bind. It is no lkey. Type 2 is 2B: a bound window is for the peer of that QP alone. It must be taken back
 * before it is bound again, by a work request, or by a SEND with invalidate of that peer. Type 1 is bound
 * again. Destroyed with sn_mr_destroy, before or after its region. Without a region it grants nothing.
 * -ENOMEM.
 */
int sn_mw_create(struct sn_pd *pd, enum ibv_mw_type type, struct sn_mr **mw);

/* ---- completion queues --------------------------------------------------------------------------------- */

struct sn_cq_init {
    void *buf;          /* cqe_count entries, each with op_own = 0xf0 to begin with (the creator does that) */
    uint32_t cqe_count; /* power of two, 2 … SN_MAX_CQE */
    uint32_t cqe_size;  /* 64 or 128 */
    uint32_t *
        dbrec; /* two words: consumer index, arm. The engine poisons the arm word: 0 would look like an arm */
    struct sn_uar *uar;  /* on whose page it is armed */
    bool ignore_overrun; /* the user promises never to overrun it and does not update the consumer index */
    void *user;
};

/* -EINVAL: sizes; -EFAULT: the memory cannot be written. */
int sn_cq_create(struct sn_nic *nic, const struct sn_cq_init *init, struct sn_cq **cq);
int sn_cq_destroy(struct sn_cq *cq); /* -EBUSY while a QP uses it. No cq_event for it after this returns */
/*
 * Goes on in another buffer (as described by sn_cq_init). In the old one it writes an entry of opcode 5 where
 * the next completion would be. Nothing touches the old one after it returns. The owner then moves what is
 * unpolled over, each entry to the next higher index, and consumes that one. Returns -EINVAL for wrong sizes,
 * or less room than there are unpolled entries. Returns -EBUSY if the old one is full, -EOPNOTSUPP with
 * ignore_overrun, -EIO if the CQ is dead, and -EFAULT.
 */
int sn_cq_resize(struct sn_cq *cq, void *buf, uint32_t cqe_count);
uint32_t sn_cq_number(const struct sn_cq *cq);

/* ---- XRC domains: which XRC_RECV QPs may take from which XRC queues ------------------------------------ */

int sn_xrcd_create(struct sn_nic *nic, struct sn_xrcd **xrcd); /* -ENOMEM */
int sn_xrcd_destroy(struct sn_xrcd *xrcd);                     /* -EBUSY while an SRQ or QP uses it */

/* ---- shared receive queues ----------------------------------------------------------------------------- */

/*
 * A ring of WQEs that many QPs take their receives from. Each begins with a link that names the next, so
 * their order is the user's (gpuwire/mlx5.h: gw_mlx5_put_srq_recv); the first to be used is entry 0. A CQE's
 * wqe_counter is the entry that was used, and gives it back.
 *
 * Events, with `user` below: IBV_EVENT_SRQ_LIMIT_REACHED; IBV_EVENT_SRQ_ERR, once, when a link or the record
 * cannot be right: QPs that need a WQE of it go to ERR from then on.
 */
struct sn_srq_init {
    /* An XRC queue, which peers name in their packets: XRC_RECV QPs of this domain take from it, whichever
     * they are. They complete on cq, under uidx (24 bits). NULL, NULL, 0: a queue that QPs are made with. */
    struct sn_xrcd *xrcd;
    struct sn_cq *cq;
    uint32_t uidx;
    struct sn_pd *pd; /* whose regions its WQEs may name */
    void *buf;        /* aligned to 16 */
    uint32_t wqes;    /* power of two … SN_MAX_RQ_WQE */
    uint32_t stride;  /* bytes: power of two, 32 … SN_MAX_RQ_STRIDE */
    uint32_t *dbrec;  /* one word: WQEs posted; aligned to 8 */
    void *user;
};

/* -EINVAL, -EFAULT (dbrec), -ENOMEM. */
int sn_srq_create(struct sn_nic *nic, const struct sn_srq_init *init, struct sn_srq **srq);
/*
 * -EBUSY while a QP was made with it. No event names it, and no completion comes of it, after this returns.
 * An XRC queue is not kept alive by its peers: requests that name it are refused from then on.
 */
int sn_srq_destroy(struct sn_srq *srq);
uint32_t sn_srq_number(const struct sn_srq *srq);

/*
 * Asks for one event when fewer than `limit` WQEs are left. It comes at once if that is so already. 0 takes
 * it back. -EINVAL: not below the number of WQEs.
 */
int sn_srq_set_limit(struct sn_srq *srq, uint32_t limit);
uint32_t sn_srq_limit(struct sn_srq *srq); /* as set; 0 after the event */

/* ---- queue pairs --------------------------------------------------------------------------------------- */

struct sn_qp_init {
    enum ibv_qp_type type; /* IBV_QPT_RC, _UC, _UD, _XRC_SEND, _XRC_RECV; -EOPNOTSUPP otherwise */
    struct sn_pd *pd;
    struct sn_cq *send_cq, *recv_cq;
    /* XRC_RECV: its domain. It has no PD, CQs, queues, records or doorbells. It works for the SRQ that each
     * packet names, with the rights of that one's PD. XRC_SEND has no recv_cq and does not receive. */
    struct sn_xrcd *xrcd;
    void *sq_buf;       /* aligned to 64 */
    uint32_t sq_wqebbs; /* power of two … SN_MAX_SQ_WQEBB, or 0: no send queue */
    void *rq_buf;
    uint32_t rq_wqes;   /* power of two … SN_MAX_RQ_WQE, or 0: no receive queue */
    uint32_t rq_stride; /* bytes: power of two, 16 … SN_MAX_RQ_STRIDE */
    struct sn_srq *srq; /* or NULL. Then rq_wqes is 0, receives are not scattered to the CQE (their user gives
                           the WQE back before it looks at it), and in ERR IBV_EVENT_QP_LAST_WQE_REACHED says
                           when the QP has let go of the last WQE */
    uint32_t *dbrec;    /* two words: receive count, send count */
    struct sn_uar *uar;
    uint32_t bfreg; /* 0 … 3: which register of the page it is given (sharing is allowed) */
    bool sq_sig_all;
    uint32_t uidx; /* what CQEs name it by (cqe_version 1), 24 bits */
    /* Scatter to CQE, in bytes: the largest receive (0, 32, 64), and the largest answer to a READ or atomic
     * (0, 32, 64). A 64 needs 128-byte CQEs, otherwise it counts as 32. The latter applies with sq_sig_all
     * only; neither does to UD. */
    uint32_t scatter_recv, scatter_req;
    void *user;
};

/* -EINVAL, -EOPNOTSUPP, -EFAULT (dbrec), -ENOMEM. The QP is in RESET. */
int sn_qp_create(struct sn_nic *nic, const struct sn_qp_init *init, struct sn_qp **qp);
int sn_qp_destroy(
    struct sn_qp *qp); /* nothing touches its memory, and no event names it, after this returns */
uint32_t sn_qp_number(const struct sn_qp *qp);

/*
 * As ibv_modify_qp: checks mask against the table of transitions, and values against limits, before anything
 * changes. -EINVAL for anything wrong: transition, missing or extra attribute, value. GID index 0, port 1 and
 * P_Key index 0 are all there is; the address vector must be global. The current state is checked against
 * attr->cur_qp_state if IBV_QP_CUR_STATE is given. A send request that fails takes a UC or UD queue pair to
 * SQE only: it still receives, and goes back to RTS by this call. To RESET the queues are forgotten (records
 * are read from 0 on again); what is in CQs stays.
 */
int sn_qp_modify(struct sn_qp *qp, const struct ibv_qp_attr *attr, int mask);

/* The program's library refused a post to the queue pair of that number, and did not ring. Where its state is
 * the reason, one line says so, once for each queue pair. Takes the NIC's lock. */
void sn_qp_post_refused(struct sn_nic *nic, uint32_t number);

/* All attributes but cap, which the caller knows. */
int sn_qp_query(struct sn_qp *qp, struct ibv_qp_attr *attr);

#endif
