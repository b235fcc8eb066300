/* SPDX-License-Identifier: Apache-2.0 */
/*
 * services.h: what the control plane and the data plane of the balancer share.
 *
 * The control plane publishes the whole configuration, as a struct bal_config. One pointer is exchanged: the
 * cores see the old one or the new one, and no mixture. When each core has left the old one
 * (bal_generation_seen), it is freed. Loads of workers change many times a second, and are written in place.
 * The cores write their counters in place, too.
 *
 *     bal_create(&attr, &bal);
 *     bal_publish(bal, &config, error, sizeof(error));         // as often as something changes
 *     bal_telemetry(bal, worker, &t);                          // at any time
 *     bal_worker_live(bal, worker);                            // a draining worker with 0 may go
 *     gw_balance_run(bal, &run, error, sizeof(error));         // run.h; a thread of its own, until bal->stop
 *
 * One thread at a time publishes. All else here may be called from any thread.
 * Functions return 0 or a negative errno, unless they say otherwise.
 */
#ifndef GW_SRC_BALANCE_SERVICES_H
#define GW_SRC_BALANCE_SERVICES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BAL_SERVICES = 16384, /* services have numbers from 0 to one less */
    BAL_WORKERS = 8192,   /* and workers */
    BAL_CORES = 64,
    BAL_PORTS = 8,      /* network ports */
    BAL_MAGLEV = 65537, /* rows of a table, or: */
    BAL_MAGLEV_SMALL = 4099,
    BAL_NAME = 32,
    BAL_NO_WORKER = 0xffff,
};

/* An address: family 4, with the first four bytes, or 6. Family 0 is none. In network order. */
struct bal_addr {
    uint8_t family;
    uint8_t byte[16];
};

enum bal_proto { BAL_TCP = 6, BAL_UDP = 17, BAL_ROCE = 200 };

enum bal_scheduler {
    BAL_RR,          /* one after the other */
    BAL_WRR,         /* as often as their weights say */
    BAL_LC,          /* the fewest connections */
    BAL_WLC,         /* the fewest connections for its weight */
    BAL_SH,          /* by the client's address */
    BAL_MH,          /* Maglev, weighted, by the client's address and port */
    BAL_P2C,         /* of two at random the one with the shorter queue */
    BAL_LEAST_BYTES, /* the fewest bytes waiting */
    BAL_SCHEDULERS,
};

enum bal_forward {
    BAL_DR,   /* the worker's MAC; the worker has the VIP on a device that does not answer ARP */
    BAL_IPIP, /* in another IP header */
    BAL_GUE,  /* in UDP, generic UDP encapsulation */
    BAL_NAT,  /* the worker's address and port; answers come back through the balancer */
    BAL_FORWARDS,
};

enum bal_state {
    BAL_DOWN,     /* gets nothing; its flows go to others (queue pairs end) */
    BAL_UP,       /* gets new flows */
    BAL_DRAINING, /* keeps the flows that it has */
};

/* Clients see an address and a port. Its number is its identity: it keeps it as long as it lives. */
struct bal_service {
    bool used;
    uint8_t proto;     /* enum bal_proto */
    uint8_t scheduler; /* enum bal_scheduler */
    uint8_t forward;  /* enum bal_forward; BAL_ROCE: not BAL_IPIP or BAL_GUE unless the worker takes it off */
    bool track_moved; /* track only flows whose choice a change would move (JET); BAL_MH and TCP, no NAT */
    struct bal_addr vip;
    uint16_t port;        /* host order; 0: any (the worker's is then the same); BAL_ROCE: ignored */
    uint16_t gue_port;    /* BAL_GUE: the workers' UDP port; 0: 6080 */
    uint64_t persist_ns;  /* clients stick to a worker for so long; 0: they do not. BAL_TCP, BAL_UDP */
    uint8_t persist_bits; /* of their addresses that count; 0: all */
};

/* A worker of one service. A machine that serves two of them is two workers. Its number stays its own until
 * no flow is left (bal_worker_live); flows remember it. */
