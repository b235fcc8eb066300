/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/modes/modes.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "bench/modes/loop.h"
#include "src/server/http/http.h"
#include "src/server/requests/infer.h"
#include "src/server/requests/local.h"
#include "src/server/lifecycle/server.h"
#include "src/server/worker/worker.h"

/* The server learns this of the model. */
struct described {
    struct gw_tensor_info info[2]; /* the input, the output */
    char name[2][64];
};

struct modes {
    struct gw_exec *memory; /* NULL: slots lie in host memory */
    struct gw_server *server;
    struct gw_infer_local local;
    struct gw_infer *infer;
    struct gw_http_door *http;
    struct modes_loop loop;
    struct described described;
    pthread_t thread;
    int runs, quit_fd;
};

const char *modes_error(void)
{
    return gw_last_error();
}

/* ---- the model ---- */

static uint32_t count(const void *model, int output)
{
    (void)model, (void)output;
    return 1;
}

static const struct gw_tensor_info *info(const void *model, int output, uint32_t i)
{
    (void)i;
    return &((const struct described *)model)->info[output];
}

static void unload(void *model)
{
    (void)model; /* it is a part of struct modes */
}

static const struct gw_model_backend backend = {
    .abi = GW_MODEL_ABI, .name = "modes", .count = count, .info = info, .unload = unload};

static int describe(struct modes *m, const struct gw_serving_tensor *t, int output, uint32_t batched)
{
    struct gw_tensor_info *to = &m->described.info[output];
    uint32_t each = gw_dtype_bytes(t->dtype);
    if (!each || t->rank >= GW_MODEL_MAX_RANK || !t->name)
        return gw_error(-EINVAL, "modes: a tensor has no name, no such type, or too many dimensions");
    strncpy(m->described.name[output], t->name, sizeof(m->described.name[output]) - 1);
    *to = (struct gw_tensor_info){.name = m->described.name[output],
                                  .dtype = t->dtype,
                                  .rank = t->rank + batched,
                                  .batched = batched,
                                  .bytes = each};
    to->dims[0] = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        to->dims[i + batched] = t->dims[i];
        to->bytes *= t->dims[i];
    }
    return 0;
}

static int take_model(struct modes *m, const struct modes_opts *o, const struct gw_serving_captured *c)
{
    if (c->inputs != 1 || c->outputs != 1 || c->graphs != 1 || c->graph[0].rows > 1)
        return gw_error(-ENOTSUP, "modes: the model must have one input, one output and one row");
    int error = describe(m, &c->input[0], 0, c->graph[0].rows);
    if (!error) error = describe(m, &c->output[0], 1, c->graph[0].rows);
    if (error) return error;
    struct modes_device_opts device = {.kind = o->kind,
                                       .timed = o->timed,
                                       .gpu = o->gpu,
                                       .graph = c->graph[0].graph,
                                       .in = c->graph[0].in[0],
                                       .out = c->graph[0].out[0],
                                       .in_bytes = m->described.info[0].bytes,
                                       .out_bytes = m->described.info[1].bytes};
    m->loop.kind = o->kind;
    m->loop.ops = o->on_cpu ? &modes_on_host : &modes_on_gpu;
    return m->loop.ops->create(&device, &m->loop.device);
}

/* ---- the server ---- */

static int add_model(struct modes *m, const struct modes_opts *o)
{
    struct gw_worker_own own = {.stages = modes_loop_stages,
                                .ctx = &m->loop,
                                .memory = m->memory,
                                .gpu_memory = o->kind != MODES_COPY};
    struct gw_server_model model = {.name = o->name, .version = 1, .own = &own};
    int error = gw_model_wrap(&backend, &m->described, &own.model);
    return error ? error : gw_server_add(m->server, &model);
}

static int make_server(struct modes *m, const struct modes_opts *o)
{
    struct gw_server_opts opts = {.exec = "cpu",
                                  .sessions = o->sessions,
                                  .sessions_each = o->sessions,
                                  .slots = o->slots,
                                  .threads = 1};
    int error = gw_server_start(&opts, &m->server);
    if (!error) error = add_model(m, o);
    if (error) return error;
    struct gw_server_view view;
    gw_server_view(m->server, &view);
    gw_infer_local_of(&view, &m->local);
    struct gw_infer_opts infer = {.backend = &gw_infer_local, .ctx = &m->local};
    struct gw_server_door door;
    struct gw_http_door_opts http = {.port = (uint16_t)o->port};
    error = gw_infer_create(&infer, &m->infer);
    if (!error) error = gw_http_door_start(&view, m->infer, &http, &door, &m->http);
    return error ? error : gw_server_add_door(m->server, &door);
}

static void *keep_house(void *arg)
{
    struct modes *m = arg;
    gw_server_run(m->server, &m->quit_fd, 1);
    return NULL;
}

static int begin(struct modes *m, const struct modes_opts *o, const struct gw_serving_captured *model)
{
    struct gw_exec_opts gpu = {.device = o->gpu};
    m->quit_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->quit_fd < 0) return gw_error_errno(-errno, "modes: a descriptor");
    int error = o->on_cpu ? 0 : gw_exec_create("gpu", &gpu, &m->memory);
    if (!error) error = take_model(m, o, model);
    if (!error) error = make_server(m, o);
    if (!error) error = -pthread_create(&m->thread, NULL, keep_house, m);
    m->runs = !error;
    return error;
}

int modes_start(const struct modes_opts *o, const struct gw_serving_captured *model, struct modes **out)
{
    if (o->size != sizeof(*o) || o->kind > MODES_QUEUED || !o->sessions || !o->slots || !o->name)
        return gw_error(-EINVAL, "modes: the options make no sense");
    struct modes *m = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    int error = begin(m, o, model);
    if (error)
        modes_stop(m);
    else
        *out = m;
    return error;
}

uint16_t modes_port(const struct modes *m)
{
    return gw_http_door_port(m->http);
}

void modes_query(const struct modes *m, struct modes_times *times)
{
    m->loop.ops->times(m->loop.device, times);
}

int modes_stop(struct modes *m)
{
    const uint64_t one = 1;
    if (m->runs && write(m->quit_fd, &one, sizeof(one)) == sizeof(one)) pthread_join(m->thread, NULL);
    m->runs = 0;
    int error = gw_server_stop(m->server, NULL);
    if (error) return error;
    gw_infer_destroy(m->infer);
    if (m->loop.device) m->loop.ops->destroy(m->loop.device);
    gw_exec_destroy(m->memory);
    if (m->quit_fd >= 0) close(m->quit_fd);
    free(m);
    return 0;
}
