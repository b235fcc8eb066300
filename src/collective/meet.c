/* SPDX-License-Identifier: Apache-2.0 */
/* How the members of a communicator learn each other's queue pairs and memory, and connect. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/collective/comm.h"

/* What a member tells the others; after it the endpoints of its queue pairs: [peer * blocks + block]. */
struct meet_card {
    uint32_t version, size, blocks, small, large, immediate, way, registrations;
    uint64_t front, words, recv_small, recv_large; /* addresses as the NIC names them */
    uint32_t small_rkey, large_rkey;
};

static int meet_key(const struct gw_comm *c, const char *what, char key[GW_RANKS_KEY])
{
    snprintf(key, GW_RANKS_KEY, "gw-comm/%s/%s", c->name, what);
    return 0;
}

static int meet_lookup(struct gw_comm *c, uint32_t peer, const char *key, void *to, size_t size,
                       uint64_t deadline_ns)
{
    int64_t n = gw_ranks_lookup(c->ranks, c->members[peer], key, to, size, deadline_ns);

    if (n == (int64_t)size) return 0;
    if (n == -ESRCH) return gw_error(-ECONNRESET, "communicator: rank %u is gone", c->members[peer]);
    if (n >= 0) return gw_error(-EPROTO, "communicator: rank %u has other attributes", c->members[peer]);
    return (int)n;
}

int gw_comm_tell_all(struct gw_comm *c, const char *what, const void *mine, size_t size, void *all,
                     uint64_t deadline_ns)
{
    char key[GW_RANKS_KEY];
    int err = meet_key(c, what, key);

    err = gw_ranks_publish(c->ranks, key, mine, size);
    for (uint32_t i = 0; i < c->size && !err; i++)
        err = meet_lookup(c, i, key, (uint8_t *)all + i * size, size, deadline_ns);
    return err;
}

static size_t card_size(const struct gw_comm *c)
{
    return sizeof(struct meet_card) + (size_t)c->size * c->blocks * sizeof(struct gw_endpoint);
}

static void card_fill(const struct gw_comm *c, struct meet_card *card)
{
    struct gw_endpoint *ep = (struct gw_endpoint *)(card + 1);
    const uint8_t *small = c->small.dev, *large = c->large.dev;

    *card = (struct meet_card){.version = GW_COMM_VERSION,
                               .size = c->size,
                               .blocks = c->blocks,
                               .small = c->h.small,
                               .large = c->h.large,
                               .immediate = c->h.immediate,
                               .way = c->attr.way,
                               .front = c->small_mr->addr,
                               .words = c->small_mr->addr + (uint64_t)((uint8_t *)c->h.words - small),
                               .recv_small = c->small_mr->addr + (uint64_t)(c->h.recv_small - small),
                               .recv_large = c->large_mr->addr + (uint64_t)(c->h.recv_large - large),
                               .small_rkey = c->small_mr->rkey,
                               .large_rkey = c->large_mr->rkey};
    for (uint32_t i = 0; i < c->size; i++)
        for (uint32_t b = 0; b < c->blocks && i != c->rank; b++)
            gw_qp_endpoint(c->qp[(uint64_t)b * c->size + i], &ep[i * c->blocks + b]);
}

/* Connects all blocks' queue pairs to one peer, and notes where its memory for us is. */
static int peer_connect(struct gw_comm *c, uint32_t peer, const struct meet_card *theirs)
{
    const struct gw_endpoint *ep = (const struct gw_endpoint *)(theirs + 1);
    int err = 0;

    if (theirs->version != GW_COMM_VERSION || theirs->size != c->size || theirs->blocks != c->blocks ||
        theirs->small != c->h.small || theirs->large != c->h.large || theirs->immediate != c->h.immediate ||
        theirs->way != c->attr.way)
        return gw_error(-EPROTO, "communicator: rank %u has other attributes", c->members[peer]);
    for (uint32_t b = 0; b < c->blocks && !err; b++) {
        struct gw_qp *qp = c->qp[(uint64_t)b * c->size + peer];
        uint64_t mine = (uint64_t)b * c->size + c->rank; /* the place of our pipe over there */

        err = gw_qp_connect(qp, &ep[c->rank * c->blocks + b], NULL);
        c->pipe[(uint64_t)b * c->size + peer] = (struct gw_pipe_){
            .qp = gw_qp_handle(qp),
            .there_words = theirs->words + mine * sizeof(struct gw_coll_words_),
            .there_front = theirs->front,
            .there_small = theirs->recv_small + gw_slot_at_(mine, 0, c->h.small),
            .there_large = theirs->recv_large + gw_slot_at_(mine, 0, c->h.large),
            .small_rkey = theirs->small_rkey,
            .large_rkey = theirs->large_rkey,
        };
    }
    return err;
}

int gw_comm_meet(struct gw_comm *c, uint64_t deadline_ns)
{
    size_t size = card_size(c);
    struct meet_card *mine = calloc(1, size), *theirs = calloc(1, size);
    char key[GW_RANKS_KEY];
    uint8_t ready[GW_COMM_MAX_RANKS];
    int err = mine && theirs ? 0 : gw_error(-ENOMEM, "communicator: no memory");

    if (!err) {
        card_fill(c, mine);
        meet_key(c, "card", key);
        err = gw_ranks_publish(c->ranks, key, mine, size);
    }
    for (uint32_t i = 0; i < c->size && !err; i++) {
        if (i == c->rank) continue;
        err = meet_lookup(c, i, key, theirs, size, deadline_ns);
        if (!err) err = peer_connect(c, i, theirs);
    }
    free(mine);
    free(theirs);
    if (!err) err = gw_comm_memory_publish(c);
    /* Nothing may be sent before the peer's queue pairs receive. */
    return err ? err : gw_comm_tell_all(c, "ready", "", 1, ready, deadline_ns);
}
