/* SPDX-License-Identifier: Apache-2.0 */
#include "src/infer/watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/serve/limit.h"
#include "src/serve/log.h"
#include "src/serve/repository.h"

#define SETTLE_NS 300000000u   /* between the two looks that must find the same */
#define LOOK_NS   15000000000u /* without news: as often as Triton looks */
#define EVENTS                                                                                               \
    (IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |     \
     IN_ONLYDIR)

/* The repository at one moment. */
struct state {
    struct gw_repository models;
    uint64_t *print; /* of each model: another one when a file of its version's folder is another */
};

struct gw_watch {
    const char *repository, *only;
    int inotify_fd, timer_fd, fd;
    struct state seen, used; /* at the last look; when something was last done about it */
    struct gw_say_limit said;
};

/* ---- a look ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* Of one file: what changes when somebody writes it, or puts another one in its place. */
static uint64_t print_of_file(int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, 0) || !S_ISREG(st.st_mode)) return 0;
    uint64_t hash = mix(0xcbf29ce484222325u, name, strlen(name));
    hash = mix(hash, &st.st_size, sizeof(st.st_size));
    hash = mix(hash, &st.st_mtim, sizeof(st.st_mtim));
    return mix(hash, &st.st_ino, sizeof(st.st_ino));
}

/* Weights may lie beside model.onnx, so every file counts. */
static uint64_t print_of_folder(const char *path)
{
    uint64_t sum = 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) sum += print_of_file(dirfd(d), e->d_name);
    closedir(d);
    return sum;
}

static void watch_folder(const struct gw_watch *w, const char *path)
{
    /* Without inotify it is looked at now and then all the same. */
    if (inotify_add_watch(w->inotify_fd, path, EVENTS) < 0) return;
}

static void free_state(struct state *s)
{
    gw_repository_free(&s->models);
    free(s->print);
    s->print = NULL;
}

/* The folders of all models, also of those that have no version yet. */
static void watch_models(const struct gw_watch *w)
{
    char path[4096];
    watch_folder(w, w->repository);
    DIR *d = opendir(w->repository);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (snprintf(path, sizeof(path), "%s/%s", w->repository, e->d_name) < (int)sizeof(path))
            watch_folder(w, path);
    }
    closedir(d);
}

static int look(const struct gw_watch *w, struct state *out)
{
    memset(out, 0, sizeof(*out));
    watch_models(w);
    int error = gw_repository_scan(w->repository, &out->models);
    if (error) return error;
    out->print = calloc(out->models.count, sizeof(*out->print));
    if (!out->print) {
        free_state(out);
        return gw_error(-ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < out->models.count; i++) {
        char *folder = strdup(out->models.entry[i].path);
        if (!folder) continue;
        *strrchr(folder, '/') = 0;
        watch_folder(w, folder);
        out->print[i] = print_of_folder(folder);
        free(folder);
    }
    return 0;
}

static size_t find(const struct state *s, const char *name)
{
    size_t i = 0;
    while (i < s->models.count && strcmp(s->models.entry[i].name, name)) i++;
    return i;
}

/* Is model i of `a` the same in `b`? */
static int has_same(const struct state *a, size_t i, const struct state *b)
{
    size_t k = find(b, a->models.entry[i].name);
    return k < b->models.count && b->print[k] == a->print[i] &&
           b->models.entry[k].version == a->models.entry[i].version;
}

/* The same for a model of another kind. */
static int has_same_other(const struct state *a, const struct gw_repository_other *o)
{
    for (size_t i = 0; i < a->models.others; i++)
        if (!strcmp(a->models.other[i].name, o->name) && !strcmp(a->models.other[i].why, o->why)) return 1;
    return 0;
}

static int equal(const struct state *a, const struct state *b)
{
    if (a->models.count != b->models.count || a->models.others != b->models.others) return 0;
    for (size_t i = 0; i < a->models.others; i++)
        if (!has_same_other(b, &a->models.other[i])) return 0;
    for (size_t i = 0; i < a->models.count; i++)
        if (!has_same(a, i, b)) return 0;
    return 1;
}

/* ---- what follows from it ---- */

static void serve(struct gw_server *server, const struct gw_repository_entry *e)
{
    struct gw_server_model model = {
        .name = e->name, .version = e->version, .path = e->path, .as_at_start = 1, .replace = 1};
    unsigned before = gw_server_version(server, e->name);
    int error = gw_server_add(server, &model);
    if (error && before)
        gw_log(GW_LOG_ERROR, "model %s: version %u goes on, version %u cannot be served: %s", e->name, before,
               e->version, gw_last_error());
    else if (error)
        gw_log(GW_LOG_ERROR, "model %s: version %u cannot be served: %s", e->name, e->version,
               gw_last_error());
    else if (before)
        gw_log(GW_LOG_INFO, "model %s: version %u is served in place of version %u", e->name, e->version,
               before);
    else
        gw_log(GW_LOG_INFO, "model %s: version %u is served", e->name, e->version);
}

static void end(struct gw_server *server, const char *name)
{
    if (!gw_server_version(server, name)) {
        gw_server_forget(server, name);
        return;
    }
    int error = gw_server_remove(server, name);
    if (error && error != -EBUSY)
        gw_log(GW_LOG_ERROR, "model %s cannot be stopped: %s", name, gw_last_error());
    else
        gw_log(GW_LOG_INFO, "model %s is not served any more: the repository has it no longer", name);
}

static int is_ours(const struct gw_watch *w, const char *name)
{
    return !w->only || !strcmp(w->only, name);
}

static void report_others(const struct gw_watch *w, struct gw_server *server, const struct state *now,
                          const struct state *before)
{
    for (size_t i = 0; i < before->models.others; i++) {
        const struct gw_repository_other *o = &before->models.other[i];
        if (!has_same_other(now, o) && !gw_server_version(server, o->name)) gw_server_forget(server, o->name);
    }
    for (size_t i = 0; i < now->models.others; i++) {
        const struct gw_repository_other *o = &now->models.other[i];
        if (!is_ours(w, o->name) || has_same_other(before, o)) continue;
        gw_log(GW_LOG_ERROR, "model %s cannot be served: %s", o->name, o->why);
        gw_server_miss(server, o->name, o->version, o->why);
    }
}

/* Takes over what was seen. */
static void use(struct gw_watch *w, struct gw_server *server)
{
    struct state now, before = w->used;
    if (look(w, &now)) return;
    if (!equal(&now, &w->seen)) { /* this very moment */
        free_state(&now);
        return;
    }
    w->used = now;
    for (size_t i = 0; i < now.models.count; i++)
        if (is_ours(w, now.models.entry[i].name) && !has_same(&now, i, &before))
            serve(server, &now.models.entry[i]);
    for (size_t i = 0; i < before.models.count; i++)
        if (is_ours(w, before.models.entry[i].name) &&
            find(&now, before.models.entry[i].name) == now.models.count)
            end(server, before.models.entry[i].name);
    report_others(w, server, &now, &before);
    free_state(&before);
}

static void come_again(const struct gw_watch *w, uint64_t ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}};
    timerfd_settime(w->timer_fd, 0, &when, NULL);
}

