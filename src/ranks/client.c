/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's connection to the server: hello, sending, and its end. */
#include "src/ranks/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "src/ranks/address.h"
#include "src/ranks/client_read.h"

#define ANSWER_NS UINT64_C(5000000000) /* a server answers a hello within this time */

struct gw_ranks *gw_ranks_client_new(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r = calloc(1, sizeof(*r));
    pthread_condattr_t attr;

    if (!r) return NULL;
    r->fd = -1;
    r->rank = rank;
    r->size = size;
    r->dead = calloc(size, sizeof(*r->dead));
    r->order = calloc(size, sizeof(*r->order));
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->cond, &attr);
    pthread_condattr_destroy(&attr);
    if (r->dead && r->order) return r;
    gw_ranks_client_free(r, 0);
    return NULL;
}

bool gw_ranks_client_wait(struct gw_ranks *r, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};

    return pthread_cond_timedwait(&r->cond, &r->lock, &until) != ETIMEDOUT;
}

int gw_ranks_client_lost(struct gw_ranks *r)
{
    if (r->refused) return gw_error(-ECONNRESET, "%s", r->refused_why);
    return gw_error(-ECONNRESET, "rank 0 is dead, or the way to it is");
}

int gw_ranks_client_send(struct gw_ranks *r, const struct gw_ranks_head *head, const void *body,
                         uint64_t deadline_ns)
{
    bool begun = false;
    int err;

    pthread_mutex_lock(&r->lock);
    while (r->sending && !r->lost)
        if (!gw_ranks_client_wait(r, deadline_ns)) break;
    err = r->lost ? gw_ranks_client_lost(r) : r->sending ? gw_error(-ETIMEDOUT, "rank 0 takes nothing") : 0;
    if (!err) r->sending = true;
    pthread_mutex_unlock(&r->lock);
    if (err) return err;
    err = gw_ranks_send(r->fd, head, body, deadline_ns, &begun);
    if (err && begun) shutdown(r->fd, SHUT_RDWR); /* half a frame: nothing can follow */
    pthread_mutex_lock(&r->lock);
    r->sending = false;
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->lock);
    if (!err) return 0;
    return err == -ETIMEDOUT ? gw_error(err, "rank 0 takes nothing") : gw_error_errno(-ECONNRESET, "rank 0");
}

static int hello_answer(struct gw_ranks *r, const struct gw_ranks_head *head, uint64_t deadline_ns)
{
    char why[GW_RANKS_TEXT] = "";
    uint32_t n = head->size < sizeof(why) ? head->size : (uint32_t)sizeof(why) - 1;
    int err = head->err == EACCES ? -EACCES : -EPROTO;

    if (head->magic != GW_RANKS_MAGIC)
        return gw_error(-EPROTO, "what listens at the rendezvous is no rank 0");
    if (head->type == GW_RANKS_SAY_WELCOME && !head->size) return 0;
    if (head->type != GW_RANKS_SAY_REFUSED) return gw_error(-EPROTO, "rank 0 speaks another version");
    gw_ranks_recv(r->fd, why, n, deadline_ns); /* the reason is worth having, and no more */
    gw_ranks_text_clean(why);
    return gw_error(err, "%s", why);
}

int gw_ranks_client_hello(struct gw_ranks *r, const char *secret, uint64_t deadline_ns)
{
    struct gw_ranks_hello hello = {.host = gw_ranks_host(), .size = r->size};
    struct gw_ranks_head head = {
        .magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_HELLO, .rank = r->rank, .size = sizeof(hello)};
    uint64_t soon = gw_ranks_now() + ANSWER_NS;
    bool begun;
    int err;

    if (soon > deadline_ns) soon = deadline_ns;
    strcpy(hello.secret, secret);
    err = gw_ranks_send(r->fd, &head, &hello, soon, &begun);
    if (!err) err = gw_ranks_recv(r->fd, &head, sizeof(head), soon);
    return err ? -EAGAIN : hello_answer(r, &head, soon);
}

static int start_wait(struct gw_ranks *r, uint64_t deadline_ns)
{
    int err = 0;

    pthread_mutex_lock(&r->lock);
    while (!err && !r->ready) {
        if (r->deaths)
            err = gw_error(-ECONNRESET, "rank %u died before all had joined", r->order[0]);
        else if (r->lost)
            err = gw_ranks_client_lost(r);
        else if (!gw_ranks_client_wait(r, deadline_ns) && !r->ready)
            err = gw_error(-ETIMEDOUT, "rank %s has not joined", r->missing[0] ? r->missing : "(some)");
    }
    pthread_mutex_unlock(&r->lock);
    return err;
}

int gw_ranks_client_start(struct gw_ranks *r, uint64_t deadline_ns)
{
    sigset_t all, before;
    int err;

    sigfillset(&all); /* the program's own threads handle its signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = -pthread_create(&r->thread, NULL, gw_ranks_read_run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) return gw_error_errno(err, "rendezvous: thread");
    pthread_setname_np(r->thread, "gw-ranks");
    r->has_thread = true;
    return start_wait(r, deadline_ns);
}

void gw_ranks_client_free(struct gw_ranks *r, uint64_t deadline_ns)
{
    if (r->has_thread) {
        pthread_mutex_lock(&r->lock);
        while (!r->lost && gw_ranks_client_wait(r, deadline_ns)) /* the server closes on LEAVE */
            ;
        pthread_mutex_unlock(&r->lock);
        shutdown(r->fd, SHUT_RDWR); /* ends the thread in any case */
        pthread_join(r->thread, NULL);
    }
    while (r->watchers) {
        struct gw_ranks_watcher *w = r->watchers;

        r->watchers = w->next;
        close(w->fd);
        free(w);
    }
    while (r->names) {
        struct gw_ranks_name *n = r->names;

        r->names = n->next;
        free(n);
    }
    if (r->fd >= 0) close(r->fd);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->lock);
    free(r->gathered);
    free(r->order);
    free(r->dead);
    free(r);
}