struct bal_worker {
    bool used;
    uint8_t state;  /* enum bal_state */
    bool mac_known; /* else it is resolved: the next hop's, or the address's */
    uint8_t mac[6];
    uint16_t service;
    uint16_t port;   /* NAT: host order; 0: the service's */
    uint32_t weight; /* 0: nothing new; at most 65535 */
    struct bal_addr addr;
    struct bal_addr next_hop; /* family 0: the address itself where it is on link, else the port's gateway */
    uint8_t via;              /* the network port through which it is reached */
};

/* A network port of the balancer, in the order of the devices given to gw_balance_run. */
struct bal_port {
    bool used;
    bool only_tried;            /* there is no device: no packet comes or goes */
    uint16_t vlan;              /* 0: no tag; else packets carry and need it */
    uint16_t mtu;               /* of IP; 0: 1500 */
    struct bal_addr addr[2];    /* the balancer's own, IPv4 or IPv6: ARP, ND and tunnels come from it */
    uint8_t prefix[2];          /* bits of addr[i] that are on link */
    struct bal_addr gateway[2]; /* of the same family as addr[i]; family 0: none */
};

struct bal_config {
    struct bal_port port[BAL_PORTS];
    struct bal_service service[BAL_SERVICES];
    struct bal_worker worker[BAL_WORKERS];
    uint64_t maglev_seed; /* balancers that stand in for each other have the same */
    bool mute;            /* another answers for VIPs: ARP, ND, pings, ports that no service has */
    bool reject;          /* clients that nothing can serve hear so: RST, ICMP */
};

/* How long flows live after their last packet, by state; in ns, 0: what is written here. None may be more
 * than 8,000 times another. They belong to the tables, so they last as long as the balancer. */
struct bal_timeouts {
    uint64_t syn;         /* 20 s: half-open */
    uint64_t established; /* 900 s */
    uint64_t fin_wait;    /* 120 s: one side has closed, and TIME_WAIT */
    uint64_t close;       /* 10 s: reset */
    uint64_t udp;         /* 30 s: no answer seen */
    uint64_t udp_stream;  /* 180 s */
    uint64_t queue_pair;  /* 900 s without a packet; CM's DREQ ends it earlier */
    uint64_t fragment;    /* 5 s: later fragments find their first */
};

struct bal_attr {
    uint32_t cores;
    uint64_t flows; /* of IPv4 with a port, for each core; 0: 1,000,000 (17 bytes each) */
    uint64_t
        wide_flows; /* of IPv6, any port, RoCE and fragments, for each core; 0: 100,000 (71 bytes each) */
    struct bal_timeouts timeout;
    bool huge_pages;
};
/* What is 0 becomes what is written above. */
void bal_fill_attr(struct bal_attr *attr);

struct bal; /* the balancer: balance.h has what the data plane sees of it */

/* -EINVAL: bal_check_attr (check.h) says why. -ENOMEM. */
int bal_create(const struct bal_attr *attr, struct bal **out);
void bal_destroy(struct bal *bal); /* no core may run any more; NULL is allowed */

/*
 * Checks a configuration, makes what lookups need of it, and lets all cores see it. A later call, or
 * bal_destroy, frees the old one. `error` gets one line when it is refused: what, on what, what to do.
 * -EINVAL: bal_check_config (check.h) finds what cannot run. -ENOMEM.
 */
int bal_publish(struct bal *bal, const struct bal_config *config, char *error, size_t size);
/* Counts the publications. `seen`: each core that has run since looks at this one or a later one. */
uint64_t bal_generation(const struct bal *bal);
uint64_t bal_generation_seen(const struct bal *bal);

/* Ends gw_balance_run within some milliseconds. May be called in a signal handler. */
void bal_stop(struct bal *bal);

/* ---- telemetry: written by the control plane, read when a flow is opened ---- */

struct bal_load {
    uint32_t queue_depth; /* requests that wait, or are under way */
    uint64_t bytes;       /* bytes of these; 0 where it does not tell */
};
/* `now_ns`: CLOCK_MONOTONIC. What is older than BAL_LOAD_OLD_NS does not count. */
void bal_telemetry(struct bal *bal, uint32_t worker, const struct bal_load *load, uint64_t now_ns);
#define BAL_LOAD_OLD_NS UINT64_C(5000000000)

