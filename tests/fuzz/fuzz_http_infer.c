/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inference requests over HTTP: any headers, any body, in any pieces, for a model of two inputs whose worker
 * answers, fails or is gone. These must hold. No byte is written beside the slot: the inputs' memory is
 * exactly as large as it must be. Every slot comes back. An answer is JSON. An answered request was complete.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/server/http/infer.h"
#include "src/server/requests/local.h"
#include "src/server/worker/call.h"
#include "tests/fuzz/fake_worker.h"
#include "tests/fuzz/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 3 };

/* ---- a worker that is one slot ---- */

static const struct gw_tensor_info inputs[] = {
    {.name = "x", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, 3}, .bytes = 12, .batched = 1},
    {.name = "n", .dtype = GW_DTYPE_I16, .rank = 2, .dims = {1, 2}, .bytes = 4, .batched = 1},
};
static const struct gw_tensor_info outputs[] = {
    {.name = "y", .dtype = GW_DTYPE_F32, .rank = 2, .dims = {1, 3}, .bytes = 12, .batched = 1},
    {.name = "h", .dtype = GW_DTYPE_F16, .rank = 1, .dims = {2}, .bytes = 4},
};
const struct fake_worker fake_worker = {
    .name = "m", .inputs = 2, .outputs = 2, .input = inputs, .output = outputs, .run_error = -EIO};

static struct {
    struct gw_call call;
    struct gw_serve_reply reply;
    int taken, held, fate, inside, looks;
    uint32_t rows;
    uint8_t *in[2], *out[2];
    const char *header, *length;
} f;

static uint64_t bytes_of(const struct gw_tensor_info *t, uint32_t rows)
{
    return t->bytes * (t->batched ? rows : 1);
}

uint32_t gw_worker_slots(const struct gw_worker *w)
{
    (void)w;
    return 1;
}
void gw_infer_worker_stats(const struct gw_worker *w, struct gw_infer_stats *out)
{
    (void)w, (void)out;
    require(0); /* no request asks for them */
}
struct gw_calls *gw_worker_calls(const struct gw_worker *w)
{
    return (struct gw_calls *)w; /* nothing looks inside */
}
uint32_t gw_calls_rows(const struct gw_calls *c)
{
    (void)c;
    return ROWS;
}
void gw_calls_hold(struct gw_calls *c)
{
    (void)c;
    require(!f.held++);
}
void gw_calls_release(struct gw_calls *c)
{
    (void)c;
    require(f.held-- == 1);
}
int gw_call_take(struct gw_calls *c, const char *who, uint64_t deadline_ns, struct gw_call **out)
{
    (void)c, (void)who, (void)deadline_ns;
    if (f.fate == 7) return -EAGAIN;
    require(!f.taken);
    f.taken = 1;
    f.rows = 0;
    *out = &f.call;
    return 0;
}
void gw_call_give(struct gw_call *call)
{
    if (!call) return;
    require(f.taken);
    f.taken = 0;
    for (int i = 0; i < 2; i++) {
        free(f.in[i]);
        free(f.out[i]);
        f.in[i] = f.out[i] = NULL;
    }
}
/* Memory that is made when it is asked for, so that the sanitizer knows its end. */
void *gw_call_input(struct gw_call *call, uint32_t i, uint32_t rows, uint64_t *bytes)
{
    (void)call;
    require(f.taken && rows >= 1 && rows <= ROWS && i < 2 && (!f.rows || f.rows == rows));
    f.rows = rows;
    *bytes = bytes_of(&inputs[i], rows);
    if (!f.in[i]) f.in[i] = malloc(*bytes);
    return f.in[i];
}
const struct gw_layout *gw_call_layout(const struct gw_call *call, int output)
{
    static struct gw_layout layout[2];
    (void)call;
    require(!gw_layout_of_model(NULL, output, ROWS, &layout[output]));
    return &layout[output];
}
/* It is asked for when a tensor is to lie in shared memory, and no GPU reaches it. */
int gw_call_enter_slot(struct gw_call *call, uint8_t **in, uint8_t **out)
{
    static uint8_t slot[256];
    (void)call;
    require(f.taken && !f.inside++);
    *in = *out = slot;
    if (f.fate == 6) f.inside = 0;
    return f.fate == 6 ? -EIO : 0;
}
void gw_call_leave_slot(struct gw_call *call)
{
    (void)call;
    require(f.inside-- == 1);
}
int gw_call_submit(struct gw_call *call, const struct gw_call_ask *ask)
{
    require(!f.inside && !(ask->flags & ~GW_SERVE_RECALL));
    require(f.taken && ask->rows == f.rows);
    call->error = f.fate == 1 ? -EREMOTEIO : f.fate == 2 ? -ETIME : f.fate == 3 ? -ESHUTDOWN : 0;
    return f.fate == 4 ? -EIO : 0;
}
int gw_call_cancel(struct gw_call *call)
{
    (void)call;
    require(0); /* no client goes */
    return -1;
}
/* A model that is slow has not ended at the first looks. */
int gw_call_wait(struct gw_call *call, uint64_t deadline_ns)
{
    (void)call, (void)deadline_ns;
    return f.fate == 5 && f.looks++ < 3 ? -ETIMEDOUT : 0;
}
const void *gw_call_output(const struct gw_call *call, uint32_t i, uint64_t *bytes)
{
    (void)call;
    *bytes = bytes_of(&outputs[i], f.rows);
    if (!f.out[i]) f.out[i] = calloc(1, *bytes);
    return f.out[i];
}

