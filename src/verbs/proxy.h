/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h: the thread that works for kernels, one per device and only where it is needed. It is named
 * gw-proxy and does two things: it carries doorbells (doorbell.c), and it reads queues and posts for them
 * (repost.c).
 */
#ifndef GW_VERBS_PROXY_H
#define GW_VERBS_PROXY_H

#include "src/verbs/impl.h"

struct gw_route;
struct gw_repost_cq;
struct gw_repost_qp;

struct gw_proxy {
    struct gw_device *dev;
    pthread_t thread;
    pthread_mutex_t lock; /* all that follows; the thread holds it during a round */
    struct gw_route *routes;
    uint32_t count, room;
    struct gw_repost_cq *cqs;
    struct gw_repost_qp *qps;
    struct ibv_comp_channel *channel; /* of the CQs; NULL before the first one */
    struct gw_piece bell;             /* a word that posters write something into when they ring */
    int wake_fd;
    uint32_t stop, asleep;
};

/* The device's proxy, which is started by the first call. Under dev->lock. 0 or a negative errno with a line.
 */
int gw_proxy_get(struct gw_device *dev, struct gw_proxy **out);

/* One look at everything; true when there was something to do. Under p->lock, as all below. */
bool gw_doorbell_round(struct gw_proxy *p);
/* quiet: completions are not looked for where an event has been asked for. */
bool gw_repost_round(struct gw_proxy *p, bool quiet);
/* Before a sleep: asks for an event at the next completion; true when that had not been done before, so that
 * one may have come in between. After it: takes the events. */
bool gw_repost_arm(struct gw_proxy *p);
void gw_repost_events(struct gw_proxy *p);

#endif
