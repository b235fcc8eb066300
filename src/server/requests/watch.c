/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the repository, and serves, replaces or stops models as it changes. */
#include "src/server/requests/watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/door/limit.h"
#include "src/door/log.h"
#include "src/server/worker/repository.h"

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
    struct state seen, used; /* at the last look; what was done something about */
    int soon;                /* the next look comes after SETTLE_NS at most */
    struct gw_say_limit said;
};

/* ---- a look ---- */

static uint64_t infer_watch_mix(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* Of one file: what changes when it is written, or when another one takes its place. */
static uint64_t print_of_file(int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, 0) || !S_ISREG(st.st_mode)) return 0;
    uint64_t hash = infer_watch_mix(0xcbf29ce484222325u, name, strlen(name));
    hash = infer_watch_mix(hash, &st.st_size, sizeof(st.st_size));
    hash = infer_watch_mix(hash, &st.st_mtim, sizeof(st.st_mtim));
    return infer_watch_mix(hash, &st.st_ino, sizeof(st.st_ino));
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

static int infer_watch_look(const struct gw_watch *w, struct state *out)
{
    memset(out, 0, sizeof(*out));
    watch_models(w);
    int err = gw_repository_scan(w->repository, &out->models);
    if (err) return err;
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

static size_t infer_watch_find(const struct state *s, const char *name)
{
    size_t i = 0;
    while (i < s->models.count && strcmp(s->models.entry[i].name, name)) i++;
    return i;
}

/* Is model i of `a` the same in `b`? */
static bool has_same(const struct state *a, size_t i, const struct state *b)
{
    size_t k = infer_watch_find(b, a->models.entry[i].name);
    return k < b->models.count && b->print[k] == a->print[i] &&
           b->models.entry[k].version == a->models.entry[i].version;
}

/* The same for a model of another kind. */
static bool has_same_other(const struct state *a, const struct gw_repository_other *o)
{
    for (size_t i = 0; i < a->models.others; i++)
        if (!strcmp(a->models.other[i].name, o->name) && !strcmp(a->models.other[i].why, o->why)) return true;
    return false;
}

/* ---- what follows from it ---- */

static void infer_watch_serve(struct gw_server *server, const struct gw_repository_entry *e)
{
    struct gw_server_model model = {
        .name = e->name, .version = e->version, .path = e->path, .as_at_start = 1, .replace = 1};
    unsigned before = gw_server_version(server, e->name);
    int err = gw_server_add(server, &model);
    if (err && before)
        gw_log(GW_LOG_ERROR, "model %s: version %u goes on, version %u cannot be served: %s", e->name, before,
               e->version, gw_last_error());
    else if (err)
        gw_log(GW_LOG_ERROR, "model %s: version %u cannot be served: %s", e->name, e->version,
               gw_last_error());
    else if (before)
        gw_log(GW_LOG_INFO, "model %s: version %u is served in place of version %u", e->name, e->version,
               before);
    else
        gw_log(GW_LOG_INFO, "model %s: version %u is served", e->name, e->version);
}

static void infer_watch_end(struct gw_server *server, const char *name)
{
    if (!gw_server_version(server, name)) {
        gw_server_forget(server, name);
        return;
    }
    int err = gw_server_remove(server, name);
    if (err && err != -EBUSY)
        gw_log(GW_LOG_ERROR, "model %s cannot be stopped: %s", name, gw_last_error());
    else
        gw_log(GW_LOG_INFO, "model %s is not served any more: the repository has it no longer", name);
}

static bool infer_watch_is_ours(const struct gw_watch *w, const char *name)
{
    return !w->only || !strcmp(w->only, name);
}

/* ---- model by model: one that is still being copied holds up no other ---- */

/* Takes model i of `from` over. Without memory it is seen as new next time. */
static void carry(struct state *to, const struct state *from, size_t i)
{
    struct gw_repository *r = &to->models;
    struct gw_repository_entry *e = realloc(r->entry, (r->count + 1) * sizeof(*e));
    uint64_t *print = realloc(to->print, (r->count + 1) * sizeof(*print));
    if (e) r->entry = e;
    if (print) to->print = print;
    if (!e || !print) return;
    e[r->count] = from->models.entry[i];
    e[r->count].name = strdup(from->models.entry[i].name);
    e[r->count].path = strdup(from->models.entry[i].path);
    print[r->count] = from->print[i];
    if (e[r->count].name && e[r->count].path) {
        r->count++;
    } else {
        free(e[r->count].name);
        free(e[r->count].path);
    }
}

static void carry_other(struct state *to, const struct gw_repository_other *o)
{
    struct gw_repository *r = &to->models;
    struct gw_repository_other *more = realloc(r->other, (r->others + 1) * sizeof(*more));
    if (!more) return;
    r->other = more;
    more[r->others] = (struct gw_repository_other){strdup(o->name), o->version, strdup(o->why)};
    if (more[r->others].name && more[r->others].why) {
        r->others++;
    } else {
        free(more[r->others].name);
        free(more[r->others].why);
    }
}

/* Is it unchanged since that look? Other models may have been loaded in between. */
static int is_as_then(const struct state *now, size_t i)
{
    char *folder = strdup(now->models.entry[i].path);
    if (!folder) return 0;
    *strrchr(folder, '/') = 0;
    int same = print_of_folder(folder) == now->print[i];
    free(folder);
    return same;
}

/* The contents of the repository. A model is used when two looks have found the same of it; `next` is what is
 * used then. Returns how many are still to be looked at. */
static uint32_t use_present(const struct gw_watch *w, struct gw_server *server, const struct state *now,
                            struct state *next)
{
    uint32_t unsettled = 0;
    for (size_t i = 0; i < now->models.count; i++) {
        const char *name = now->models.entry[i].name;
        size_t used = infer_watch_find(&w->used, name);
        int is_new = !has_same(now, i, &w->used);
        int settled = !is_new || (has_same(now, i, &w->seen) && is_as_then(now, i));
        if (is_new && settled && infer_watch_is_ours(w, name))
            infer_watch_serve(server, &now->models.entry[i]);
        unsettled += !settled;
        if (settled)
            carry(next, now, i);
        else if (used < w->used.models.count)
            carry(next, &w->used, used);
    }
    return unsettled;
}

/* What it has no longer. */
static uint32_t use_gone(const struct gw_watch *w, struct gw_server *server, const struct state *now,
                         struct state *next)
{
    uint32_t unsettled = 0;
    for (size_t i = 0; i < w->used.models.count; i++) {
        const char *name = w->used.models.entry[i].name;
        if (infer_watch_find(now, name) < now->models.count) continue;
        int settled = infer_watch_find(&w->seen, name) == w->seen.models.count;
        if (settled && infer_watch_is_ours(w, name)) infer_watch_end(server, name);
        if (!settled) carry(next, &w->used, i);
        unsettled += !settled;
    }
    return unsettled;
}

/* Models of other kinds, which are only told of. */
static uint32_t use_others(const struct gw_watch *w, struct gw_server *server, const struct state *now,
                           struct state *next)
{
    uint32_t unsettled = 0;
    for (size_t i = 0; i < w->used.models.others; i++) {
        const struct gw_repository_other *o = &w->used.models.other[i];
        if (has_same_other(now, o)) continue;
        if (has_same_other(&w->seen, o)) {
            carry_other(next, o);
            unsettled++;
        } else if (!gw_server_version(server, o->name)) {
            gw_server_forget(server, o->name);
        }
    }
    for (size_t i = 0; i < now->models.others; i++) {
        const struct gw_repository_other *o = &now->models.other[i];
        int is_new = !has_same_other(&w->used, o), settled = !is_new || has_same_other(&w->seen, o);
        unsettled += !settled;
        if (settled) carry_other(next, o);
        if (!settled || !is_new || !infer_watch_is_ours(w, o->name)) continue;
        gw_log(GW_LOG_ERROR, "model %s cannot be served: %s", o->name, o->why);
        gw_server_miss(server, o->name, o->version, o->why);
    }
    return unsettled;
}

/* Does what follows from a look. Returns how much is still to be looked at again. */
static uint32_t use(struct gw_watch *w, struct gw_server *server, const struct state *now)
{
    struct state next = {0};
    uint32_t unsettled = use_gone(w, server, now, &next);
    unsettled += use_present(w, server, now, &next);
    unsettled += use_others(w, server, now, &next);
    free_state(&w->used);
    w->used = next;
    return unsettled;
}

static void come_again(const struct gw_watch *w, uint64_t ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}};
    timerfd_settime(w->timer_fd, 0, &when, NULL);
}

