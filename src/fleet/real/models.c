/* SPDX-License-Identifier: Apache-2.0 */
/* models.c: the repository's models, with their plans, and their weights in pages. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/fleet/real/impl.h"
#include "src/model/inside.h"

/* ---- what a model's files are ---- */

static int digest_file(struct gwm_key *key, int folder, const char *name)
{
    static const size_t part = 1 << 20;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *bytes = fd < 0 ? NULL : (char *)malloc(part);
    ssize_t n = bytes ? 1 : -1;
    struct stat st;

    while (n > 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        size_t have = 0;
        while (have < part && (n = read(fd, bytes + have, part - have)) > 0) have += (size_t)n;
        gwm_key_more(key, bytes, have);
        if (have < part) break;
    }
    free(bytes);
    if (fd >= 0) close(fd);
    return n < 0 ? -EIO : 0;
}

static int models_visible(const struct dirent *e)
{
    return e->d_name[0] - '.'; /* 0: it is hidden */
}

/* Of all files beside the model's, since weights may lie in any. The same on each host, so in the order of
 * names. */
static int digest(const char *path, uint8_t out[32])
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    struct gwm_key key = gwm_key_of(NULL, 0);
    struct dirent **file = NULL;
    int n = folder ? scandir(folder, &file, models_visible, alphasort) : -1;
    int dir = n < 0 ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = dir < 0 ? -EIO : 0;

    for (int i = 0; i < n; i++) {
        char padded[264] = "";
        snprintf(padded, sizeof(padded), "%s", file[i]->d_name);
        if (!err && file[i]->d_type != DT_DIR) {
            gwm_key_more(&key, padded, sizeof(padded));
            err = digest_file(&key, dir, file[i]->d_name);
        }
        free(file[i]);
    }
    free(file);
    free(folder);
    if (dir >= 0) close(dir);
    uint64_t words[4] = {key.a, key.b, key.bytes, 0};
    memcpy(out, words, 32);
    return err ? gw_error(err, "%s: its folder cannot be read", path) : 0;
}

/* ---- plans ---- */

/* Batches of 1, 2, 4, 8 and 16, where a model's rows are known to stay apart; else of 1. */
static void models_choose_rows(struct real_model *m)
{
    bool batched = !m->in.unbatched && !m->out.unbatched && m->in.tensors && m->out.tensors;
    uint32_t most = batched ? m->real->o.max_batch : 1;
    char node[GW_MODEL_ERR];

    for (uint32_t rows = 1; rows <= most && m->batches < FLEET_SIZES; rows *= 2) {
        if (rows > 1 && gwm_model_rows(m->model, rows, node, sizeof(node)) != GWM_ROWS_APART) break;
        m->batch[m->batches++].rows = rows;
    }
}

static bool slots_on_gpu(const struct real *r)
{
    struct gw_device_info nic;

    gw_device_query(r->o.dev, &nic);
    return nic.gpu_reach == GW_REACH_DIRECT || nic.gpu_reach == GW_REACH_DMABUF;
}

static int models_make_plan(struct real_model *m, uint32_t i)
{
    const struct real *r = m->real;
    char why[GW_MODEL_ERR] = "";
    struct gw_plan_stats s;
    const struct gw_plan_options o = {
        .place = real_on_gpu(r) ? GW_PLACE_GPU : GW_PLACE_CPU,
        .threads = r->o.threads,
        .device = gw_exec_device(r->o.exec),
        /* Beside a loop nothing may be measured: what measuring frees would wait for the loop. */
        .flags = (slots_on_gpu(r) ? GW_PLAN_GPU_IO : 0) | (r->many ? GW_PLAN_OWN : 0),
        .exec = r->o.exec,
        .memory = r->o.memory,
        .rows = m->batch[i].rows,
        .weights = m->shared,
        .arena = m->arena ? m->arena : r->arena,
    };
    int err = gw_plan_create(m->model, &o, &m->batch[i].plan, why, sizeof(why));

    if (err) return gw_error(err, "%s", why);
    gw_plan_stats(m->batch[i].plan, &s);
    if (s.shares != (GW_PLAN_SHARES_WEIGHTS | GW_PLAN_SHARES_ARENA))
        return gw_error(-ENOTSUP, "its weights cannot come and go");
    return 0;
}

