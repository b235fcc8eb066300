/* SPDX-License-Identifier: Apache-2.0 */
/* The model holds services (virtual addresses) with their workers. It also holds how each worker is
 * checked, and what the administrator wants of it. Names are IPVS' own: rr, wrr, lc, wlc, sh, mh; NAT, DR,
 * TUN. One thread at a time uses a model; daemon.c holds the lock. Functions return 0 or a negative errno
 * with the reason in gw_last_error(). */
#ifndef GW_BALANCE_CONTROL_MODEL_H
#define GW_BALANCE_CONTROL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_BAL_NAME      64 /* bytes, with the final zero */
#define GW_BAL_SERVICES  16384u
#define GW_BAL_WORKERS   8192u /* of all services */
#define GW_BAL_WEIGHT    65535u
#define GW_BAL_PERSIST_S 2678400u /* seconds: 31 days, as IPVS */
#define GW_BAL_ASKS      4u       /* things that one check tries */
#define GW_BAL_ADDR      48       /* bytes of an address as text */
#define GW_BAL_ENDPOINT  64       /* bytes of "[address]:port/protocol" */
#define GW_BAL_WHY       160

enum gw_bal_protocol { GW_BAL_TCP, GW_BAL_UDP, GW_BAL_ROCE, GW_BAL_PROTOCOLS };
enum gw_bal_forward { GW_BAL_DR, GW_BAL_TUN, GW_BAL_GUE, GW_BAL_NAT, GW_BAL_FORWARDS };
enum gw_bal_sched {
    GW_BAL_RR,
    GW_BAL_WRR,
    GW_BAL_LC,
    GW_BAL_WLC,
    GW_BAL_SH,
    GW_BAL_MH,
    GW_BAL_P2C,
    GW_BAL_LB, /* least bytes, by the workers' telemetry */
    GW_BAL_SCHEDS
};
/* DEFAULT: a TCP check of a TCP service, none of others; no service in the model has it. */
enum gw_bal_check_kind {
    GW_BAL_NO_CHECK,
    GW_BAL_TCP_CHECK,
    GW_BAL_HTTP_GET,
    GW_BAL_RDMA_CHECK,
    GW_BAL_SSL_GET,
    GW_BAL_UDP_CHECK,
    GW_BAL_MISC_CHECK,
    GW_BAL_DEFAULT_CHECK
};
/* DRAINED: it would be up, drains, and has no connections. REFUSED: the data plane cannot run it. */
enum gw_bal_state { GW_BAL_UP, GW_BAL_DRAINING, GW_BAL_DOWN, GW_BAL_DRAINED, GW_BAL_REFUSED, GW_BAL_STATES };
/* The origin of a worker or a service. A reload changes only what the file had named. */
enum gw_bal_origin { GW_BAL_OF_FILE, GW_BAL_OF_API, GW_BAL_OF_ITSELF };

extern const char *const gw_bal_protocol_names[GW_BAL_PROTOCOLS + 1]; /* each ends with NULL */
extern const char *const gw_bal_forward_names[GW_BAL_FORWARDS + 1];
extern const char *const gw_bal_sched_names[GW_BAL_SCHEDS + 1];
extern const char *const gw_bal_check_names[];
extern const char *const gw_bal_state_names[];
/* Which of the names this is, in either case; -1: none. */
int gw_bal_name_index(const char *const *names, const char *text);

struct gw_bal_addr {
    uint8_t family; /* 4 or 6 */
    uint8_t bytes[16];
};

/* Another host's words, for people: what is not printable ASCII, a quote and a backslash become \\xNN. */
void gw_bal_plain(char *to, size_t size, const char *from);

/* 0 or -EINVAL, without words. */
int gw_bal_addr_parse(const char *text, struct gw_bal_addr *out);
const char *gw_bal_addr_text(const struct gw_bal_addr *a, char text[GW_BAL_ADDR]);
bool gw_bal_addr_same(const struct gw_bal_addr *a, const struct gw_bal_addr *b);

/* HTTP statuses that are good. */
#define GW_BAL_RANGES 8u
#define GW_BAL_PATH   256
struct gw_bal_range {
    uint16_t from, to; /* from 0: none, and none after it */
};

