/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fake_worker.h"

#include "src/door/httpd.h"
#include "src/server/requests/control.h"
#include "src/server/worker/worker.h"
#include "tests/fuzz/stream.h"

const char *gw_worker_name(const struct gw_worker *w)
{
    (void)w;
    return fake_worker.name;
}
unsigned gw_worker_version(const struct gw_worker *w)
{
    (void)w;
    return 1;
}
const struct gw_model *gw_worker_model(const struct gw_worker *w)
{
    return (const struct gw_model *)w; /* nothing looks inside */
}
int gw_worker_run_error(const struct gw_worker *w)
{
    (void)w;
    return fake_worker.run_error;
}

uint32_t gw_model_inputs(const struct gw_model *m)
{
    (void)m;
    return fake_worker.inputs;
}
uint32_t gw_model_outputs(const struct gw_model *m)
{
    (void)m;
    return fake_worker.outputs;
}
const struct gw_tensor_info *gw_model_input(const struct gw_model *m, uint32_t i)
{
    (void)m;
    return i < fake_worker.inputs ? &fake_worker.input[i] : NULL;
}
const struct gw_tensor_info *gw_model_output(const struct gw_model *m, uint32_t i)
{
    (void)m;
    return i < fake_worker.outputs ? &fake_worker.output[i] : NULL;
}

void gw_http_busy(const void *connection, int busy)
{
    (void)connection, (void)busy;
}
bool gw_http_is_here(const struct gw_http_request *r)
{
    (void)r;
    return 1;
}
int gw_http_gone(void *connection)
{
    (void)connection;
    return 0;
}
json_t *gw_http_error(const char *why)
{
    return json_pack("{s:s}", "error", *why ? "text" : "");
}

/* No fuzzer has a control: nothing is to pause. */
int gw_control_paused(struct gw_control *c, int (*run)(void *arg, struct gw_infer_error *error), void *arg,
                      struct gw_infer_error *error)
{
    require(!c);
    return run(arg, error);
}

int gw_control_ask(struct gw_control *c, enum gw_control_what what, const char *model,
                   struct gw_infer_error *error)
{
    (void)what, (void)model;
    require(!c);
    return gw_infer_fail(error, GW_INFER_UNAVAILABLE, "not here");
}
