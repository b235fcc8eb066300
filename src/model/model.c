/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls: files, argument checks, and the way to the back-end. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/model.h>

#include "src/model/graph/msg.h"
#include "src/model/import/file.h"
#include "src/model/inside.h"
#include "src/model/onnx.h"
#include "src/model/plugin.h"

struct gw_model {
    const struct gw_model_backend *be;
    void *impl;
    void *library; /* a plug-in's; NULL: it is no plug-in */
};

struct gw_plan {
    const struct gw_model_backend *be;
    void *impl;
    uint32_t nin, nout;
};

/* Everything that fails says why; this is for what has no words of its own. */
static int explained(const struct gwm_msg *msg, int err)
{
    if (err < 0 && msg->text && msg->len && !*msg->text)
        gwm_fail(msg, err, "%s", err == -ENOMEM ? "out of memory" : strerror(-err));
    return err;
}

/* dir: the model's folder, or -1 when it may have none. msg has no text yet. */
static int model_open_in(const void *bytes, size_t len, int dir, const struct gwm_msg *msg,
                         struct gw_model **model)
{
    struct gw_model *m = calloc(1, sizeof(*m));
    int err = m ? 0 : -ENOMEM;

    *model = NULL;
    if (msg->text && msg->len) *msg->text = '\0';
    if (!err && len > GWM_MAX_FILE) err = gwm_fail(msg, -EFBIG, "larger than 1 GiB");
    if (!err) {
        m->be = gw_model_onnx();
        err = dir >= 0 && m->be->load_in
                  ? m->be->load_in(bytes, len, msg->file, dir, &m->impl, msg->text, msg->len)
                  : m->be->load(bytes, len, msg->file, &m->impl, msg->text, msg->len);
    }
    if (err)
        free(m);
    else
        *model = m;
    return explained(msg, err);
}

int gw_model_open_bytes(const void *bytes, size_t len, const char *file, struct gw_model **model, char *err,
                        size_t errlen)
{
    const struct gwm_msg msg = {err, errlen, file};

    return model_open_in(bytes, len, -1, &msg, model);
}

int gw_model_open(const char *path, struct gw_model **model, char *why, size_t errlen)
{
    const struct gwm_msg msg = {why, errlen, path};
    void *bytes = NULL;
    ssize_t len = gwm_read_file(path, &msg, &bytes);

    *model = NULL;
    if (len < 0) return (int)len;
    int dir = gwm_open_folder(path);
    int err = model_open_in(bytes, (size_t)len, dir, &msg, model);
    if (dir >= 0) close(dir);
    free(bytes);
    return err;
}

int gw_model_wrap(const struct gw_model_backend *backend, void *object, struct gw_model **model)
{
    struct gw_model *m = calloc(1, sizeof(*m));

    *model = m;
    if (!m) return -ENOMEM;
    m->be = backend;
    m->impl = object;
    return 0;
}

int gw_model_open_plugin(const char *path, struct gw_model **model, char *why, size_t errlen)
{
    const struct gwm_msg msg = {why, errlen, path};
    struct gwm_plugin plugin = {0};

    *model = NULL;
    if (why && errlen) *why = '\0';
    int err = gwm_plugin_load(path, &plugin, &msg);
    if (err) return explained(&msg, err);
    err = gw_model_wrap(plugin.table, plugin.object, model);
    if (err)
        gwm_plugin_unload(&plugin);
    else
        (*model)->library = plugin.library;
    return explained(&msg, err);
}

void gw_model_close(struct gw_model *m)
{
    if (!m) return;
    gwm_plugin_unload(&(struct gwm_plugin){m->be, m->impl, m->library});
    free(m);
}

uint32_t gw_model_inputs(const struct gw_model *m)
{
    return m->be->count(m->impl, 0);
}

uint32_t gw_model_outputs(const struct gw_model *m)
{
    return m->be->count(m->impl, 1);
}

