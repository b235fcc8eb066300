/* SPDX-License-Identifier: Apache-2.0 */
/* For fuzzers of what stands above src/server/worker/call.h: a worker that takes requests over RDMA only. */
#include "src/server/worker/call.h"

#include "src/door/httpd.h"
#include "src/server/worker/worker.h"
#include "tests/fuzz/serve_world.h"

struct gw_calls *gw_worker_calls(const struct gw_worker *w)
{
    (void)w;
    return NULL;
}
bool gw_worker_resident(const struct gw_worker *w, uint32_t i)
{
    (void)w, (void)i;
    return 0;
}
const struct gw_resident_choice *gw_worker_choice(const struct gw_worker *w, uint32_t i)
{
    static const struct gw_resident_choice none;
    (void)w, (void)i;
    return &none;
}

uint32_t gw_worker_batches(const struct gw_worker *w, uint32_t rows[GW_SERVE_VARIANTS])
{
    (void)w;
    rows[0] = 1;
    return 1;
}
const char *gw_http_header(const struct gw_http_request *r, const char *name)
{
    (void)r, (void)name;
    return NULL;
}

/* There are no calls, so these are never reached. */
uint32_t gw_calls_rows(const struct gw_calls *c)
{
    require(!c);
    return 0;
}
uint32_t gw_calls_size(const struct gw_calls *c)
{
    require(!c);
    return 0;
}
uint32_t gw_calls_taken(struct gw_calls *c)
{
    require(!c);
    return 0;
}
uint32_t gw_calls_held(struct gw_calls *c)
{
    require(!c);
    return 0;
}
int gw_call_cancel(struct gw_call *call)
{
    (void)call;
    require(0);
    return -1;
}
void gw_calls_hold(struct gw_calls *c)
{
    require(!c);
}
void gw_calls_release(struct gw_calls *c)
{
    require(!c);
}
int gw_call_take(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_call **out)
{
    (void)who, (void)deadline_ns, (void)out;
    require(!c);
    return -1;
}
void gw_call_give(struct gw_call *call)
{
    require(!call);
}
void *gw_call_input(struct gw_call *call, uint32_t i, uint32_t rows, uint64_t *bytes)
{
    (void)i, (void)rows, (void)bytes;
    require(!call);
    return NULL;
}
const void *gw_call_output(const struct gw_call *call, uint32_t i, uint64_t *bytes)
{
    (void)i, (void)bytes;
    require(!call);
    return NULL;
}
int gw_call_submit(struct gw_call *call, const struct gw_call_ask *ask)
{
    (void)ask;
    require(!call);
    return -1;
}
int gw_call_wait(struct gw_call *call, uint64_t deadline_ns)
{
    (void)deadline_ns;
    require(!call);
    return -1;
}
int gw_call_enter_slot(struct gw_call *call, uint8_t **in, uint8_t **out)
{
    (void)in, (void)out;
    require(!call);
    return -1;
}
void gw_call_leave_slot(struct gw_call *call)
{
    require(!call);
}
const struct gw_layout *gw_call_layout(const struct gw_call *call, int output)
{
    (void)output;
    require(!call);
    return NULL;
}
