/* SPDX-License-Identifier: Apache-2.0 */
/* The table of open sessions: each has a client and a connection. Any thread. */
#ifndef GW_GENERATE_RDMA_TABLE_H
#define GW_GENERATE_RDMA_TABLE_H

#include <pthread.h>

#include "src/door/httpd.h"
#include "src/door/who.h"
#include "src/generate/worker/worker.h"

struct gen_table_entry {
    bool used, opening;
    struct gen_worker *worker;
    const void *connection;
    struct gen_grant grant;
    char who[GW_WHO_TEXT];
};

struct gen_table {
    pthread_mutex_t lock;
    struct gen_table_entry *entry; /* one for each session that there may be */
    uint32_t entries, each;
};

int gen_table_make(struct gen_table *t, uint32_t entries, uint32_t each);
void gen_table_free(struct gen_table *t);

/* Opens a session of the worker's; grant->id is its name. As gen_pool_open, and -EDQUOT: the client has all
 * that one may have. */
int gen_table_open(struct gen_table *t, struct gen_worker *w, const struct gen_wish *wish,
                   const struct gw_http_request *r, struct gen_grant *grant);
/* 0; -ENOENT: there is no such session any more. */
int gen_table_keep(struct gen_table *t, const char *id);
int gen_table_close(struct gen_table *t, const char *id);
void gen_table_close_all_of(struct gen_table *t, const void *connection);
bool gen_table_holds(struct gen_table *t, const void *connection);

#endif
