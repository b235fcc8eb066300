/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sessions that were opened over HTTP. An id begins with the number of its entry. */
#include "src/generate/rdma/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/detail/held.h>
#include <gpuwire/error.h>

int gen_table_make(struct gen_table *t, uint32_t entries, uint32_t each)
{
    pthread_mutex_init(&t->lock, NULL);
    t->entries = entries;
    t->each = each;
    t->entry = calloc(entries ? entries : 1, sizeof(*t->entry));
    return t->entry ? 0 : gw_error_errno(-ENOMEM, "generate");
}

void gen_table_free(struct gen_table *t)
{
    free(t->entry);
    pthread_mutex_destroy(&t->lock);
}

/* The rest cannot be guessed. */
static int table_name(uint32_t number, char id[GEN_SESSION_ID])
{
    uint32_t random[3];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return gw_error_errno(-errno, "generate: no random numbers");
    snprintf(id, GEN_SESSION_ID, "%08x%08x%08x%08x", number, random[0], random[1], random[2]);
    return 0;
}

static struct gen_table_entry *table_find(struct gen_table *t, const char *id)
{
    GW_ASSERT_HELD(&t->lock);
    char begin[9] = "";
    if (strlen(id) != GEN_SESSION_ID - 1) return NULL;
    memcpy(begin, id, 8);
    unsigned long number = strtoul(begin, NULL, 16);
    if (number >= t->entries) return NULL;
    struct gen_table_entry *e = &t->entry[number];
    return e->used && !e->opening && !strcmp(e->grant.id, id) ? e : NULL;
}

/* Its session has ended at the worker. */
static void table_forget(struct gen_table_entry *e)
{
    gen_pool_close(gen_worker_pool(e->worker), &e->grant);
    memset(e, 0, sizeof(*e));
}

/* A free entry, with the name of its session; the client's others are counted on the way. */
static int table_take(struct gen_table *t, struct gen_worker *w, const struct gw_http_request *r,
                      struct gen_table_entry **out)
{
    GW_ASSERT_HELD(&t->lock);
    struct gen_table_entry *free = NULL;
    uint32_t has = 0;
    for (uint32_t i = 0; i < t->entries; i++) {
        struct gen_table_entry *e = &t->entry[i];
        if (e->used && !e->opening && !gen_pool_has(gen_worker_pool(e->worker), &e->grant)) table_forget(e);
        if (!e->used) free = e;
        has += e->used && e->worker == w && !strcmp(e->who, r->who);
    }
    if (has >= t->each)
        return gw_error(-EDQUOT, "%s has %u sessions of model %s, as many as one client may", r->who, has,
                        gen_worker_name(w));
    if (!free) return gw_error(-EBUSY, "all sessions are taken; start the server with more --sessions");
    int err = table_name((uint32_t)(free - t->entry), free->grant.id);
    if (err) return err;
    free->used = free->opening = true;
    free->worker = w;
    free->connection = r->connection;
    snprintf(free->who, sizeof(free->who), "%s", r->who);
    *out = free;
    return 0;
}

int gen_table_open(struct gen_table *t, struct gen_worker *w, const struct gen_wish *wish,
                   const struct gw_http_request *r, struct gen_grant *grant)
{
    struct gen_table_entry *e = NULL;
    char id[GEN_SESSION_ID];
    pthread_mutex_lock(&t->lock);
    int err = table_take(t, w, r, &e);
    if (!err) memcpy(id, e->grant.id, sizeof(id));
    pthread_mutex_unlock(&t->lock);
    if (err) return err;
    err = gen_pool_open(gen_worker_pool(w), wish, grant);
    memcpy(grant->id, id, sizeof(id));
    pthread_mutex_lock(&t->lock);
    if (err)
        memset(e, 0, sizeof(*e));
    else
        e->grant = *grant;
    e->opening = false;
    pthread_mutex_unlock(&t->lock);
    return err;
}

int gen_table_keep(struct gen_table *t, const char *id)
{
    pthread_mutex_lock(&t->lock);
    const struct gen_table_entry *e = table_find(t, id);
    bool there = e && gen_pool_has(gen_worker_pool(e->worker), &e->grant);
    pthread_mutex_unlock(&t->lock);
    return there ? 0 : gw_error(-ENOENT, "no such session: it has ended");
}

int gen_table_close(struct gen_table *t, const char *id)
{
    pthread_mutex_lock(&t->lock);
    struct gen_table_entry *e = table_find(t, id);
    if (e) table_forget(e);
    pthread_mutex_unlock(&t->lock);
    return e ? 0 : gw_error(-ENOENT, "no such session: it has ended");
}

void gen_table_close_all_of(struct gen_table *t, const void *connection)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->entries; i++)
        if (t->entry[i].used && !t->entry[i].opening && t->entry[i].connection == connection)
            table_forget(&t->entry[i]);
    pthread_mutex_unlock(&t->lock);
}

bool gen_table_holds(struct gen_table *t, const void *connection)
{
    bool holds = false;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->entries && !holds; i++)
        holds = t->entry[i].used && t->entry[i].connection == connection;
    pthread_mutex_unlock(&t->lock);
    return holds;
}