#define GW_BAL_ASK_FIELDS                                                                                    \
    uint8_t kind;                                                                                            \
    uint8_t needs_reply;  /* UDP_CHECK */                                                                    \
    uint8_t dynamic;      /* MISC_CHECK: its status sets the weight */                                       \
    uint16_t port;        /* 0: the worker's */                                                              \
    uint16_t least, most; /* UDP_CHECK: bytes of the answer */                                               \
    uint32_t uid, gid;    /* MISC_CHECK */                                                                   \
    uint64_t timeout_ns;                                                                                     \
    struct gw_bal_addr connect, bind;          /* to where and from where; family 0: the worker, any */      \
    struct gw_bal_range status[GW_BAL_RANGES]; /* HTTP_GET, SSL_GET; none: 200 to 299 */                     \
    char digest[33];                           /* of the body, MD5; "": any */                               \
    char path[GW_BAL_PATH];     /* MISC_CHECK: the program and its words; UDP_CHECK: what is sent, in hex */ \
    char host[GW_BAL_NAME];     /* the virtual host; "": the address; MISC_CHECK: the user, for people */    \
    char model[2 * GW_BAL_NAME] /* RDMA_CHECK: of `gpuwire serve`; UDP_CHECK: the answer, in hex */

/* One thing that is tried. */
struct gw_bal_ask {
    GW_BAL_ASK_FIELDS;
};

/* The check of a worker: all that it asks must go well. The first one's members are the check's own, too. */
struct gw_bal_check {
    union {
        struct gw_bal_ask ask;
        struct {
            GW_BAL_ASK_FIELDS;
        };
    };
    struct gw_bal_ask other[GW_BAL_ASKS - 1];
    uint8_t others;
    uint16_t rise, fall;
    uint64_t interval_ns;
    uint64_t again_ns; /* after a failure of a worker that is up; 0: interval_ns */
};
const struct gw_bal_ask *gw_bal_ask_of(const struct gw_bal_check *c, unsigned i);
bool gw_bal_check_asks(const struct gw_bal_check *c, uint8_t kind);

/* The results of one worker's checks. */
struct gw_bal_health {
    uint8_t up, known;         /* known: at least one check has ended */
    uint8_t busy;              /* one is under way */
    uint16_t good, bad;        /* in a row */
    uint64_t next_ns, last_ns; /* when the next one begins, and when the last one ended; 0: none has */
    uint64_t checks, failures;
    char why[128];      /* why the last one failed */
    uint8_t has_weight; /* a script says how much the worker weighs */
    uint32_t weight;
};

/* A worker's own report. */
struct gw_bal_telemetry {
    uint64_t at_ns;   /* when it came; 0: never */
    uint64_t beat_ns; /* how often it promised to; 0: it did not promise */
    uint32_t queue;   /* requests that wait there */
    uint32_t load;    /* per mille */
    uint64_t bytes;   /* that wait there */
};

/* The data plane's counts for a worker. */
struct gw_bal_counts {
    uint64_t live, opened, packets, bytes;
    uint64_t clients; /* that stick to it */
    uint64_t held; /* beside `live`: what is about to be a connection, and the rest of packets in fragments */
};

struct gw_bal_service;
struct gw_bal_worker {
    struct gw_bal_worker *next, *next_name, *next_place; /* the latter two: index.c's */
    struct gw_bal_service *service;
    uint32_t id; /* the data plane's; no other worker gets it while this one has flows */
    char name[GW_BAL_NAME];
    struct gw_bal_addr addr;
    uint16_t port; /* 0: the service's */
    uint32_t weight;
    uint8_t origin;
    uint8_t drain;                         /* no new flows */
    uint8_t file_drain;                    /* the file said so */
    uint8_t leave;                         /* and gone when the last one has ended */
    uint8_t idle;                          /* it drains, and has no flows */
    uint8_t drain_over;                    /* and longer than it may: its flows go to others */
    uint64_t drain_limit_ns, drain_end_ns; /* drain.h; 0: the service's; not begun, or without an end */
    uint8_t silent;                        /* it had promised to speak, and does not */
    uint8_t sorry;                         /* it serves only while the service has no quorum of others */
    uint8_t inhibit;                       /* when its checks fail, it keeps the flows that it has */
    uint8_t has_check;
    uint8_t shown;             /* the state that gw_bal_tend has seen */
    uint64_t since_ns;         /* when it saw that state first; 0: it has not looked yet */
    uint64_t drain_from;       /* connections that the worker had when its drain began */
    struct gw_bal_check check; /* its own, if has_check; else the service's */
    struct gw_bal_health health;
    struct gw_bal_telemetry telemetry;
    struct gw_bal_counts counts;
    uint32_t pairs;           /* queue pairs that it has told of; pairs.h counts them */
    uint64_t counted;         /* the publication that `counts` knows of */
    uint64_t changed;         /* the publication that carries its state */
    char refused[GW_BAL_WHY]; /* why the data plane cannot run it; "": it can */
};

