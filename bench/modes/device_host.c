/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a GPU: the model copies as much of its input as its output holds, and zeros follow. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/modes/device.h"
#include "bench/modes/header.h"

struct modes_device {
    struct modes_device_opts opts;
    uint64_t requests;
};

static int create(const struct modes_device_opts *opts, struct modes_device **out)
{
    struct modes_device *d = calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->opts = *opts;
    *out = d;
    return 0;
}

static int run(struct modes_device *d, const struct modes_work *work)
{
    const struct modes_device_opts *o = &d->opts;
    const struct gw_serve_request *request = work->request;
    struct gw_serve_reply *reply = work->reply;
    uint64_t n = o->in_bytes < o->out_bytes ? o->in_bytes : o->out_bytes;
    memcpy(reply + 1, request + 1, n);
    memset((uint8_t *)(reply + 1) + n, 0, o->out_bytes - n);
    if (o->kind != MODES_COPY) modes_header(reply, request, o->out_bytes, work->arrived, work->started);
    d->requests++;
    return 0;
}

static void rest(struct modes_device *d)
{
    (void)d;
}

static void times(const struct modes_device *d, struct modes_times *t)
{
    *t = (struct modes_times){.requests = d->requests};
}

static void destroy(struct modes_device *d)
{
    free(d);
}

const struct modes_device_ops modes_on_host = {create, run, rest, times, destroy};
