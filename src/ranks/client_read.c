/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does with each frame from the server. */
#include "src/ranks/client_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/ranks/client.h"

void gw_ranks_text_clean(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}

static void text_take(char to[GW_RANKS_TEXT], const uint8_t *body, uint32_t size)
{
    size_t n = size < GW_RANKS_TEXT ? size : GW_RANKS_TEXT - 1;

    memcpy(to, body, n);
    to[n] = 0;
    gw_ranks_text_clean(to);
}

/* One rank has died: notes it and tells the watchers. Who has closed a watcher is forgotten. */
static void dead_note(struct gw_ranks *r, uint32_t rank)
{
    struct gw_ranks_watcher **at = &r->watchers, *w;

    if (rank >= r->size || r->dead[rank]) return;
    r->dead[rank] = 1;
    r->order[r->deaths++] = rank;
    while ((w = *at)) {
        if (write(w->fd, &rank, sizeof(rank)) == sizeof(rank)) { /* this thread takes no SIGPIPE */
            at = &w->next;
            continue;
        }
        *at = w->next;
        close(w->fd);
        free(w);
    }
}

static void read_ready(struct gw_ranks *r, const uint8_t *body, uint32_t size)
{
    uint64_t mine, host;

    if (size != r->size * sizeof(uint64_t)) return;
    memcpy(&mine, body + r->rank * sizeof(mine), sizeof(mine));
    for (uint32_t i = 0; i < r->size; i++) {
        memcpy(&host, body + i * sizeof(host), sizeof(host));
        r->local_size += host == mine;
        r->local_rank += host == mine && i < r->rank;
    }
    r->ready = true;
}

static void read_value(struct gw_ranks *r, const struct gw_ranks_head *head, const uint8_t *body)
{
    struct gw_ranks_ask *a = r->asks;

    while (a && a->id != head->id) a = a->next;
    if (!a || a->done) return; /* its caller has given up */
    a->result = head->err ? -(int64_t)(head->err < 4096 ? head->err : EPROTO) : head->size;
    if (!head->err && head->size) memcpy(a->to, body, head->size < a->room ? head->size : a->room);
    a->done = true;
}

/* body becomes the gather's, if it is one's result. */
static void read_done(struct gw_ranks *r, const struct gw_ranks_head *head, uint8_t **body)
{
    if (!r->gather_sent || r->gather_done) return;
    r->gather_done = true;
    r->gather_err = head->err ? -(int)(head->err < 4096 ? head->err : EPROTO) : 0;
    if (head->err) {
        text_take(r->gather_why, *body, head->size);
        return;
    }
    free(r->gathered);
    r->gathered = *body;
    r->gathered_size = head->size;
    *body = NULL;
}

static void read_frame(struct gw_ranks *r, const struct gw_ranks_head *head, uint8_t **body)
{
    pthread_mutex_lock(&r->lock);
    switch (head->type) {
    case GW_RANKS_SAY_READY: read_ready(r, *body, head->size); break;
    case GW_RANKS_SAY_MISSING: text_take(r->missing, *body, head->size); break;
    case GW_RANKS_SAY_VALUE: read_value(r, head, *body); break;
    case GW_RANKS_SAY_DONE: read_done(r, head, body); break;
    case GW_RANKS_SAY_DEAD: dead_note(r, head->rank); break;
    case GW_RANKS_SAY_REFUSED:
        text_take(r->refused_why, *body, head->size);
        r->refused = 1;
        break;
    }
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->lock);
}

void *gw_ranks_read_run(void *arg)
{
    struct gw_ranks *r = arg;
    struct gw_ranks_head head;
    int err = 0;

    while (!err) {
        uint8_t *body = NULL;

        err = gw_ranks_recv(r->fd, &head, sizeof(head), UINT64_MAX);
        if (!err && (head.magic != GW_RANKS_MAGIC || head.size > GW_RANKS_ROOM)) err = -EPROTO;
        if (!err && !(body = malloc(head.size + 1))) err = -ENOMEM;
        if (!err) err = gw_ranks_recv(r->fd, body, head.size, UINT64_MAX);
        if (!err) read_frame(r, &head, &body);
        free(body);
    }
    pthread_mutex_lock(&r->lock);
    r->lost = true;
    if (!r->leaving && !r->refused) dead_note(r, 0);
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