struct gw_bal_service {
    struct gw_bal_service *next, *next_name, *next_place;
    uint32_t id;
    char name[GW_BAL_NAME];
    struct gw_bal_addr addr;
    uint16_t port; /* 0: any */
    uint8_t protocol, forward, sched, origin;
    uint8_t jet;          /* track only flows whose choice has changed */
    uint32_t persist_s;   /* persistence_timeout: how long clients stick to a worker; 0: they do not */
    uint8_t persist_bits; /* persistence_granularity: the bits of their addresses that count; 0: all */
    uint32_t quorum;      /* the weight of workers that must be up, or the sorry server comes in; 0: 1 */
    uint8_t leave;
    uint64_t drain_limit_ns; /* drain.h; 0: the default */
    struct gw_bal_check check;
    struct gw_bal_worker *workers, *last;
    char refused[GW_BAL_WHY];
};

struct gw_bal_global;
struct gw_bal_index;
struct gw_bal_model {
    struct gw_bal_service *services, *last;
    struct gw_bal_index *index;         /* NULL: nothing is there yet */
    const struct gw_bal_global *global; /* whose network ports count in checks; NULL: they are not known */
    uint64_t version;                   /* counts the changes that the data plane must get */
    uint32_t next_worker, next_service;
    uint64_t file_hash; /* of the configuration that was read last */
    unsigned lost;      /* objects of a state that could not be read, and why the first one could not */
    char lost_why[GW_BAL_WHY];
};

void gw_bal_check_default(struct gw_bal_check *c);
void gw_bal_model_free(struct gw_bal_model *m);
/* The same beside it, ids and health too. -ENOMEM. */
int gw_bal_model_copy(const struct gw_bal_model *from, struct gw_bal_model *out);

/* By name, or as gw_bal_endpoint_text writes it; "/tcp" may be left out. NULL: none, with words. */
struct gw_bal_service *gw_bal_find_service(const struct gw_bal_model *m, const char *name);
/* By name, or address, or address:port. */
struct gw_bal_worker *gw_bal_find_worker(const struct gw_bal_service *s, const char *name);

struct gw_bal_service *gw_bal_service_by_id(const struct gw_bal_model *m, uint32_t id);
struct gw_bal_worker *gw_bal_worker_by_id(const struct gw_bal_model *m, uint32_t id);
/* The one with this address, port and protocol; the worker with this address and port. NULL without words:
 * none. */
struct gw_bal_service *gw_bal_service_at(const struct gw_bal_model *m, const struct gw_bal_service *like);
struct gw_bal_worker *gw_bal_worker_at(const struct gw_bal_model *m, const struct gw_bal_service *s,
                                       const struct gw_bal_addr *addr, uint16_t port);

/* A copy of `s` (without workers) enters the model, with an id of its own. -EEXIST, -EINVAL, -ENOSPC. An
 * empty name becomes one: "tcp-10.0.0.1-80", and "10.0.0.11-80" for a worker. Each is checked by itself;
 * gw_bal_model_check looks at all of them together. */
int gw_bal_add_service(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_service **out);
int gw_bal_add_worker(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_worker *w,
                      struct gw_bal_worker **out);
/* The same, unchecked, with the id that it has had, or GW_BAL_ANY_ID. -EEXIST: that is taken. -ENOSPC. */
#define GW_BAL_ANY_ID UINT32_MAX
int gw_bal_put_service(struct gw_bal_model *m, const struct gw_bal_service *s, uint32_t id,
                       struct gw_bal_service **out);
