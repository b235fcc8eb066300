/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.h: the balancer and its cores, as the files of the data path see them.
 *
 * A core parses a burst of packets, finds their flows, moves the flows' states on, and changes the packets so
 * that they can be sent. It knows nothing of where packets come from: run_dpdk.c reads them from devices,
 * tests and benchmarks from memory.
 */
#ifndef GW_SRC_BALANCE_BALANCE_H
#define GW_SRC_BALANCE_BALANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/flow.h>

#include "src/balance/drop.h"
#include "src/balance/packet.h"
#include "src/balance/ring.h"
#include "src/balance/snapshot.h"

/*
 * Some entries of a table are not connections: a connection that CM is still opening, a fragment whose rest
 * is on its way. They are counted for another worker of the table's, so that they are no live connections.
 */
static inline uint32_t bal_beside(uint16_t worker)
{
    return (uint32_t)worker + BAL_WORKERS;
}
static inline uint16_t bal_worker_of(uint16_t entry)
{
    return entry % BAL_WORKERS;
}
_Static_assert(2 * BAL_WORKERS <= GW_FLOW_WORKERS, "a table has room for both kinds");

struct bal_counters {
    struct {
        _Atomic uint64_t packets, bytes, opened, live, held, clients;
    } worker[BAL_WORKERS];
    _Atomic uint64_t received, received_bytes, packets, bytes, answered, opened, expired, evicted, moved,
        stateless, live;
    _Atomic uint64_t drop[BAL_DROPS];
};
/* Only its core writes a counter, so that no read-modify-write needs to be atomic. Readers want no order. */
static inline void bal_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

enum { BAL_BURST = 64, BAL_OUTBOX = 64, BAL_QPNS = 16384, BAL_SEQS = 16384, BAL_DUE_ROWS = 1024 };

struct bal_choice {                /* what a core remembers for choosing */
    uint32_t next[BAL_SERVICES];   /* rr; where lc begins to look */
    int64_t credit[BAL_WORKERS];   /* wrr */
    uint64_t seen_ns[BAL_WORKERS]; /* the telemetry's time when `since` began */
    uint32_t since[BAL_WORKERS];   /* flows opened since then */
    uint64_t bytes[BAL_WORKERS];   /* bytes forwarded since then; without telemetry: lately */
    uint64_t random;
};

enum { BAL_CLASSES = 512 };

/* Changes of the tables in this burst: a flow that was found before may have moved, or be in another state.
 */
struct bal_burst {
    bool inserted, any_changed;
    uint64_t packets, bytes;            /* forwarded: counted at its end */
    uint64_t changed[BAL_CLASSES / 64]; /* a bit for each class of keys */
};

struct bal_core {
    struct bal *bal;
    const struct bal_snapshot *snap;
    struct gw_flow_table *narrow, *wide; /* keys of 8 bytes, and of BAL_WIDE_KEY */
    const uint32_t *count[2];            /* of their flows, by worker */
    struct bal_counters *counters;
    uint32_t index;
    uint64_t now_ns, kept_ns, fed_ns;
    uint64_t due_ns[BAL_DUE_ROWS], due_all_ns; /* refuse.c: when senders may be told more */
    uint64_t probed_ns;                        /* when a worker was last asked about a RST */
    struct bal_burst burst;
    struct bal_choice choice;
    struct bal_frame outbox[BAL_OUTBOX];
    uint32_t outbox_used;
    struct bal_ring *feed, *inbox;
    struct bal_clients *clients; /* persist.h */
    /* VIPs: the publication, how many ports times services are left, and which one is next */
    uint64_t announced, announce_left, announce_at;
    uint64_t scan_at[2]; /* cursors of the feed's rounds over both tables */
    struct {
        uint32_t tag, qpn;
    } qpn_of[BAL_QPNS]; /* CM's communication IDs: the worker's queue pair. Newer ones take the place of older
                           ones */
    struct {
        uint32_t tag, seq;
    } seq_of[BAL_SEQS]; /* sequence.h */
};

struct bal {
    struct bal_attr attr;
    _Atomic(struct bal_snapshot *) snap;
    struct bal_snapshot *old; /* not yet freed */
    uint64_t seed[2];         /* of this start: strangers cannot aim at a place of a hash */
    uint64_t generation;
    _Atomic uint64_t seen[BAL_CORES]; /* the publication that a core looks at; BAL_OFFLINE */
    _Atomic bool stop, feeding;
    struct bal_neighbours *neighbours;
    _Atomic uint64_t port_mac[BAL_PORTS]; /* in its first six bytes */
    _Atomic bool any_mac[BAL_PORTS];      /* frames to other MACs are taken, too */
    struct {
        _Atomic uint64_t when_ns, bytes;
        _Atomic uint32_t queue_depth;
    } load[BAL_WORKERS];
    struct bal_core *core[BAL_CORES];
};
#define BAL_OFFLINE UINT64_MAX

#endif
