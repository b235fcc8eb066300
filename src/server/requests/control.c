/* SPDX-License-Identifier: Apache-2.0 */
/* Queues what clients ask to be loaded or unloaded, and tells them how it went. */
#include "src/server/requests/control.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/detail/held.h>

#include "src/door/limit.h"
#include "src/door/log.h"
#include "src/server/worker/repository.h"

struct wish {
    struct wish *next;
    enum gw_control_what what;
    const char *model;
    int (*run)(void *arg, struct gw_infer_error *error);
    void *arg;
    struct gw_infer_error *error; /* of run */
    int over, result;
    char why[512];
};

struct gw_control {
    struct gw_server *server;
    const char *repository;
    pthread_mutex_t lock; /* of the list, and of each wish's outcome */
    pthread_cond_t done;
    struct wish *first, **last;
    int fd, closed;
    struct gw_say_limit said;
};

int gw_control_create(struct gw_server *server, const char *repository, struct gw_control **out)
{
    struct gw_control *c = calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    c->server = server;
    c->repository = repository;
    c->last = &c->first;
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0) {
        int err = -errno;
        free(c);
        return gw_error_errno(err, "model control: cannot make an eventfd");
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->done, NULL);
    *out = c;
    return 0;
}

void gw_control_destroy(struct gw_control *c)
{
    if (!c) return;
    close(c->fd);
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int gw_control_fd(const struct gw_control *c)
{
    return c->fd;
}

/* ---- doing it ---- */

static int infer_control_load(struct gw_control *c, const char *name)
{
    struct gw_repository models;
    int err = gw_repository_scan(c->repository, &models);
    if (err) return err;
    const struct gw_repository_entry *e = NULL;
    for (size_t i = 0; i < models.count && !e; i++)
        if (!strcmp(models.entry[i].name, name)) e = &models.entry[i];
    if (e) {
        struct gw_server_model model = {
            .name = e->name, .version = e->version, .path = e->path, .as_at_start = 1, .replace = 1};
        err = gw_server_add(c->server, &model);
    } else {
        const char *why = "the model repository has no such model";
        for (size_t i = 0; i < models.others; i++)
            if (!strcmp(models.other[i].name, name)) why = models.other[i].why;
        err = gw_error(-EINVAL, "failed to load '%.200s': %s", name, why);
    }
    gw_repository_free(&models);
    return err;
}

/* `run` fills its own error; the result is about the pause. A pause that is not ours goes on. */
static int run_paused(struct gw_control *c, const struct wish *w)
{
    int was_paused = gw_server_is_paused(c->server);
    int err = was_paused ? 0 : gw_server_pause(c->server);
    if (err) return err;
    w->error->text[0] = 0;
    w->run(w->arg, w->error);
    return was_paused ? 0 : gw_server_resume(c->server);
}

static int carry_out(struct gw_control *c, const struct wish *w)
{
    if (w->what == GW_CONTROL_RUN) return run_paused(c, w);
    if (w->what == GW_CONTROL_LOAD) return infer_control_load(c, w->model);
    unsigned version = gw_server_version(c->server, w->model);
    int err = gw_server_remove(c->server, w->model);
    if (version && (!err || err == -EBUSY)) gw_server_miss(c->server, w->model, version, "unloaded");
    return err == -EBUSY ? 0 : err; /* it cannot be found any more; it is freed later */
}

static struct wish *infer_control_take(struct gw_control *c)
{
    GW_ASSERT_HELD(&c->lock);
    struct wish *w = c->first;
    if (w) c->first = w->next;
    if (!c->first) c->last = &c->first;
    return w;
}

static void infer_control_settle(struct gw_control *c, struct wish *w, int result, const char *why)
{
    w->result = result;
    strncpy(w->why, why, sizeof(w->why) - 1);
    w->over = 1;
    pthread_cond_broadcast(&c->done);
}

static void log_wish(struct gw_control *c, const struct wish *w, int result)
{
    const char *what = w->what == GW_CONTROL_LOAD ? "loaded" : "unloaded";
    if (result)
        gw_say(&c->said, "a client wants model %s to be %s: %s", w->model, what, gw_last_error());
    else
        gw_log(GW_LOG_INFO, "model %s is %s, as a client wants", w->model, what);
}

void gw_control_do(struct gw_control *c)
{
    struct wish *w;
    uint64_t count;
    if (read(c->fd, &count, sizeof(count)) < 0) count = 0; /* it was empty */
    pthread_mutex_lock(&c->lock);
    while ((w = infer_control_take(c))) {
        pthread_mutex_unlock(&c->lock); /* who asked waits, so the wish stays */
        int result = carry_out(c, w);
        if (w->what != GW_CONTROL_RUN) log_wish(c, w, result);
        pthread_mutex_lock(&c->lock);
        infer_control_settle(c, w, result, result ? gw_last_error() : "");
    }
    pthread_mutex_unlock(&c->lock);
}

void gw_control_close(struct gw_control *c)
{
    struct wish *w;
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->closed = 1;
    while ((w = infer_control_take(c))) infer_control_settle(c, w, -ESHUTDOWN, "the server is being stopped");
    pthread_mutex_unlock(&c->lock);
}

/* ---- asking for it ---- */

static void infer_control_enlist(struct gw_control *c, struct wish *w)
{
    const uint64_t one = 1;
    *c->last = w;
    c->last = &w->next;
    if (write(c->fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

/* Waits until it is settled. */
static int wish_for(struct gw_control *c, struct wish *w, struct gw_infer_error *error)
{
    pthread_mutex_lock(&c->lock);
    if (c->closed)
        infer_control_settle(c, w, -ESHUTDOWN, "the server is being stopped");
    else
        infer_control_enlist(c, w);
    while (!w->over) pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
    if (!w->result) return 0;
    gw_error(w->result, "%s", w->why);
    return gw_infer_fail_errno(error, w->result);
}

int gw_control_paused(struct gw_control *c, int (*run)(void *arg, struct gw_infer_error *error), void *arg,
                      struct gw_infer_error *error)
{
    struct wish w = {.what = GW_CONTROL_RUN, .run = run, .arg = arg, .error = error};
    if (!c) return run(arg, error);
    if (wish_for(c, &w, error)) return -1;
    return error->text[0] ? -1 : 0;
}

int gw_control_ask(struct gw_control *c, enum gw_control_what what, const char *model,
                   struct gw_infer_error *error)
{
    struct wish w = {.what = what, .model = model};
    if (!c || !c->repository)
        return gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                             "explicit model load / unload is not allowed: the server was started without "
                             "--model-control");
    return wish_for(c, &w, error);
}