/* The weights are in pages and on disk; a third copy would only take memory. */
static void drop_constants(struct real_model *m)
{
    struct gw_plan *plan[FLEET_SIZES];

    for (uint32_t i = 0; i < m->batches; i++) plan[i] = m->batch[i].plan;
    gwm_model_slim(m->model, plan, m->batches);
}

/* Plans, the largest first: its room for intermediate results is enough for all. And their weights. */
static int models_make_plans(struct real_model *m)
{
    int err = gw_weights_create(fleet_weights_range(m->weights), &m->shared);

    /* Making plans and measuring runs them. The loop may be at work in the arena of all. */
    if (!err && m->real->many) err = gw_plan_arena_create(NULL, &m->arena);
    for (uint32_t i = m->batches; i-- && !err;) err = models_make_plan(m, i);
    if (!err) err = real_measure(m);
    int sealed = fleet_weights_seal(m->weights, err ? 0 : gw_weights_bytes(m->shared));
    if (!err && !sealed) drop_constants(m);
    return err ? err : sealed;
}

/* Loads the model once, and leaves it in host memory if there is room. */
static int try_load(struct real_model *m)
{
    struct real *r = m->real;
    uint32_t pages = fleet_weights_pages(m->weights);
    int64_t took = 0;

    m->facts.pages = pages;
    m->facts.load_ns = r->page_ns * pages;
    m->facts.disk_ns = r->page_disk_ns * pages;
    if (r->many) return 0; /* it is the planner that gives pages out by now */
    uint32_t outcome = real_move_wait(m, FLEET_TO_HOST, &took);
    if (outcome == FLEET_NO_ROOM) return 0; /* it takes what pages of earlier models took */
    m->facts.disk_ns = took;
    if (took / pages > r->page_disk_ns) r->page_disk_ns = took / pages;
    if (outcome == FLEET_DONE) outcome = real_move_wait(m, FLEET_TO_GPU, &took);
    if (outcome != FLEET_DONE) return gw_error(-EIO, "its weights could not be loaded");
    m->facts.load_ns = took;
    if (took / pages > r->page_ns) r->page_ns = took / pages;
    real_move_wait(m, FLEET_OFF_GPU, &took);
    return 0;
}

/* ---- one model ---- */

void real_model_close(struct real_model *m)
{
    for (uint32_t i = 0; i < m->batches; i++)
        if (m->batch[i].plan) gw_plan_free(m->batch[i].plan);
    gw_weights_free(m->shared);
    gw_plan_arena_free(m->arena);
    gw_model_close(m->model);
    free(m);
}

static int model_facts(struct real_model *m, const struct gw_repository_entry *e)
{
    struct fleet_has_model *f = &m->facts;

    if (strlen(e->name) >= sizeof(f->name))
        return gw_error(-ENAMETOOLONG, "names have %zu bytes at most", sizeof(f->name) - 1);
    snprintf(f->name, sizeof(f->name), "%s", e->name);
    f->version = e->version;
    f->max_batch = m->batch[m->batches - 1].rows;
    f->request_bytes = gw_layout_bytes(&m->in, 1);
    f->answer_bytes = gw_layout_bytes(&m->out, 1);
    return digest(e->path, f->digest);
}

int real_model_open(struct real *r, const struct gw_repository_entry *e, struct real_model **out)
{
    struct real_model *m = (struct real_model *)calloc(1, sizeof(*m));
    char why[GW_MODEL_ERR] = "";
    int err;

    if (!m) return gw_error(-ENOMEM, "no memory");
    m->real = r;
    err = gw_repository_is_plugin(e->path) ? gw_error(-ENOTSUP, "a plug-in has memory of its own")
                                           : gw_model_open(e->path, &m->model, why, sizeof(why));
    if (err && *why) gw_error(err, "%s", why);
    if (!err) err = gw_layout_of_model(m->model, 0, r->o.max_batch, &m->in);
    if (!err) err = gw_layout_of_model(m->model, 1, r->o.max_batch, &m->out);
    if (!err) models_choose_rows(m);
    if (!err) err = model_facts(m, e);
    if (!err) err = fleet_weights_create(r->pages, e->name, m, &m->weights);
    if (!err) err = models_make_plans(m);
    if (!err) err = try_load(m);
    if (err)
        real_model_close(m);
    else
        *out = m;
    return err;
}
