/* SPDX-License-Identifier: Apache-2.0 */
/* A generator: made, started, drained, stopped; and the thread that sees to its sessions. */
#include "src/generate/worker/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/worker/worker_impl.h"

#define SOON_MS  2    /* while sessions are being made ready */
#define LATER_MS 1000 /* while clients have sessions: the kernel may have found a broken one */

/* ---- sessions that close and break ---- */

static void *worker_keep_house(void *arg)
{
    struct gen_worker *w = arg;
    struct pollfd fd[] = {{.fd = w->leave_fd, .events = POLLIN},
                          {.fd = gen_pool_news(w->pool), .events = POLLIN}};
    uint32_t left = 0;
    while (!(fd[0].revents & POLLIN)) {
        poll(fd, 2, left ? SOON_MS : LATER_MS);
        left = gen_pool_tend(w->pool);
    }
    return NULL;
}

static int worker_open_house(struct gen_worker *w)
{
    w->leave_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->leave_fd < 0) return gw_error_errno(-errno, "generate: cannot make an eventfd");
    int err = pthread_create(&w->house, NULL, worker_keep_house, w);
    w->housed = !err;
    return err ? gw_error_errno(-err, "generate: cannot start a thread") : 0;
}

static void worker_leave_house(struct gen_worker *w)
{
    const uint64_t one = 1;
    if (!w->housed || write(w->leave_fd, &one, sizeof(one)) < 0) return;
    pthread_join(w->house, NULL);
    w->housed = false;
}

/* ---- its life ---- */

int gen_worker_create(const struct gen_worker_opts *opts, struct gen_worker **out)
{
    struct gen_worker *w = calloc(1, sizeof(*w));
    if (!w) {
        opts->net.ops->free(opts->net.own);
        return gw_error_errno(-ENOMEM, "generate");
    }
    w->opts = *opts;
    w->leave_fd = -1;
    w->name = strdup(opts->name);
    int err = w->name ? gen_worker_choose(w) : gw_error_errno(-ENOMEM, "generate");
    if (!err) err = gen_worker_make(w);
    if (!err) err = worker_open_house(w);
    if (err)
        gen_worker_destroy(w);
    else
        *out = w;
    return err;
}

int gen_worker_start(struct gen_worker *w)
{
    int err = w->started ? gw_loop_restart(w->loop) : gw_loop_start(w->loop);
    w->started |= !err;
    return err;
}

void gen_worker_close(struct gen_worker *w, uint32_t how)
{
    gen_pool_closing(w->pool, how);
}

bool gen_worker_busy(struct gen_worker *w)
{
    struct gen_source_stats s;
    gen_worker_stats(w, &s);
    return s.running || s.waiting;
}

int gen_worker_stop(struct gen_worker *w, uint64_t deadline_ns)
{
    struct gw_loop_end end = {0};
    int err;
    gw_loop_stop(w->loop);
    while ((err = gw_loop_wait(w->loop, deadline_ns, &end)) == -EINTR) continue;
    return err ? err : end.error;
}

int gen_worker_destroy(struct gen_worker *w)
{
    if (!w) return 0;
    int err = w->loop ? gw_loop_destroy(w->loop) : 0;
    if (err) return err; /* it still runs: nothing it uses may go */
    gen_client_destroy(w->client);
    worker_leave_house(w);
    gen_pool_destroy(w->pool);
    w->opts.net.ops->free(w->opts.net.own);
    gw_mem_free(&w->host);
    gw_mem_free(&w->dev);
    gw_mem_free(&w->cache);
    gw_mem_free(&w->logits);
    if (w->leave_fd >= 0) close(w->leave_fd);
    free(w->name);
    free(w);
    return 0;
}

/* ---- what is known of it ---- */

/* The kernel stores words, whole. */
void gen_worker_stats(const struct gen_worker *w, struct gen_source_stats *out)
{
    const struct gen_board *b = w->host.host;
    const uint64_t *from = (const uint64_t *)&b->stats;
    uint64_t *to = (uint64_t *)out;
    for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++) to[i] = gw_ld_relaxed_u64(&from[i]);
}

int gen_worker_fd(const struct gen_worker *w)
{
    return gw_loop_fd(w->loop);
}

const char *gen_worker_name(const struct gen_worker *w)
{
    return w->name;
}

void gen_worker_shape(const struct gen_worker *w, struct gen_source_shape *out)
{
    *out = w->source;
}

void gen_worker_net(const struct gen_worker *w, struct gen_net_shape *out)
{
    *out = w->net;
}

uint64_t gen_worker_cache_bytes(const struct gen_worker *w)
{
    return w->cache_bytes;
}

struct gen_pool *gen_worker_pool(const struct gen_worker *w)
{
    return w->pool;
}

struct gen_client *gen_worker_client(const struct gen_worker *w)
{
    return w->client;
}
