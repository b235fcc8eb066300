/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that post_bench posts, and the calls that post them. */
#ifndef GW_BENCH_POST_WAYS_H
#define GW_BENCH_POST_WAYS_H

#include "bench/post_side.h"

#define BURST   256u /* requests */
#define BBS     4u   /* WQEBBs of the longest of them, at most */
#define LIST    32u
#define MOST    (1u << 20)
#define INLINED 64u

struct work {
    const char *name;
    enum ibv_wr_opcode opcode;
    uint32_t length, inlined, list; /* list: requests with one doorbell */
    struct ibv_sge sge;
    struct ibv_send_wr wr[LIST];
};

/* Makes the requests that w describes: from `from` to MOST after it. */
void work_prepare(struct work *w, void *from);

/* Posts n requests, and returns 0 or an errno value. */
typedef int way(struct side *s, struct work *w, uint32_t n);

enum { IBV, TYPED, TICKETS, COMPATIBLE, WAYS };
extern const struct post_way {
    const char *name;
    way *way;
} ways[WAYS];

/* One burst into an emptied queue, nanoseconds for a request. *count: the WQEBBs that the record counts
 * then. */
double post_burst(struct side *s, struct work *w, unsigned how, uint32_t *count);

/* The same by several threads (2 to POST_THREADS) at once, and by each call, as a table. */
#define POST_THREADS 32u
void post_several(struct gw_device *dev, void *from, uint32_t threads, uint32_t rounds);

#endif