/* ---- counters: written by the cores ---- */

enum bal_drop {
    BAL_DROP_BAD,          /* not what its headers say: too short, wrong length or header checksum */
    BAL_DROP_OTHER_HOST,   /* to the MAC of another host, or of a group */
    BAL_DROP_NOT_OURS,     /* for no service, and not ARP, ND or ICMP for the balancer */
    BAL_DROP_NO_WORKER,    /* no worker is up */
    BAL_DROP_NO_NEIGHBOUR, /* the next hop's MAC is not known yet */
    BAL_DROP_TOO_BIG,      /* it does not fit its way; its sender was told by ICMP */
    BAL_DROP_TTL,          /* its time to live is over */
    BAL_DROP_INVALID,      /* an answer to no flow, or a TCP segment that opens nothing */
    BAL_DROP_QP,           /* RoCE: the queue pair is not known, or its worker is down */
    BAL_DROP_FRAGMENT,     /* a later fragment whose first did not come */
    BAL_DROP_NO_ROOM,      /* no room in front of the packet, or in the sender's queue */
    BAL_DROPS,
};
const char *bal_drop_name(enum bal_drop why); /* "no_worker": a label for metrics */

struct bal_counts {
    uint64_t packets, bytes; /* forwarded, both directions */
    uint64_t opened;         /* connections that it was given, or that this balancer was told of */
    uint64_t live;           /* of these; as of the core's last housekeeping, 100 ms ago at most */
    uint64_t held;           /* beside these: requests of CM, and packets in fragments, that are under way */
    uint64_t clients;        /* that stick to it, persist_ns; of about a second ago */
};
struct bal_totals {
    uint64_t received, received_bytes;
    uint64_t packets, bytes; /* forwarded */
    uint64_t answered;       /* ARP, ND, ICMP that the balancer itself answered */
    uint64_t opened, expired, evicted;
    uint64_t moved;     /* flows that left a dead worker */
    uint64_t stateless; /* packets forwarded by Maglev alone: the table was full, or the state was lost */
    uint64_t live;
    uint64_t neighbours; /* clients on the link whose MAC is known */
    uint64_t displaced;  /* entries for MACs that made room before their time: the table is too small */
    uint64_t drop[BAL_DROPS];
};

/* Sums over all cores (core < 0), or of one. Each number is right by itself; together they are of about now.
 */
void bal_totals(const struct bal *bal, int core, struct bal_totals *out);
void bal_worker_counts(const struct bal *bal, uint32_t worker, struct bal_counts *out);
/* Live and held of bal_worker_counts: the worker still needs its connections. When a worker was set to
 * BAL_DRAINING or BAL_DOWN, wait for bal_generation_seen and 200 ms before believing in 0. */
uint64_t bal_worker_live(const struct bal *bal, uint32_t worker);

/* ---- flows as records: to a standby, from an active balancer, and queue pairs that CM did not open ---- */

struct bal_record {
    uint16_t service, worker;
    uint16_t client_port; /* host order; TCP, UDP */
    uint16_t vip_port;    /* host order; where the service has any */
    uint32_t qpn;         /* RoCE: the destination's */
    uint8_t state;        /* states.h; 0xff: the flow has ended */
    uint8_t reserved[3];
    struct bal_addr client;
};

/*
 * Takes up to n records that a core has told since the last call. They are of flows that became established
 * or ended, and of all living ones again and again, each within some seconds. Returns how many. Only after
 * bal_feed(bal, true). A reader that is too slow loses some, and sees them in the next round.
 */
void bal_feed(struct bal *bal, bool on);
size_t bal_feed_take(struct bal *bal, uint32_t core, struct bal_record *out, size_t n);
/*
 * Gives the cores a flow to remember. It may be one of another balancer. Or it is a queue pair whose numbers
 * the ends have exchanged by themselves; then its state is BAL_ROCE_LIVE. For the thread that publishes.
 * -EAGAIN: the cores have not taken the last ones yet. -EINVAL: no such service or worker.
 */
int bal_learn(struct bal *bal, const struct bal_record *record);

#endif
