/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h: network ports, services and workers, as a configuration names them; how large a balancer is. */
#ifndef GW_SRC_BALANCE_OBJECTS_H
#define GW_SRC_BALANCE_OBJECTS_H

#include <stdbool.h>
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
    uint64_t persist_ns;  /* how long clients stick to a worker; 0: they do not. BAL_TCP, BAL_UDP */
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
    /* of IPv6, any port, RoCE and fragments, for each core; 0: 100,000 (71 bytes each) */
    uint64_t wide_flows;
    struct bal_timeouts timeout;
    bool huge_pages;
};
/* What is 0 becomes what is written above. */
void bal_fill_attr(struct bal_attr *attr);

/* A worker's report of its load. */
struct bal_load {
    uint32_t queue_depth; /* requests that wait, or are under way */
    uint64_t bytes;       /* bytes of these; 0 where it does not tell */
};
#define BAL_LOAD_OLD_NS UINT64_C(5000000000) /* what is older does not count */

#endif
