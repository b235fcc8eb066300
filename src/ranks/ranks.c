/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire/ranks.h: publish, look up, fence, and who is dead. */
#include <gpuwire/ranks.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/ranks/client.h"

#define SEND_NS UINT64_C(30000000000) /* after this time a rank 0 that takes nothing counts as dead */

uint32_t gw_ranks_rank(const struct gw_ranks *ranks)
{
    return ranks->rank;
}

uint32_t gw_ranks_size(const struct gw_ranks *ranks)
{
    return ranks->size;
}

uint32_t gw_ranks_local_rank(const struct gw_ranks *ranks)
{
    return ranks->local_rank;
}

uint32_t gw_ranks_local_size(const struct gw_ranks *ranks)
{
    return ranks->local_size;
}

uint32_t gw_ranks_how(const struct gw_ranks *ranks)
{
    return ranks->how;
}

static int key_check(const char *key)
{
    size_t n = strlen(key);

    if (n && n < GW_RANKS_KEY) return 0;
    return gw_error(-EINVAL, "a key has 1 to %u bytes, this one %zu", GW_RANKS_KEY - 1, n);
}

int gw_ranks_publish(struct gw_ranks *ranks, const char *key, const void *value, size_t size)
{
    struct gw_ranks_head head = {
        .magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_PUBLISH, .size = (uint32_t)(GW_RANKS_KEY + size)};
    char *body;
    int err = key_check(key);

    if (err) return err;
    if (size > GW_RANKS_VALUE) return gw_error(-EINVAL, "%s: %zu bytes are too many for a value", key, size);
    body = calloc(1, GW_RANKS_KEY + size);
    if (!body) return gw_error(-ENOMEM, "%s: no memory", key);
    strcpy(body, key);
    if (size) memcpy(body + GW_RANKS_KEY, value, size);
    err = gw_ranks_client_send(ranks, &head, body, gw_ranks_now() + SEND_NS);
    free(body);
    return err;
}

static void ask_unlink(struct gw_ranks *r, const struct gw_ranks_ask *ask)
{
    struct gw_ranks_ask **at = &r->asks;

    while (*at != ask) at = &(*at)->next;
    *at = ask->next;
}

/* Waits for the answer. With the lock held. */
static int64_t ask_wait(struct gw_ranks *r, struct gw_ranks_ask *ask, uint64_t deadline_ns)
{
    while (!ask->done && !r->lost)
        if (!gw_ranks_client_wait(r, deadline_ns)) break;
    if (ask->done) return ask->result;
    return r->lost ? -ECONNRESET : -ETIMEDOUT;
}

static int64_t lookup_error(struct gw_ranks *r, uint32_t rank, const char *key, int64_t err)
{
    if (err == -ETIMEDOUT) return gw_error(-ETIMEDOUT, "rank %u has not published %s", rank, key);
    if (err == -ESRCH) return gw_error(-ESRCH, "rank %u is gone, and has not published %s", rank, key);
    if (err == -EBUSY) return gw_error(-EBUSY, "this process waits for too many values");
    return err == -ECONNRESET ? gw_ranks_client_lost(r) : gw_error((int)err, "rank 0 cannot look up %s", key);
}

int64_t gw_ranks_lookup(struct gw_ranks *ranks, uint32_t rank, const char *key, void *value, size_t size,
                        uint64_t deadline_ns)
{
    struct gw_ranks_ask ask = {.to = value, .room = size};
    struct gw_ranks_head head = {
        .magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_LOOKUP, .rank = rank, .size = GW_RANKS_KEY};
    char body[GW_RANKS_KEY] = "";
    int64_t n = key_check(key);

    if (n) return n;
    if (rank >= ranks->size) return gw_error(-EINVAL, "rank %u of %u: ranks begin at 0", rank, ranks->size);
    strcpy(body, key);
    pthread_mutex_lock(&ranks->lock);
    head.id = ask.id = ranks->next_id++;
    ask.next = ranks->asks;
    ranks->asks = &ask;
    pthread_mutex_unlock(&ranks->lock);
    n = gw_ranks_client_send(ranks, &head, body, deadline_ns);
    pthread_mutex_lock(&ranks->lock);
    if (!n) {
        n = ask_wait(ranks, &ask, deadline_ns);
        if (n < 0) n = lookup_error(ranks, rank, key, n);
    }
    ask_unlink(ranks, &ask);
    pthread_mutex_unlock(&ranks->lock);
    return n;
}