/* Throws away what a descriptor has to say. 1: it had something. */
static int drain(int fd)
{
    char bytes[4096];
    int any = 0;
    while (read(fd, bytes, sizeof(bytes)) > 0) any = 1;
    return any;
}

void gw_watch_do(struct gw_watch *w, struct gw_server *server)
{
    struct state now;
    int news = drain(w->inotify_fd), due = drain(w->timer_fd);
    if (news) {
        come_again(w, SETTLE_NS);
        return;
    }
    if (!due) return;
    if (look(w, &now)) { /* a file system that is gone for a while takes no model away */
        gw_say(&w->said, "%s; what is served goes on", gw_last_error());
        come_again(w, LOOK_NS);
        return;
    }
    int settled = equal(&now, &w->seen);
    free_state(&w->seen);
    w->seen = now;
    if (settled && !equal(&now, &w->used)) use(w, server);
    come_again(w, settled ? LOOK_NS : SETTLE_NS);
}

/* ---- beginning and end ---- */

static int make(struct gw_watch *w)
{
    w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    w->fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event in = {.events = EPOLLIN};
    if (w->inotify_fd < 0 || w->timer_fd < 0 || w->fd < 0 ||
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->inotify_fd, &in) ||
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->timer_fd, &in))
        return gw_error_errno(-errno, "--watch: cannot watch the model repository");
    int error = look(w, &w->used);
    if (!error) come_again(w, LOOK_NS);
    return error;
}

int gw_watch_create(const char *repository, const char *only, struct gw_watch **out)
{
    struct gw_watch *w = calloc(1, sizeof(*w));
    if (!w) return gw_error(-ENOMEM, "--watch: out of memory");
    w->repository = repository;
    w->only = only;
    w->inotify_fd = w->timer_fd = w->fd = -1;
    int error = make(w);
    if (error)
        gw_watch_destroy(w);
    else
        *out = w;
    return error;
}

static void close_one(int fd)
{
    if (fd >= 0) close(fd);
}

void gw_watch_destroy(struct gw_watch *w)
{
    if (!w) return;
    free_state(&w->seen);
    free_state(&w->used);
    close_one(w->fd);
    close_one(w->timer_fd);
    close_one(w->inotify_fd);
    free(w);
}

int gw_watch_fd(const struct gw_watch *w)
{
    return w->fd;
}
