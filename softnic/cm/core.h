/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h: connection management as a passive state machine: identifiers, events and the protocol, without
 * thread, clock or socket. The file service.c drives it; tests drive two of them against each other.
 *
 * Everything here is under cm->lock unless it says otherwise. Functions return 0 or a negative errno.
 *
 * Identifiers are made, found and ended in id.c; ports and their owners are in port.c. For programs there are
 * event.c, connect.c, option.c, attr.c (queue pairs and paths), and addr.c, which binds, resolves and queries
 * addresses. Messages are made and repeated in message.c, and received in input.c. The file origin.c decides
 * which sender may say what, sidr.c is the datagram service's lookup, and timer.c does what is due.
 */
#ifndef SOFTNIC_CM_CORE_H
#define SOFTNIC_CM_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_user_cm.h>

#include "softnic/base/list.h"
#include "softnic/config/config.h"
#include "softnic/nic/nic.h"
#include "src/roce/cm.h"

enum {
    CM_MAX_IDS = 16384, /* of a process: a communication ID has 14 bits for it */
    CM_MAX_EVENTS = 65536,
    CM_MAX_BACKLOG = 1024, /* as Linux: requests that a listener has not been told of */
    /* Of one address: requests that were taken and are neither refused nor a connection yet. Of one
     * process of this host a quarter of that. */
    CM_MAX_HALF_OPEN = CM_MAX_IDS / 4,
    CM_RETRIES = 15,        /* how often a message is repeated, as Linux says in its REQs */
    CM_RETRIES_ASKED = 256, /* and at most, where the peer asks for more time */
    CM_RESPONSE_TIME = 20,  /* 4.096 us * 2^20: within which an answer is promised, as Linux promises it */
    CM_SERVICE_TIME = 24,   /* how much longer it takes once a program has to decide */
    CM_LIFETIME = 16,       /* of a packet, as Linux reckons for RoCE */
    CM_ACK_DELAY = 15,
    CM_HOP_LIMIT = 64,
    CM_UDP_QKEY = 0x01234567, /* RDMA_UDP_QKEY */
};

/* The first repeats come soonest; we give up when Linux would. */
#define CM_REPEAT_MIN_NS 50000000u
#define CM_REPEAT_MAX_NS UINT64_C(4294967296)

/* How long last words are remembered, and how many at most. */
#define CM_KEEP_NS 5000000000u
enum { CM_MAX_KEPT = 1024 };

/* An address of a program, or none (family 0). A wildcard has a GID of zeros. */
struct cm_addr {
    uint16_t family; /* AF_INET, AF_INET6 */
    uint16_t port;
    uint8_t gid[16];
    uint32_t scope;
};

/* enum rdma_cm_event_type of <rdma/rdma_cma.h>, which cannot be included together with the kernel's header.
 */
enum cm_event_type {
    CM_EVENT_ADDR_RESOLVED,
    CM_EVENT_ADDR_ERROR,
    CM_EVENT_ROUTE_RESOLVED,
    CM_EVENT_ROUTE_ERROR,
    CM_EVENT_CONNECT_REQUEST,
    CM_EVENT_CONNECT_RESPONSE,
    CM_EVENT_CONNECT_ERROR,
    CM_EVENT_UNREACHABLE,
    CM_EVENT_REJECTED,
    CM_EVENT_ESTABLISHED,
    CM_EVENT_DISCONNECTED,
    CM_EVENT_DEVICE_REMOVAL,
    CM_EVENT_MULTICAST_JOIN,
    CM_EVENT_MULTICAST_ERROR,
    CM_EVENT_ADDR_CHANGE,
    CM_EVENT_TIMEWAIT_EXIT,
};

enum cm_state {
    CM_IDLE,
    CM_BOUND,
    CM_LISTEN,
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_REQ_SENT,
    CM_REP_RCVD,
    CM_REQ_RCVD,
    CM_REP_SENT,
    CM_ESTABLISHED,
    CM_DREQ_SENT,
    CM_DREQ_RCVD,
    CM_TIMEWAIT,
    CM_SIDR_SENT,
    CM_SIDR_RCVD,
    CM_ENDED, /* rejected, timed out, answered, or timewait is over */
};

