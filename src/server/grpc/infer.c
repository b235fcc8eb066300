/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInfer and ModelStreamInfer. */
#include <stdlib.h>

#include <gpuwire/exec.h>

#include "src/server/grpc/decode.h"
#include "src/server/grpc/methods.h"
#include "src/server/grpc/reply.h"
#include "src/trace/trace.h"

/* A request's own timeout and the call's deadline both end it. */
static int set_time(struct gw_grpc_turn *turn, struct gw_infer_request *q, struct gw_infer_error *error)
{
    uint64_t left = gw_grpc_turn_budget(turn);
    if (left == UINT64_MAX) return 0;
    if (left < 1000) return gw_infer_fail(error, GW_INFER_UNAVAILABLE, "the call's deadline has passed");
    if (!q->timeout_us || q->timeout_us > left / 1000) q->timeout_us = left / 1000;
    return 0;
}

static int fill_all(struct gw_infer_run *run, const struct gw_grpc_request *q, struct gw_infer_error *error)
{
    for (uint32_t i = 0; i < q->infer.inputs; i++) {
        uint64_t bytes;
        void *to = gw_infer_input(run, i, &bytes);
        if (to && gw_grpc_fill(q, i, gw_infer_input_info(run, i)->dtype, to, bytes, error)) return -1;
    }
    return 0;
}

static int grpc_infer_is_gone(void *turn)
{
    return gw_grpc_turn_cancelled(turn);
}

/* Logs a request that is over. With `answer` NULL it failed, and *error says why. The run is there still. */
static void grpc_infer_log_line(const struct gw_grpc_service *s, struct gw_access_request *line,
                                const struct gw_infer_run *run, struct gw_grpc_message *answer,
                                const struct gw_infer_error *error)
{
    if (run) gw_infer_account(run, line);
    if (answer) {
        line->out = gw_grpc_message_length(answer);
    } else {
        line->status = (unsigned)gw_infer_grpc_status(error->code);
        line->error = error->text;
    }
    line->total_ns = gw_deadline(0) - line->total_ns;
    gw_access_log(gw_infer_access(s->infer), line);
}

static struct gw_grpc_message *infer(const struct gw_grpc_service *s, struct gw_grpc_turn *turn,
                                     struct gw_grpc_request *q, struct gw_infer_error *error)
{
    struct gw_access_request line = {
        .client = gw_grpc_turn_who(turn), .door = "grpc", .total_ns = gw_deadline(0)};
    struct gw_infer_run *run = NULL;
    struct gw_grpc_message *answer = NULL;
    size_t bytes = 0;
    const uint8_t *message = gw_grpc_turn_message(turn, &bytes);
    line.in = bytes;
    if (!gw_grpc_decode(message, bytes, q, error)) {
        line.model = q->infer.model;
        GW_TRACE(server, grpc_request, line.client, line.model, bytes);
        line.id = q->id;
        q->infer.who = line.client;
        q->infer.gone = grpc_infer_is_gone;
        q->infer.ctx = turn;
        if (!set_time(turn, &q->infer, error) && !gw_infer_begin(s->infer, &q->infer, &run, error) &&
            !fill_all(run, q, error) && !gw_infer_wait(run, error)) {
            answer = gw_grpc_infer_response(run, &q->infer, q->id, gw_grpc_turn_streams(turn));
            if (!answer) gw_infer_fail(error, GW_INFER_INTERNAL, "the server has no memory left");
        }
    }
    grpc_infer_log_line(s, &line, run, answer, error);
    gw_infer_end(run);
    return answer;
}

void gw_grpc_model_infer(void *service, struct gw_grpc_turn *turn)
{
    struct gw_infer_error error = {.code = GW_INFER_INTERNAL};
    struct gw_grpc_request *q = calloc(1, sizeof(*q));
    if (!q) {
        gw_grpc_refuse(turn, GW_GRPC_RESOURCE_EXHAUSTED, "the server has no memory left");
        return;
    }
    struct gw_grpc_message *answer = infer(service, turn, q, &error);
    if (!answer && gw_grpc_turn_streams(turn)) answer = gw_grpc_stream_error(q->id ? q->id : "", error.text);
    gw_grpc_request_free(q);
    if (answer)
        gw_grpc_answer(turn, answer);
    else
        gw_grpc_fail(turn, &error);
    free(q);
}
