/* SPDX-License-Identifier: Apache-2.0 */
/*
 * election.h: one leader among many candidates, by a key on a lease.
 *
 * The candidate that creates the key leads. The key's create revision is the term: it grows from leader to
 * leader. A leader whose lease could not be renewed in time considers itself none before etcd can end the
 * lease. Writes name the term, and etcd does them only while the key has that create revision. So an old
 * leader that has not noticed yet changes nothing.
 */
#ifndef GW_FLEET_ETCD_ELECTION_H
#define GW_FLEET_ETCD_ELECTION_H

#include "src/fleet/etcd/etcd.h"

struct fleet_etcd_election;

struct fleet_etcd_election_handler {
    void (*leads)(void *ctx, uint64_t term);
    /* It leads no more, or cannot be sure of it. `leads` may follow, even with the same term: then no other
     * has led. */
    void (*lost)(void *ctx, uint64_t term, const char *why);
    /* It cannot campaign, for a reason that time alone does not mend. NULL is allowed. */
    void (*refused)(void *ctx, const char *why);
};

struct fleet_etcd_election_opts {
    const char *key, *value; /* `value` says who leads */
    const char *writes;      /* a key that numbers the leader's writes */
    int64_t ttl_s;
    int64_t margin_ns; /* it is sure until this long before its lease ends; 0: a seventh of the lease */
};

/* Campaigns until it is closed. -ENOMEM. */
int fleet_etcd_election_open(struct fleet_etcd *e, const struct fleet_etcd_election_opts *opts,
                             const struct fleet_etcd_election_handler *handler, void *ctx,
                             struct fleet_etcd_election **out);
/* Gives leadership up, and calls nothing. NULL is allowed. Not from inside its handler. */
void fleet_etcd_election_close(struct fleet_etcd_election *el);
/* The term, while it is sure to lead; otherwise 0. */
uint64_t fleet_etcd_election_term(const struct fleet_etcd_election *el);

/*
 * PUT or DELETE of one key, while we lead. Writes are done once each, in their order, many at a time.
 * `done`: 0; -ESTALE: another leads; it was not done. Other errors are those of fleet_etcd_done. -EPERM: we
 * do not lead; -ENOMEM; and then `done` is not called.
 */
int fleet_etcd_election_write(struct fleet_etcd_election *el, const struct fleet_etcd_op *op,
                              void (*done)(void *ctx, int err), void *ctx);

#endif