/* A program's open rdma_cm device. */
struct cm_file {
    struct sn_link events;
    uint32_t event_count;
    /* two ends of a socket: a byte lies in the program's, fd, while there are events. -1: none */
    int fd, token;
    bool has_token, closed; /* closed: nothing new is made through it */
};

/* A NIC of this process. */
struct cm_nic {
    uint8_t gid[16], slot, mtu;
    uint8_t gid_index; /* of its address in its table */
    uint64_t guid;     /* host order */
    unsigned index;    /* the environment's */
};

/* A port that this process has, against all others at the address. */
struct cm_port {
    struct sn_link link; /* cm->ports */
    uint16_t ps, port;
    const struct cm_nic *nic; /* at whose address; NULL: all of them */
    uint32_t users;           /* ids that have it */
    uint64_t since;           /* when it was taken */
    int claims[SN_MAX_NICS];  /* of the environment, by NIC; -1: none */
};

/* A message's sender. */
struct cm_origin {
    uint8_t gid[16];
    int slot; /* of a process of this host; or one of these */
};
enum {
    /* SN_NO_SLOT: the sender is on another host. CM_FROM_SELF: this process made it up, because no process is
     * there. */
    CM_FROM_SELF = -2,
};

static inline bool cm_is_same_host(const struct cm_origin *from)
{
    return from->slot >= 0;
}

struct cm_id {
    struct cm *cm;
    struct cm_file *file; /* NULL: the program has let go, and the protocol is brought to its end */
    uint32_t handle;
    uint64_t uid;
    enum cm_state state;
    uint16_t ps;
    uint8_t qp_type;
    struct cm_port *port;
    const struct cm_nic *nic; /* whose address it has; NULL: none yet, or it listens at all */
    struct cm_addr src, dst;
    bool reuse, afonly;
    uint8_t tos, lifetime;
    bool has_lifetime;
    uint32_t events_reported, backlog;
    struct cm_id *listener; /* whose CONNECT_REQUEST event has not been read yet */

    /* The connection. */
    uint8_t peer[16];
    bool same_host; /* the peer is a process of this host; known with remote_id */
    uint32_t local_id, remote_id;
    uint64_t tid, end_tid; /* transaction IDs: of the messages that make it, and of those that end it */
    bool active;
    uint64_t service_id;
    uint32_t qpn, remote_qpn, qkey;
    uint32_t psn, remote_psn; /* that we told the peer to begin with; that it told us to */
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry, mtu, ack_timeout, srq,
        traffic_class, hop_limit;
    struct rdma_ucm_ece ece; /* the peer's */

    /* The message that waits for an answer, or the last answer given, to be given again. */
    uint8_t mad[ROCE_MAD_LEN];
    bool has_mad;
    bool last_word; /* that is a REJ or SIDR_REP: nothing comes after it, and no answer */
    bool kept;      /* for its sake; the program has let go */
    uint32_t tries;
    uint64_t patience; /* until then the peer has asked for time: what it is sent is repeated on and on */
    uint64_t wait, deadline; /* SN_NEVER: nothing is due */
};

/* What it lives in. send may lose what it is given. */
struct cm_env {
    void *ctx;
    void (*send)(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                 const uint8_t mad[ROCE_MAD_LEN]);
    /* A port at this NIC's address, against all other processes: a number >= 0, or -EADDRINUSE, others. */
    int (*claim)(void *ctx, const struct cm_nic *nic, uint16_t ps, uint16_t port);
    void (*release)(void *ctx, int claim);
    uint64_t (*now)(void *ctx);
    void (*wake)(void *ctx); /* a deadline is due earlier than cm_tick said */
    /* The address that this host would talk to dgid from; false: it does not know. */
    bool (*source)(void *ctx, const uint8_t dgid[16], uint8_t gid[16]);
    /* Fills `len` bytes that no stranger can guess: 0 or a negative errno. */
    int (*random)(void *ctx, void *to, size_t len);
    void (*warn)(void *ctx, const char *line); /* one line for a person: a stranger may be attacking */
};