/* Drains a descriptor. 1: it had something. */
static int infer_watch_drain(int fd)
{
    char bytes[4096];
    int any = 0;
    while (read(fd, bytes, sizeof(bytes)) > 0) any = 1;
    return any;
}

void gw_watch_do(struct gw_watch *w, struct gw_server *server)
{
    struct state now;
    int news = infer_watch_drain(w->inotify_fd), due = infer_watch_drain(w->timer_fd);
    if (news && !due && !w->soon) {
        w->soon = 1; /* a file that grows and grows does not put it off again */
        come_again(w, SETTLE_NS);
    }
    if (!due) return;
    w->soon = 0;
    if (infer_watch_look(w, &now)) { /* a file system that is gone for a while takes no model away */
        gw_say(&w->said, "%s; what is served goes on", gw_last_error());
        come_again(w, LOOK_NS);
        return;
    }
    uint32_t unsettled = use(w, server, &now);
    free_state(&w->seen);
    w->seen = now;
    w->soon = unsettled != 0;
    come_again(w, unsettled ? SETTLE_NS : LOOK_NS);
}

/* ---- beginning and end ---- */

static int infer_watch_make(struct gw_watch *w)
{
    w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    w->fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event in = {.events = EPOLLIN};
    if (w->inotify_fd < 0 || w->timer_fd < 0 || w->fd < 0 ||
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->inotify_fd, &in) ||
        epoll_ctl(w->fd, EPOLL_CTL_ADD, w->timer_fd, &in))
        return gw_error_errno(-errno, "--watch: cannot watch the model repository");
    int err = infer_watch_look(w, &w->used);
    if (!err) come_again(w, LOOK_NS);
    return err;
}

int gw_watch_create(const char *repository, const char *only, struct gw_watch **out)
{
    struct gw_watch *w = calloc(1, sizeof(*w));
    if (!w) return gw_error(-ENOMEM, "--watch: out of memory");
    w->repository = repository;
    w->only = only;
    w->inotify_fd = w->timer_fd = w->fd = -1;
    int err = infer_watch_make(w);
    if (err)
        gw_watch_destroy(w);
    else
        *out = w;
    return err;
}

static void infer_watch_close_one(int fd)
{
    if (fd >= 0) close(fd);
}

void gw_watch_destroy(struct gw_watch *w)
{
    if (!w) return;
    free_state(&w->seen);
    free_state(&w->used);
    infer_watch_close_one(w->fd);
    infer_watch_close_one(w->timer_fd);
    infer_watch_close_one(w->inotify_fd);
    free(w);
}

int gw_watch_fd(const struct gw_watch *w)
{
    return w->fd;
}
