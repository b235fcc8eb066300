/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers and workers of a fleet that do what a test says: one thread, on the loopback network. */
#ifndef GW_TESTS_FLEET_FAKE_H
#define GW_TESTS_FLEET_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/fleet/wire/conn.h"

enum { FAKE_WORKERS = 4, FAKE_CONTROLLERS = 3, FAKE_LEASES = 8 };

enum fake_lie {
    FAKE_HONEST,
    FAKE_OTHER_ID,    /* answers a request that was not made */
    FAKE_SHORT,       /* says more bytes than there are */
    FAKE_TWICE,       /* answers each request twice */
    FAKE_ODD_KIND,    /* sends what workers never send */
    FAKE_ODD_STATUS,  /* a status that does not exist */
    FAKE_MUTE,        /* takes requests and never answers */
    FAKE_CUT,         /* closes the connection instead of an answer */
    FAKE_UNDESCRIBED, /* answers DESCRIBE with NOTHING */
};

struct fake_worker {
    struct fake *fake;
    struct fleet_listener *listener;
    char name[FLEET_NAME], address[FLEET_ADDRESS];
    uint8_t id[FLEET_ID];
    atomic_int lie;                  /* enum fake_lie */
    atomic_int status;               /* of its answers */
    atomic_llong retry_ns;           /* of refusals */
    atomic_uint requests, strangers; /* strangers: with a lease or key that was not granted */
    /* A session over RDMA is asked for; NULL: the connection ends, as of a worker without RDMA. */
    void (*open)(struct fake_worker *w, struct fleet_conn *c, const struct fleet_frame *f,
                 const struct fleet_open *o);
    atomic_llong budget_ns; /* of the last request */
};

/* A lease that the controllers give. */
struct fake_lease {
    uint32_t worker, number, slots, spill;
    uint64_t key;
    float rate;
    int64_t left_ns;
    uint64_t reply_bytes; /* 0: no RDMA */
};

enum fake_mood {
    FAKE_LEADS,
    FAKE_SILENT,    /* WELCOME, and nothing more */
    FAKE_DUMB,      /* not even WELCOME */
    FAKE_ELSEWHERE, /* names `elsewhere` */
    FAKE_NOTHING,   /* -EAGAIN */
    FAKE_NO_MODEL,  /* -ENOENT */
    FAKE_BABBLES,   /* odd texts and numbers in its grants */
};

struct fake_controller {
    struct fake *fake;
    struct fleet_listener *listener;
    struct fleet_conn *conn; /* the last that opened */
    char address[FLEET_ADDRESS];
    uint8_t id[FLEET_ID];
    atomic_int mood; /* enum fake_mood */
    char elsewhere[FLEET_ADDRESS];
    atomic_uint demands, greeted;
    atomic_ullong offered, late; /* sums of DEMAND */
};

struct fake {
    struct fleet_loop *loop;
    pthread_t thread;
    struct fake_worker worker[FAKE_WORKERS];
    struct fake_controller controller[FAKE_CONTROLLERS];
    struct fake_lease lease[FAKE_LEASES];
    atomic_uint leases;
};

/* Everything listens, and the first controller leads. */
void fake_begin(struct fake *f);
void fake_end(struct fake *f);
/* Has the fakes' thread call it, and waits. */
void fake_do(struct fake *f, void (*what)(struct fake *f, void *arg), void *arg);
/* A lease of worker `worker`, of these slots and this rate, valid for 10 s. Returns it. */
struct fake_lease *fake_grant(struct fake *f, uint32_t worker, uint32_t slots, float rate);
/* Ends all connections of that worker and its listener: it is dead. */
void fake_kill(struct fake *f, uint32_t worker);
/* The last client of the first controller gets this. */
void fake_tell(struct fake *f, uint16_t kind, const void *body, size_t bytes);

#endif
