/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd.h: a client of etcd's v3 API, in a loop of conn.h.
 *
 * Who may call: the loop's thread alone, also from inside `done`, but for fleet_etcd_close(). Nothing blocks.
 * Functions return 0 or a negative errno, and say why in gw_last_error().
 *
 * The client keeps one connection. When that is lost, or its member of etcd is silent or has no leader, the
 * client goes on to the next URL. Calls wait until there is a connection, each up to its deadline.
 */
#ifndef GW_FLEET_ETCD_ETCD_H
#define GW_FLEET_ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/conn.h"

struct fleet_etcd;

struct fleet_etcd_opts {
    const char *urls;     /* "http://HOST:PORT,..." or https://, not both; NULL: http://127.0.0.1:2379 */
    const char *user;     /* NULL: etcd asks for none */
    const char *password; /* the user's */
    const char *ca_file;  /* of https; NULL: the system's certificates */
    int64_t silent_ns;    /* a member that answers nothing for longer is left; 0: 0.6 s, with one URL 2 s */
    /* etcd answers, or has not done so for a second: one line for a log. It comes once for each change. NULL
     * is allowed. */
    void (*state)(void *ctx, bool up, const char *line);
    void *ctx;
};

/* -EINVAL: an URL that makes no sense; -EACCES: ca_file cannot be used; -ENOMEM; -EMFILE. */
int fleet_etcd_open(struct fleet_loop *loop, const struct fleet_etcd_opts *opts, struct fleet_etcd **out);
/* Its calls end without a word. Leases must be closed before; etcd hears of it within 0.3 s, or not at all.
 * NULL is allowed. */
void fleet_etcd_close(struct fleet_etcd *e);
bool fleet_etcd_is_up(const struct fleet_etcd *e);

/* ---- keys and values */

struct fleet_etcd_bytes {
    const void *data;
    size_t bytes;
};

struct fleet_etcd_kv {
    struct fleet_etcd_bytes key, value;
    int64_t create, mod, version, lease; /* revisions; how often it was put; 0: on no lease */
};

enum fleet_etcd_what { FLEET_ETCD_GET, FLEET_ETCD_PUT, FLEET_ETCD_DELETE };

struct fleet_etcd_op {
    enum fleet_etcd_what what;
    struct fleet_etcd_bytes key, end; /* end: of a range, which it is not part of; no bytes: one key */
    struct fleet_etcd_bytes value;    /* PUT */
    int64_t lease;                    /* PUT: on it; 0: on none */
    int64_t limit, revision;          /* GET: keys at most, and as of when; 0: all, and now */
    bool serializable;                /* GET: what the member knows will do, even if it is old */
};

struct fleet_etcd_result {
    enum fleet_etcd_what what;
    const struct fleet_etcd_kv *kv; /* GET: by key */
    size_t kvs;
    bool more;     /* GET: the limit cut it */
    int64_t count; /* GET: keys in the range; DELETE: that were deleted */
};

enum fleet_etcd_target {
    FLEET_ETCD_VERSION,
    FLEET_ETCD_CREATE,
    FLEET_ETCD_MOD,
    FLEET_ETCD_VALUE,
    FLEET_ETCD_LEASE
};
enum fleet_etcd_is { FLEET_ETCD_EQUAL, FLEET_ETCD_GREATER, FLEET_ETCD_LESS, FLEET_ETCD_NOT_EQUAL };

/* A key that does not exist has create, mod and version 0. */
struct fleet_etcd_compare {
    struct fleet_etcd_bytes key;
    enum fleet_etcd_target target;
    enum fleet_etcd_is is;
    int64_t number;                /* of all targets but VALUE */
    struct fleet_etcd_bytes value; /* of VALUE */
};

/* All of `compare` hold: does `then`, otherwise `otherwise`; 128 operations each at most, and no key is put
 * twice. */
struct fleet_etcd_txn {
    const struct fleet_etcd_compare *compare;
    size_t compares;
    const struct fleet_etcd_op *then, *otherwise;
    size_t thens, otherwises;
};

struct fleet_etcd_answer {
    int64_t revision;                       /* of the store, after it */
    bool succeeded;                         /* a txn's compares held */
    const struct fleet_etcd_result *result; /* one for each operation */
    size_t results;
    int64_t lease, ttl_s; /* of calls about leases; ttl_s -1: there is no such lease */
};

/*
 * How a call ended. `a` is NULL with an error, and the client's again afterwards. gw_last_error() has the
 * reason.
 *
 *   -ETIMEDOUT, -ECONNRESET, -EAGAIN  it may have been done or not; see fleet_etcd_how.again
 *   -EACCES     etcd refuses the user
 *   -ERANGE     the revision was compacted, or is not there yet
 *   -ENOENT, -EEXIST  of that lease
 *   -ENOSPC     etcd's quota is used up
 *   -EINVAL, -EREMOTEIO, -EPROTO  another refusal; an answer that is none
 */
typedef void fleet_etcd_done(void *ctx, int err, const struct fleet_etcd_answer *a);

struct fleet_etcd_how {
    fleet_etcd_done *done; /* NULL: no one asks */
    void *ctx;
    int64_t deadline_ns; /* from now; 0: 5 s */
    bool again;          /* it may be done twice: so it is sent again when the connection is lost */
};

struct fleet_etcd_call;
/* -ENOMEM or -EINVAL, and then `done` is not called. *call: what fleet_etcd_cancel takes, until `done`; NULL
 * is allowed. Calls of one client may be done in another order than they were made. */
int fleet_etcd_do(struct fleet_etcd *e, const struct fleet_etcd_op *op, const struct fleet_etcd_how *how,
                  struct fleet_etcd_call **call);
int fleet_etcd_txn(struct fleet_etcd *e, const struct fleet_etcd_txn *t, const struct fleet_etcd_how *how,
                   struct fleet_etcd_call **call);
/* A lease of that number, which is not 0. etcd may give it a longer life than asked for. */
int fleet_etcd_grant(struct fleet_etcd *e, int64_t lease, int64_t ttl_s, const struct fleet_etcd_how *how,
                     struct fleet_etcd_call **call);
int fleet_etcd_revoke(struct fleet_etcd *e, int64_t lease, const struct fleet_etcd_how *how,
                      struct fleet_etcd_call **call);
int fleet_etcd_time_to_live(struct fleet_etcd *e, int64_t lease, const struct fleet_etcd_how *how,
                            struct fleet_etcd_call **call);
/* `done` will not be called. It may have been done or not. */
void fleet_etcd_cancel(struct fleet_etcd_call *call);

/* The end of the range of all keys with that prefix: the prefix, which `to` has room for, with its last byte
 * that can be raised raised. */
struct fleet_etcd_bytes fleet_etcd_prefix_end(struct fleet_etcd_bytes prefix, uint8_t *to);
static inline struct fleet_etcd_bytes fleet_etcd_text(const char *text)
{
    return (struct fleet_etcd_bytes){text, __builtin_strlen(text)};
}
bool fleet_etcd_equal(struct fleet_etcd_bytes a, struct fleet_etcd_bytes b);

#endif