/* ---- the server around it ---- */

const char *gw_http_header(const struct gw_http_request *r, const char *name)
{
    (void)r;
    return strcmp(name, "Content-Length") ? f.header : f.length;
}

static void check(struct gw_http_answer *a)
{
    json_t *json = a->json ? a->json : json_loadb(a->text, a->bytes, 0, NULL);
    require(a->status == 200 || (a->status >= 400 && a->status < 600));
    require(json_is_object(json) && (a->status == 200) == !json_object_get(json, "error"));
    require(a->status != 200 || json_array_size(json_object_get(json, "outputs")) > 0);
    if (a->status != 200) require(*json_string_value(json_object_get(json, "error")));
    for (uint32_t i = 0; i < a->parts; i++) {
        uint8_t sum = 0;
        for (size_t k = 0; k < a->part[i].bytes; k++) sum |= ((const uint8_t *)a->part[i].data)[k];
        require(!sum); /* what the worker answered */
    }
    json_decref(json);
    free(a->text);
    if (a->release) a->release(a->ctx);
}

/* Sound requests, to be damaged in a few places: few inputs get that far by themselves. */
static const char *const sound[] = {
    "{\"id\":\"a\",\"inputs\":[{\"name\":\"x\",\"shape\":[2,3],\"datatype\":\"FP32\",\"data\":[[1,2,3],[4,5."
    "5,-6e1]]},"
    "{\"name\":\"n\",\"shape\":[2,2],\"datatype\":\"INT16\",\"data\":[1,-2,3,4]}],\"outputs\":[{\"name\":"
    "\"y\"}]}",
    "{\"inputs\":[{\"name\":\"n\",\"shape\":[1,2],\"datatype\":\"INT16\",\"parameters\":{\"binary_data_"
    "size\":4}},"
    "{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":12}}],"
    "\"parameters\":{\"binary_data_output\":true,\"timeout\":900,\"priority\":2}}",
    "{\"inputs\":[{\"name\":\"n\",\"shape\":[1,2],\"datatype\":\"INT16\",\"parameters\":"
    "{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":4,\"shared_memory_offset\":1}},"
    "{\"name\":\"x\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,2,3]}],\"outputs\":[{\"name\":\"h\","
    "\"parameters\":"
    "{\"binary_data\":true}},{\"name\":\"y\",\"parameters\":{\"classification\":1}}]}",
};

/* One of them, with up to seven places replaced by other bytes. Returns its length. */
static size_t damaged(struct stream *in, char text[512])
{
    const char *from = sound[take8(in) % 3];
    size_t n = strlen(from);
    memcpy(text, from, n + 1);
    for (uint32_t left = take8(in) & 7; left; left--) {
        size_t at = (take8(in) | (size_t)take8(in) << 8) % n;
        text[at] = (char)take8(in);
    }
    return n;
}

static void send_pieces(struct gw_http_infer *c, const char *data, size_t bytes, size_t step)
{
    while (bytes) {
        size_t n = step && step < bytes ? step : bytes;
        gw_http_infer_piece(c, data, n);
        data += n;
        bytes -= n;
    }
}

static void one(struct gw_infer *infer, struct stream *in)
{
    char text[512];
    size_t first = 0;
    struct gw_room room;
    char header[24], length[24];
    uint8_t how = take8(in);
    gw_room_open(&room, 1 << 21);
    struct gw_http_infer_opts opts = {infer, how & 1 ? 1 << 20 : 200, &room};
    struct gw_http_request r = {"POST", how & 2 ? "/v2/models/m/versions/1/infer" : "/v2/models/m/infer",
                                NULL, &f, "user 1"};
    struct gw_http_answer answer = {0};
    f.fate = take8(in) & 7;
    f.looks = 0;
    uint32_t step = take8(in);
    snprintf(header, sizeof(header), "%u", take8(in) | take8(in) << 8);
    if (how & 32) first = damaged(in, text);
    if (how & 64) snprintf(header, sizeof(header), "%zu", first);
    snprintf(length, sizeof(length), "%zu", first + in->left);
    f.header = how & 4 ? header : NULL; /* Inference-Header-Content-Length */
    f.length = how & 8 ? length : NULL;
    require(gw_http_is_infer(r.path));
    struct gw_http_infer *c = gw_http_infer_open(&opts, &r);
    require(c != NULL);
    send_pieces(c, text, first, step);
    send_pieces(c, (const char *)in->p, in->left, step);
    if (!(how & 16)) gw_http_infer_finish(c, &answer); /* else the connection ended */
    gw_http_infer_free(c);
    if (!(how & 16)) check(&answer);
    require(!f.taken && !room.held && !room.first);
    gw_room_close(&room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream in = {data, size};
    static const size_t count = 1;
    struct gw_worker *worker = (struct gw_worker *)&f; /* there is one, and nothing looks inside */
    struct gw_infer_local local = {.worker = &worker, .workers = &count};
    struct gw_infer_opts opts = {.backend = &gw_infer_local, .ctx = &local};
    struct gw_infer *infer;
    require(!gw_infer_create(&opts, &infer));
    f.call.reply = &f.reply;
    one(infer, &in);
    gw_infer_destroy(infer);
    return 0;
}