struct cm {
    pthread_mutex_t lock;
    struct cm_env env;
    struct cm_nic nics[SN_MAX_NICS];
    unsigned nic_count;              /* 0: not up */
    uint64_t next;                   /* the earliest deadline, or earlier */
    bool leaving;                    /* the process ends, see cm_leave */
    struct cm_id *ids[CM_MAX_IDS];   /* by handle - 1 */
    struct cm_id *conns[CM_MAX_IDS]; /* those that have a communication ID, by its lower bits */
    uint32_t first_free, high, kept;
    struct sn_link ports;
    uint64_t suspects, said_at; /* messages that no honest peer sends; when a line last said so, 0: never */
    uint64_t strays_since;
    uint32_t strays; /* messages about no connection, since then */
};

/* id.c */
void cm_init(struct cm *cm, const struct cm_env *env);
void cm_check(const struct cm *cm); /* for GW_CHECK: do ids, ports and deadlines agree? */
void cm_end(struct cm *cm);         /* frees what is left, and the lock; nothing is sent */
struct cm_id *cm_id_new(struct cm *cm, struct cm_file *file); /* NULL: too many, or out of memory */
void cm_id_free(struct cm_id *id);
struct cm_id *cm_id_find(struct cm *cm, const struct cm_file *file, uint32_t handle);
struct cm_id *cm_id_by_local(struct cm *cm, uint32_t local_id);
/* Gives it a communication ID, PSN and transaction IDs, all hard to guess. 0 or a negative errno. */
int cm_id_begin(struct cm_id *id);
int cm_create(struct cm *cm, struct cm_file *file, const struct rdma_ucm_create_id *cmd, uint32_t *handle);
/* Ends what the program had with it. Returns the number of events it was told. */
uint32_t cm_destroy(struct cm_id *id);
void cm_file_init(struct cm_file *file, int fd, int token);
void cm_file_end(struct cm *cm, struct cm_file *file);
/*
 * The process ends: every peer is told. No message is repeated after the process's end, and it has little
 * time. So pauses between repeats stay short from here on.
 */
void cm_leave(struct cm *cm);
int cm_migrate(struct cm_id *id, struct cm_file *to, uint32_t *events_reported);

/* event.c */
struct cm_event;
struct cm_event *cm_event_new(struct cm_id *id, enum cm_event_type type, int status);
struct rdma_ucm_event_resp *cm_event_resp(struct cm_event *e);
void cm_event_post(struct cm_event *e); /* NULL: nothing happens */
void cm_tell(struct cm_id *id, enum cm_event_type type, int status);
void cm_event_conn(struct cm_event *e, const struct roce_cm *m,
                   uint32_t skip);                              /* private data from skip on */
void cm_event_request(struct cm_event *e, struct cm_id *child); /* e is the listener's */
bool cm_event_take(struct cm_file *file, struct rdma_ucm_event_resp *resp);
void cm_events_drop(struct cm_id *id); /* the unread ones about it */
void cm_events_move(struct cm_id *id, struct cm_file *to);

/* port.c */
int cm_port_take(struct cm_id *id, uint16_t port); /* port 0: any that is free */
void cm_port_give(struct cm_id *id);
bool cm_port_listening(const struct cm_id *id); /* does another id listen on the same one */
/* One to connect from, which others may use too: a number, or a negative errno. */
int cm_port_number(struct cm *cm, uint16_t ps);
/* Does it hold this claim of the environment? */
bool cm_port_claimed(const struct cm_port *port, int claim);
/* The id that listens for a request that came to this NIC. */
/* Was the port bound just before? Then its program may be about to listen. */
bool cm_listens_soon(struct cm *cm, const struct cm_nic *nic, uint64_t service_id);
struct cm_id *cm_listener(struct cm *cm, const struct cm_nic *nic, uint64_t service_id,
                          const struct roce_cma_hdr *h);