int gw_bal_put_worker(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_worker *w,
                      uint32_t id, struct gw_bal_worker **out);
/* The object stays where it is, with its id and its workers, and becomes what `as` says. A service keeps its
 * address, port and protocol: else -EINVAL. */
int gw_bal_replace_service(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_service *as);
void gw_bal_replace_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const struct gw_bal_worker *as);
void gw_bal_rename_service(struct gw_bal_model *m, struct gw_bal_service *s, const char *name);
void gw_bal_rename_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const char *name);
/* Is its check gone? Then it counts as up from now on. */
void gw_bal_check_changed(struct gw_bal_model *m, struct gw_bal_worker *w);
/* The service's check; workers that are not checked any more count as up. */
void gw_bal_set_check(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_check *c);
int gw_bal_set_weight(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t weight);
void gw_bal_drain(struct gw_bal_model *m, struct gw_bal_worker *w, bool on);
/* It gets no new flows, and goes when the last one has ended; `now`: its flows end, too. */
void gw_bal_leave(struct gw_bal_model *m, struct gw_bal_service *s, struct gw_bal_worker *w, bool now);
void gw_bal_remove_service(struct gw_bal_model *m, struct gw_bal_service *s);

/* ---- what can run: check.c, which asks the data plane's own src/balance/check.h ---- */

/* Is this service possible, and this worker in it? -EINVAL with the reason, which does not name a file. */
int gw_bal_service_fits(const struct gw_bal_model *m, const struct gw_bal_service *s);
int gw_bal_fits(const struct gw_bal_model *m, const struct gw_bal_service *s, const struct gw_bal_worker *w);
/* The whole of it, and what one object forbids another. -EINVAL with the first reason, -ENOMEM. What is
 * marked as refused already does not count. */
int gw_bal_model_check(const struct gw_bal_model *m);
/* Marks each object that cannot run as refused, and no other. Returns how many there are; -ENOMEM. */
int gw_bal_model_refuse(struct gw_bal_model *m);

enum gw_bal_state gw_bal_state_of(const struct gw_bal_worker *w);
/* Is the weight of those that are up enough? The sorry server does not count. */
bool gw_bal_has_quorum(const struct gw_bal_service *s);
const struct gw_bal_worker *gw_bal_sorry_server(const struct gw_bal_service *s); /* NULL: none */
/* The weight by the file or the API, or by a script since. */
uint32_t gw_bal_weight_of(const struct gw_bal_worker *w);
uint16_t gw_bal_port_of(const struct gw_bal_service *s, const struct gw_bal_worker *w);
const struct gw_bal_check *gw_bal_check_of(const struct gw_bal_service *s, const struct gw_bal_worker *w);

/* Workers that promised to speak and are silent go down, idle ones that drain are
 * noticed, those that leave are gone. `published`: the version that every data core has taken. Returns how
 * many workers changed. */
unsigned gw_bal_tend(struct gw_bal_model *m, uint64_t published, uint64_t now_ns);

/* The running configuration becomes what the file says (`wanted`); what the API and the workers themselves
 * named stays. The new model is made beside the running one, and takes its place if it can run. If not,
 * nothing has changed. Pointers into *m are void afterwards. */
int gw_bal_reconcile(struct gw_bal_model *m, const struct gw_bal_model *wanted);
/* The same at a start, which must not fail because of what the API has added: what does not fit is marked as
 * refused. */
int gw_bal_begin(struct gw_bal_model *m, const struct gw_bal_model *wanted);

/* "10.0.0.1:80/tcp", "[2001:db8::1]:80/tcp"; a worker's without the protocol. */
const char *gw_bal_endpoint_text(const struct gw_bal_service *s, char text[GW_BAL_ENDPOINT]);
const char *gw_bal_worker_text(const struct gw_bal_service *s, const struct gw_bal_worker *w,
                               char text[GW_BAL_ENDPOINT]);
/* "10.0.0.1:80", "[2001:db8::1]:80", "10.0.0.1", "2001:db8::1": port 0 where there is none. 0 or -EINVAL. */
int gw_bal_endpoint_parse(const char *text, struct gw_bal_addr *addr, uint16_t *port);

#endif
