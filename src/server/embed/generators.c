/* SPDX-License-Identifier: Apache-2.0 */
/* Generators behind a server's own port. */
#include "src/server/embed/generators.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/generate/host/model.h"
#include "src/generate/openai/door.h"

#define GENERATORS_MOST 64u
#define GENERATORS_NAP  2000u                /* µs between two looks whether all is answered */
#define GENERATORS_STOP UINT64_C(5000000000) /* for the step that runs */
#define GENERATORS_CUT  UINT64_C(1000000000) /* for the last words of what is cut off */

struct gw_generators {
    char *exec, *device;
    uint32_t gpu, threads;
    struct gen_place place; /* once there is a generator */
    struct gen_openai_door *door;
    struct gw_httpd_handler handler;
    struct gen_model *model[GENERATORS_MOST];
    struct gen_service *service[GENERATORS_MOST]; /* the door's */
    uint32_t models;
    int fd; /* an epoll of the workers' descriptors */
};

static int generators_copy(struct gw_generators *g, const struct gw_serving_opts *o)
{
    g->gpu = o->gpu;
    g->threads = o->threads;
    g->exec = strdup(o->exec ? o->exec : "auto");
    g->device = o->device ? strdup(o->device) : NULL;
    return g->exec && (g->device || !o->device) ? 0 : gw_error(-ENOMEM, "serving: no memory");
}

int gw_generators_create(const struct gw_serving_opts *o, struct gw_access *access,
                         struct gw_generators **out)
{
    struct gw_generators *g = calloc(1, sizeof(*g));
    struct gen_openai_opts door = {.access = access, .http = {.max_body = o->max_body}};

    if (!g) return gw_error(-ENOMEM, "serving: no memory");
    door.service = g->service;
    g->fd = epoll_create1(EPOLL_CLOEXEC);
    int err = g->fd < 0 ? gw_error_errno(-errno, "serving: cannot make an epoll") : generators_copy(g, o);
    if (!err) err = gen_openai_make(&door, &g->door, &g->handler);
    if (err)
        gw_generators_destroy(g);
    else
        *out = g;
    return err;
}

void gw_generators_beside(struct gw_generators *g, struct gw_http_door_opts *http)
{
    http->beside = &g->handler;
    http->is_beside = gen_openai_knows;
    http->beside_metrics = gen_openai_metrics_models;
}

static int generators_check(const struct gw_generators *g, const struct gw_serving_generator *m)
{
    if (!m->folder) return gw_error(-EINVAL, "serving: a generator needs a folder");
    if (g->models == GENERATORS_MOST)
        return gw_error(-ENOSPC, "serving: %u generators at most", GENERATORS_MOST);
    return 0;
}

/* Its name is known only when its folder has been opened. */
static int generators_check_name(const struct gw_generators *g, const struct gen_model *m)
{
    for (uint32_t i = 0; i < g->models; i++)
        if (!strcmp(g->model[i]->name, m->name))
            return gw_error(-EEXIST, "there is a generator %s already; give another name", m->name);
    return 0;
}

static int generators_start(struct gw_generators *g, struct gen_model *m)
{
    struct epoll_event event = {.events = EPOLLIN};
    int err = gen_model_start(m);

    if (!err && epoll_ctl(g->fd, EPOLL_CTL_ADD, gen_worker_fd(m->worker), &event))
        err = gw_error_errno(-errno, "model %s: epoll", m->name);
    return err;
}

/* Closes what has been made of a model. The reason stays the one of `err`. */
static int generators_give_up(struct gen_model *m, int err)
{
    char why[512];

    snprintf(why, sizeof(why), "%s", gw_last_error());
    if (m->worker) gen_worker_stop(m->worker, gw_deadline(GENERATORS_STOP));
    if (!gen_model_close(m)) free(m);
    return gw_error(err, "%s", why);
}

int gw_generators_add(struct gw_generators *g, const struct gw_serving_generator *given)
{
    const struct gen_model_opts opts = {.folder = given->folder,
                                        .name = given->name,
                                        .threads = given->threads ? given->threads : g->threads,
                                        .lanes = given->lanes,
                                        .context = given->context,
                                        .max_tokens = given->max_tokens,
                                        .cache_bytes = given->cache_bytes,
                                        .cache_type = given->cache_type,
                                        .slots = 1};
    int err = generators_check(g, given);
    if (!err && !g->place.exec) err = gen_place_open(g->exec, g->gpu, g->device, &g->place);
    if (err) return err;
    struct gen_model *m = calloc(1, sizeof(*m));
    if (!m) return gw_error(-ENOMEM, "serving: no memory");
    err = gen_model_make(&opts, &g->place, m);
    if (!err) err = generators_check_name(g, m);
    if (!err) err = generators_start(g, m);
    if (err) return generators_give_up(m, err);
    g->model[g->models++] = m;
    gen_openai_add(g->door, m->service);
    return 0;
}

int gw_generators_fd(const struct gw_generators *g)
{
    return g->fd;
}

int gw_generators_look(struct gw_generators *g)
{
    for (uint32_t i = 0; i < g->models; i++) {
        const int fd = gen_worker_fd(g->model[i]->worker);
        if (gw_wait_fds(&fd, 1, 0) <= 0) continue;
        int err = gen_worker_stop(g->model[i]->worker, gw_deadline(GENERATORS_STOP));
        return gw_error(err ? err : -EIO, "model %s: its loop has ended: %s", g->model[i]->name,
                        gw_last_error());
    }
    return 0;
}

static bool generators_busy(const struct gw_generators *g)
{
    bool busy = false;
    for (uint32_t i = 0; i < g->models && !busy; i++) busy = gen_model_busy(g->model[i]);
    return busy;
}

static void generators_nap(const struct gw_generators *g, uint64_t end)
{
    while (generators_busy(g) && gw_deadline(0) < end) usleep(GENERATORS_NAP);
}

void gw_generators_drain(struct gw_generators *g, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < g->models; i++) {
        gen_service_drain(g->model[i]->service);
        gen_worker_close(g->model[i]->worker, 1);
    }
    generators_nap(g, deadline_ns);
    if (!generators_busy(g)) return;
    for (uint32_t i = 0; i < g->models; i++) gen_worker_close(g->model[i]->worker, 2);
    generators_nap(g, gw_deadline(GENERATORS_CUT));
}

int gw_generators_destroy(struct gw_generators *g)
{
    int err = 0;
    if (!g) return 0;
    for (uint32_t i = 0; i < g->models; i++)
        gen_worker_stop(g->model[i]->worker, gw_deadline(GENERATORS_STOP));
    while (!err && g->models) {
        err = gen_model_close(g->model[g->models - 1]);
        if (!err) free(g->model[--g->models]);
    }
    if (err) return err;
    if (g->door) gen_openai_close(g->door);
    gen_place_close(&g->place);
    if (g->fd >= 0) close(g->fd);
    free(g->exec);
    free(g->device);
    free(g);
    return 0;
}
