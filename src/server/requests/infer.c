/* SPDX-License-Identifier: Apache-2.0 */
/* What all doors of a server share: drain, shared memory, the access log. */
#include "src/server/requests/infer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>
#include <gpuwire/sync.h>

struct gw_infer {
    struct gw_infer_opts opts;
    struct gw_regions *regions;
    uint32_t draining; /* atomic; it stands alone */
};

int gw_infer_create(const struct gw_infer_opts *opts, struct gw_infer **out)
{
    struct gw_infer *f = calloc(1, sizeof(*f));
    if (!f) return -ENOMEM;
    f->opts = *opts;
    f->regions = gw_regions_create();
    if (!f->regions) {
        free(f);
        return -ENOMEM;
    }
    *out = f;
    return 0;
}

void gw_infer_destroy(struct gw_infer *f)
{
    if (!f) return;
    gw_regions_destroy(f->regions);
    free(f);
}

void gw_infer_drain(struct gw_infer *f)
{
    gw_st_relaxed_u32(&f->draining, 1);
}

bool gw_infer_draining(const struct gw_infer *f)
{
    return gw_ld_relaxed_u32(&f->draining) != 0;
}

int gw_infer_refuse_draining(struct gw_infer_error *error)
{
    return gw_infer_fail(error, GW_INFER_UNAVAILABLE,
                         "the server is about to end: it answers what it has begun, and takes nothing new");
}

int gw_infer_check_ready(struct gw_infer *f, struct gw_infer_error *error)
{
    if (gw_infer_draining(f)) return gw_infer_refuse_draining(error);
    return f->opts.backend->ready ? f->opts.backend->ready(f->opts.ctx, error) : 0;
}

const struct gw_infer_backend *gw_infer_backend(const struct gw_infer *f, void **ctx)
{
    *ctx = f->opts.ctx;
    return f->opts.backend;
}

struct gw_access *gw_infer_access(struct gw_infer *f)
{
    return f->opts.access;
}

struct gw_regions *gw_infer_regions(struct gw_infer *f)
{
    return f->regions;
}

/* ---- memory of GPUs ---- */

struct cuda_job {
    struct gw_regions *regions;
    const char *who, *name;
    const struct gw_region_info *info;
    const void *handle;
};

static int infer_register_cuda(void *arg, struct gw_infer_error *error)
{
    const struct cuda_job *j = arg;
    return gw_region_register_cuda(j->regions, j->who, j->info, j->handle, error);
}

static int unregister_cuda(void *arg, struct gw_infer_error *error)
{
    const struct cuda_job *j = arg;
    (void)error;
    gw_region_unregister(j->regions, GW_REGION_CUDA, j->who, j->name);
    return 0;
}

int gw_infer_register_cuda(struct gw_infer *f, const char *who, const struct gw_region_info *info,
                           const void *handle, size_t length, struct gw_infer_error *error)
{
    struct cuda_job job = {.regions = f->regions, .who = who, .info = info, .handle = handle};
    if (length != GW_CUDA_HANDLE)
        return gw_infer_fail(error, GW_INFER_INVALID, "raw_handle has %zu bytes, a cudaIpcMemHandle has %u",
                             length, GW_CUDA_HANDLE);
    if (gw_region_may_map(who, error)) return -1; /* strangers pause no model */
    return gw_control_paused(f->opts.control, infer_register_cuda, &job, error);
}

int gw_infer_unregister_cuda(struct gw_infer *f, const char *who, const char *name,
                             struct gw_infer_error *error)
{
    struct cuda_job job = {.regions = f->regions, .who = who, .name = name};
    struct gw_region_info info;
    /* A client without one pauses no model. */
    if (!gw_region_status(f->regions, GW_REGION_CUDA, who, name, 0, &info)) return 0;
    return gw_control_paused(f->opts.control, unregister_cuda, &job, error);
}

int gw_infer_change(struct gw_infer *f, enum gw_control_what what, const char *model,
                    struct gw_infer_error *error)
{
    const char *why = f->opts.backend->no_control;
    return why ? gw_infer_fail(error, GW_INFER_UNSUPPORTED, "%s", why)
               : gw_control_ask(f->opts.control, what, model, error);
}

/* ---- models ---- */

void gw_infer_enter(struct gw_infer *f)
{
    f->opts.backend->enter(f->opts.ctx);
}

void gw_infer_leave(struct gw_infer *f)
{
    f->opts.backend->leave(f->opts.ctx);
}

bool gw_infer_model(struct gw_infer *f, size_t i, struct gw_infer_model *out)
{
    return f->opts.backend->model(f->opts.ctx, i, out);
}

bool gw_infer_known_model(struct gw_infer *f, size_t *i, struct gw_infer_model *out)
{
    while (gw_infer_model(f, *i, out)) {
        ++*i;
        if (out->model) return true;
    }
    return false;
}

const struct gw_missing_model *gw_infer_missing(struct gw_infer *f, size_t i)
{
    return f->opts.backend->missing(f->opts.ctx, i);
}

void gw_infer_stats(struct gw_infer *f, const struct gw_infer_model *m, struct gw_infer_stats *out)
{
    f->opts.backend->stats(f->opts.ctx, m, out);
}

const char *gw_infer_executor(struct gw_infer *f)
{
    return f->opts.backend->executor(f->opts.ctx);
}

void gw_infer_metrics(struct gw_infer *f, struct gw_text *t)
{
    if (f->opts.backend->metrics) f->opts.backend->metrics(f->opts.ctx, t);
}

int gw_infer_find(struct gw_infer *f, const char *model, const char *version, struct gw_infer_model *out,
                  struct gw_infer_error *error)
{
    char served[16];
    if (f->opts.backend->find(f->opts.ctx, model, out, error)) return -1;
    snprintf(served, sizeof(served), "%u", out->version);
    if (version && *version && strcmp(version, served))
        return gw_infer_fail(
            error, GW_INFER_NOT_FOUND,
            "Request for unknown model: '%.200s' version %.20s is not found, version %s is served", model,
            version, served);
    return 0;
}

uint32_t gw_infer_shape(const struct gw_infer_model *m, const struct gw_tensor_info *t,
                        int64_t dims[GW_MODEL_MAX_RANK])
{
    for (uint32_t i = 0; i < t->rank; i++) dims[i] = (int64_t)t->dims[i];
    if (t->rank && t->batched && m->max_batch) dims[0] = -1;
    return t->rank;
}