/* addr.c */
const struct cm_nic *cm_nic_at(const struct cm *cm, const uint8_t gid[16]); /* NULL: none has it */
int cm_addr_in(struct cm_addr *a, const void *sa, size_t len);              /* -EAFNOSUPPORT, -EINVAL */
size_t cm_addr_out(const struct cm_addr *a, void *sa); /* a sockaddr; its length, 0 for none */
int cm_bind(struct cm_id *id, const struct cm_addr *addr);
int cm_resolve_addr(struct cm_id *id, const struct cm_addr *src, const struct cm_addr *dst);
int cm_resolve_route(struct cm_id *id);
/* Where its peer is on the wire; it has a NIC. */
void cm_target(const struct cm_id *id, uint8_t gid[16]);

/* message.c */
void cm_say(struct cm_id *id, struct roce_cm *m); /* once */
void cm_ask(struct cm_id *id, struct roce_cm *m); /* until the deadline is changed */
void cm_say_again(struct cm_id *id);
void cm_deadline(struct cm_id *id, uint64_t in_ns); /* SN_NEVER: none */
uint64_t cm_time_ns(uint32_t exponent);
void cm_send_mra(struct cm_id *id, enum roce_cm_about about);
void cm_send_rej(struct cm_id *id, enum roce_cm_about about, uint32_t reason, const void *data, uint32_t len);
void cm_send_dreq(struct cm_id *id);
void cm_send_drep(struct cm_id *id);
void cm_refuse(struct cm *cm, const struct cm_nic *nic, const uint8_t *to, const struct roce_cm *m,
               uint32_t reason);
void cm_timewait(struct cm_id *id);

/* connect.c */
int cm_listen(struct cm_id *id, uint32_t backlog);
int cm_connect(struct cm_id *id, const struct rdma_ucm_connect *cmd);
int cm_accept(struct cm_id *id, const struct rdma_ucm_accept *cmd);
int cm_reject(struct cm_id *id, const struct rdma_ucm_reject *cmd);
int cm_disconnect(struct cm_id *id);
int cm_notify(struct cm_id *id, uint32_t event);

/* sidr.c */
int cm_sidr_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p);
int cm_sidr_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p);
void cm_sidr_answer(struct cm_id *id, uint32_t status, const struct rdma_ucm_conn_param *p);
void cm_sidr_input(struct cm *cm, const struct cm_nic *nic, const struct cm_origin *from,
                   const struct roce_cm *m);

/* input.c */
/* A message that came to one of our addresses; zeros if the address is not known: then requests are not ours.
 */
void cm_input(struct cm *cm, const uint8_t at[16], const struct cm_origin *from,
              const uint8_t mad[ROCE_MAD_LEN]);
struct cm_id *cm_child(struct cm_id *listener, const struct cm_nic *nic, const struct cm_origin *from,
                       const struct roce_cm *m, const struct roce_cma_hdr *h);
void cm_child_tell(struct cm_id *listener, struct cm_id *id, const struct roce_cm *m);

/* origin.c: each refusal is counted, and said in a line now and then. */
/* Does a REQ or SIDR_REQ name what is its sender's? If not it is dropped. */
bool cm_request_is_its_own(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m);
/* NULL: the message may be from the connection's peer. Otherwise the text says what shows that it is not. */
const char *cm_not_its_peers(const struct cm_id *id, const struct cm_origin *from, const struct roce_cm *m);
/* Has its sender too many requests under way for one more? */
bool cm_too_many(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m);
/* A message that no honest peer would have sent; and one about no connection, because those may just be late.
 */
void cm_suspect(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m, const char *why);
void cm_suspect_stray(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m);

/* attr.c */
int cm_qp_attr(struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *attr);
void cm_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *ah);
void cm_query_route(struct cm_id *id, struct rdma_ucm_query_route_resp *r);
void cm_query_addr(struct cm_id *id, struct rdma_ucm_query_addr_resp *r);
void cm_query_gid(struct cm_id *id, struct rdma_ucm_query_addr_resp *r);
void cm_query_path(struct cm_id *id, struct ib_path_rec_data *path, uint32_t *count);

/* option.c: value holds the first CM_OPTION_ROOM bytes of what is len bytes long. */
enum { CM_OPTION_ROOM = 8 };
int cm_set_option(struct cm_id *id, uint32_t level, uint32_t name, const uint8_t *value, uint32_t len);

/* timer.c: does what is due; returns the next time that something is, or SN_NEVER. */
uint64_t cm_tick(struct cm *cm);

#endif