const struct gw_tensor_info *gw_model_input(const struct gw_model *m, uint32_t i)
{
    return i < gw_model_inputs(m) ? m->be->info(m->impl, 0, i) : NULL;
}

const struct gw_tensor_info *gw_model_output(const struct gw_model *m, uint32_t i)
{
    return i < gw_model_outputs(m) ? m->be->info(m->impl, 1, i) : NULL;
}

const char *gw_model_kind(const struct gw_model *m)
{
    return m->be->name;
}

int gw_plan_create(const struct gw_model *m, const struct gw_plan_options *options, struct gw_plan **plan,
                   char *why, size_t errlen)
{
    static const struct gw_plan_options cpu = {.place = GW_PLACE_CPU};
    const struct gwm_msg msg = {why, errlen, "plan"};
    struct gw_plan *p = calloc(1, sizeof(*p));

    *plan = NULL;
    if (why && errlen) *why = '\0';
    if (!p) return explained(&msg, -ENOMEM);
    p->be = m->be;
    p->nin = gw_model_inputs(m);
    p->nout = gw_model_outputs(m);
    int err = m->be->plan(m->impl, options ? options : &cpu, &p->impl, why, errlen);
    if (err)
        free(p);
    else
        *plan = p;
    return explained(&msg, err);
}

void gw_plan_free(struct gw_plan *p)
{
    if (!p) return;
    p->be->plan_free(p->impl);
    free(p);
}

void gw_plan_stats(const struct gw_plan *p, struct gw_plan_stats *stats)
{
    p->be->stats(p->impl, stats);
}

static bool model_aligned(const void *p)
{
    return p && (uintptr_t)p % GW_MODEL_ALIGN == 0;
}

static int model_check(const struct gw_plan *p, const void *const in[], void *const out[])
{
    for (uint32_t i = 0; i < p->nin; i++)
        if (!model_aligned(in[i])) return -EINVAL;
    for (uint32_t i = 0; i < p->nout; i++)
        if (!model_aligned(out[i])) return -EINVAL;
    return 0;
}

int gw_plan_run(struct gw_plan *p, const void *const in[], void *const out[])
{
    int err = model_check(p, in, out);

    return err ? err : p->be->run(p->impl, in, out);
}

int gw_plan_enqueue(struct gw_plan *p, void *stream, const void *const in[], void *const out[])
{
    int err = model_check(p, in, out);

    return err ? err : p->be->enqueue(p->impl, stream, in, out);
}

int gw_plan_enqueue_indirect(struct gw_plan *p, void *stream, const struct gw_plan_io *io)
{
    return io ? p->be->enqueue_indirect(p->impl, stream, io) : -EINVAL;
}

int gwm_plan_each(struct gw_plan *p, gwm_each one, void *arg)
{
    return p->be == gw_model_onnx() ? gwm_onnx_each(p->impl, one, arg) : -ENOTSUP;
}

int gwm_plan_program(const struct gw_plan *p, struct gwm_program *program, struct gwm_program_times *times)
{
    return p->be == gw_model_onnx() ? gwm_onnx_program(p->impl, program, times) : -ENOTSUP;
}

enum gwm_rows gwm_model_rows(const struct gw_model *m, uint32_t rows, char *node, size_t size)
{
    if (size) *node = '\0';
    return m->be == gw_model_onnx() ? gwm_onnx_rows(m->impl, rows, node, size) : GWM_ROWS_UNKNOWN;
}

int gwm_model_slim(struct gw_model *m, struct gw_plan *const plan[], uint32_t n)
{
    void **impl = (void **)calloc((size_t)n + 1, sizeof(*impl));
    int err = impl ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < n && !err; i++) impl[i] = plan[i]->impl;
    if (!err) err = m->be == gw_model_onnx() ? gwm_onnx_slim(m->impl, impl, n) : -ENOTSUP;
    free(impl);
    return err;
}
