/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/grpc/client.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/compression.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void client_open(struct client *c, const char *server, const char *ca)
{
    grpc_init();
    grpc_arg arg[] = {
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = -1}},
        /* A channel that another test has used must not be used again. */
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
        {GRPC_ARG_STRING, (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, {.string = (char *)"localhost"}},
    };
    grpc_channel_args args = {ca ? 3 : 2, arg};
    grpc_channel_credentials *how =
        ca ? grpc_ssl_credentials_create(ca, NULL, NULL, NULL) : grpc_insecure_credentials_create();
    c->channel = grpc_channel_create(server, how, &args);
    c->cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_channel_credentials_release(how);
}

void client_close(struct client *c)
{
    grpc_channel_destroy(c->channel);
    grpc_completion_queue_shutdown(c->cq);
    while (grpc_completion_queue_pluck(c->cq, NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(c->cq);
    grpc_shutdown_blocking();
}

static int finish(struct client *c, grpc_call *call, const grpc_op *op, size_t n)
{
    int tag;
    if (grpc_call_start_batch(call, op, n, &tag, NULL) != GRPC_CALL_OK) abort();
    return grpc_completion_queue_pluck(c->cq, &tag, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).success;
}

static grpc_call *make_call(struct client *c, const char *method, unsigned timeout_ms)
{
    gpr_timespec until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_millis(timeout_ms ? timeout_ms : 30000, GPR_TIMESPAN));
    grpc_slice path = grpc_slice_from_copied_string(method);
    grpc_call *call = grpc_channel_create_call(c->channel, NULL, 0, c->cq, path, NULL, until, NULL);
    grpc_slice_unref(path);
    return call;
}

static void take_message(struct answer *a, grpc_byte_buffer *buffer)
{
    grpc_byte_buffer_reader reader;
    if (!buffer) return;
    if (!grpc_byte_buffer_reader_init(&reader, buffer)) abort();
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    a->size = GRPC_SLICE_LENGTH(all);
    a->bytes = malloc(a->size + 1);
    if (!a->bytes) abort();
    memcpy(a->bytes, GRPC_SLICE_START_PTR(all), a->size);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(buffer);
}

static void take_status(struct answer *a, grpc_status_code status, grpc_slice why)
{
    char *text = grpc_slice_to_c_string(why);
    a->status = (int)status;
    snprintf(a->why, sizeof(a->why), "%s", text);
    gpr_free(text);
    grpc_slice_unref(why);
}

struct answer client_ask(struct client *c, const struct ask *q)
{
    struct answer a = {0};
    grpc_call *call = make_call(c, q->method, q->timeout_ms);
    grpc_slice message = grpc_slice_from_copied_buffer(q->bytes ? q->bytes : "", q->size), why;
    grpc_byte_buffer *out = grpc_raw_byte_buffer_create(&message, 1), *in = NULL;
    grpc_metadata_array first, last;
    grpc_status_code status;
    grpc_metadata sent[1] = {
        {.key = grpc_slice_from_static_string("authorization"),
         .value = grpc_slice_from_static_string(q->authorization ? q->authorization : "")},
    };
    grpc_metadata_array_init(&first);
    grpc_metadata_array_init(&last);
    grpc_op op[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = q->authorization != NULL,
                                        .metadata = sent,
                                        .maybe_compression_level = {(uint8_t)q->gzip,
                                                                    GRPC_COMPRESS_LEVEL_HIGH}}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = out},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &first},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &in},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &last,
                                        .status = &status,
                                        .status_details = &why}},
    };
    finish(c, call, op, sizeof(op) / sizeof(op[0]));
    take_message(&a, in);
    take_status(&a, status, why);
    grpc_metadata_array_destroy(&first);
    grpc_metadata_array_destroy(&last);
    grpc_byte_buffer_destroy(out);
    grpc_slice_unref(message);
    grpc_call_unref(call);
    return a;
}

void answer_free(struct answer *a)
{
    free(a->bytes);
    *a = (struct answer){0};
}

/* ---- streams ---- */

void stream_open(struct client *c, const char *method, struct stream *s)
{
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    *s = (struct stream){c, make_call(c, method, 0), 0};
    finish(c, s->call, &op, 1);
}

int stream_send(struct stream *s, const void *bytes, size_t size)
{
    grpc_slice message = grpc_slice_from_copied_buffer(bytes, size);
    grpc_byte_buffer *out = grpc_raw_byte_buffer_create(&message, 1);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = out};
    int sent = finish(s->client, s->call, &op, 1);
    grpc_byte_buffer_destroy(out);
    grpc_slice_unref(message);
    return sent ? 0 : -1;
}

struct answer stream_receive(struct stream *s)
{
    struct answer a = {0};
    grpc_byte_buffer *in = NULL;
    grpc_metadata_array first;
    grpc_metadata_array_init(&first);
    grpc_op op[] = {
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &in},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &first}};
    finish(s->client, s->call, op, s->begun ? 1 : 2);
    s->begun = 1;
    grpc_metadata_array_destroy(&first);
    take_message(&a, in);
    return a;
}

void stream_end_of_input(struct stream *s)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    finish(s->client, s->call, &op, 1);
}

int stream_close(struct stream *s)
{
    struct answer a = {0};
    grpc_status_code status;
    grpc_slice why;
    grpc_metadata_array last;
    grpc_metadata_array_init(&last);
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                  .data.recv_status_on_client = {
                      .trailing_metadata = &last, .status = &status, .status_details = &why}};
    finish(s->client, s->call, &op, 1);
    take_status(&a, status, why);
    grpc_metadata_array_destroy(&last);
    grpc_call_unref(s->call);
    return a.status;
}

void stream_cancel(struct stream *s)
{
    grpc_call_cancel(s->call, NULL);
    stream_close(s);
}