/* ---- fences -------------------------------------------------------------------------------------------- */

/* Waits for the server's word. With the lock held. */
static int gather_wait(struct gw_ranks *r, uint64_t deadline_ns)
{
    while (!r->gather_done && !r->lost)
        if (!gw_ranks_client_wait(r, deadline_ns)) break;
    if (!r->gather_done)
        return r->lost ? gw_ranks_client_lost(r)
                       : gw_error(-ETIMEDOUT, "rank %s has not come", r->missing[0] ? r->missing : "(some)");
    r->gather_sent = r->gather_done = false;
    return r->gather_err ? gw_error(r->gather_err, "%s", r->gather_why) : 0;
}

static int gather_begin(struct gw_ranks *r)
{
    int err = 0;

    pthread_mutex_lock(&r->lock);
    if (r->in_gather)
        err = gw_error(-EBUSY, "another thread is in a fence");
    else
        r->in_gather = true;
    pthread_mutex_unlock(&r->lock);
    return err;
}

int gw_ranks_gather(struct gw_ranks *ranks, const void *mine, size_t size, void *all, uint64_t deadline_ns)
{
    struct gw_ranks_head head = {
        .magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_GATHER, .size = (uint32_t)size};
    bool again;
    int err;

    if (size > GW_RANKS_VALUE || size * ranks->size > GW_RANKS_ROOM)
        return gw_error(-EINVAL, "%zu bytes from each of %u ranks are too many", size, ranks->size);
    err = gather_begin(ranks);
    if (err) return err;
    pthread_mutex_lock(&ranks->lock);
    again = ranks->gather_sent; /* the last call has only given up waiting */
    ranks->gather_sent = true;
    if (!again) ranks->missing[0] = 0;
    pthread_mutex_unlock(&ranks->lock);
    if (!again) err = gw_ranks_client_send(ranks, &head, mine, deadline_ns);
    pthread_mutex_lock(&ranks->lock);
    if (err)
        ranks->gather_sent = false;
    else
        err = gather_wait(ranks, deadline_ns);
    if (!err && ranks->gathered_size != size * ranks->size)
        err = gw_error(-EPROTO, "the ranks brought another size");
    if (!err && size) memcpy(all, ranks->gathered, ranks->gathered_size);
    ranks->in_gather = false;
    pthread_mutex_unlock(&ranks->lock);
    return err;
}

int gw_ranks_fence(struct gw_ranks *ranks, uint64_t deadline_ns)
{
    return gw_ranks_gather(ranks, NULL, 0, NULL, deadline_ns);
}

/* ---- deaths -------------------------------------------------------------------------------------------- */

bool gw_ranks_is_dead(const struct gw_ranks *ranks, uint32_t rank)
{
    struct gw_ranks *r = (struct gw_ranks *)(uintptr_t)ranks;
    bool dead;

    pthread_mutex_lock(&r->lock);
    dead = rank < r->size && r->dead[rank];
    pthread_mutex_unlock(&r->lock);
    return dead;
}

uint32_t gw_ranks_dead(const struct gw_ranks *ranks, uint32_t *list, uint32_t n)
{
    struct gw_ranks *r = (struct gw_ranks *)(uintptr_t)ranks;
    uint32_t deaths;

    pthread_mutex_lock(&r->lock);
    deaths = r->deaths;
    if (n) memcpy(list, r->order, sizeof(*list) * (n < deaths ? n : deaths));
    pthread_mutex_unlock(&r->lock);
    return deaths;
}

int gw_ranks_watch(struct gw_ranks *ranks)
{
    struct gw_ranks_watcher *w = calloc(1, sizeof(*w));
    int fd[2];

    if (!w || pipe2(fd, O_CLOEXEC)) { /* every rank's death fits into one */
        int err = w ? -errno : -ENOMEM;

        free(w);
        return gw_error_errno(err, "watching ranks");
    }
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    w->fd = fd[1];
    pthread_mutex_lock(&ranks->lock);
    for (uint32_t i = 0; i < ranks->deaths; i++)
        if (write(w->fd, &ranks->order[i], sizeof(uint32_t)) < 0) break;
    w->next = ranks->watchers;
    ranks->watchers = w;
    pthread_mutex_unlock(&ranks->lock);
    return fd[0];
}
