/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the five bytes in front of a gRPC message, and joins received bytes into messages. */
#include "src/server/grpc/wire/message.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct gw_grpc_message *gw_grpc_message_new(uint64_t length)
{
    if (length > UINT32_MAX) return NULL;
    struct gw_grpc_message *m = malloc(sizeof(*m) + GW_GRPC_PREFIX + length);
    if (!m) return NULL;
    m->next = NULL;
    m->size = GW_GRPC_PREFIX + length;
    m->at = 0;
    m->bytes[0] = 0; /* it is not compressed */
    for (int i = 0; i < 4; i++) m->bytes[1 + i] = (uint8_t)(length >> (24 - 8 * i));
    return m;
}

/* As many of `n` bytes as there is room for. */
static size_t grpc_message_least(size_t n, size_t room)
{
    return n < room ? n : room;
}

enum gw_grpc_inbox_news gw_grpc_inbox_put(struct gw_grpc_inbox *in, const uint8_t *data, size_t n,
                                          size_t *used)
{
    struct gw_grpc_message *m = in->message;
    *used = 0;
    if (!m) {
        *used = grpc_message_least(n, GW_GRPC_PREFIX - in->heads);
        memcpy(in->head + in->heads, data, *used);
        in->heads += (uint32_t)*used;
        return in->heads == GW_GRPC_PREFIX ? GW_GRPC_INBOX_HEAD : GW_GRPC_INBOX_MORE;
    }
    *used = grpc_message_least(n, m->size - m->at);
    memcpy(m->bytes + m->at, data, *used);
    m->at += *used;
    return m->at == m->size ? GW_GRPC_INBOX_WHOLE : GW_GRPC_INBOX_MORE;
}

uint32_t gw_grpc_inbox_length(const struct gw_grpc_inbox *in)
{
    const uint8_t *h = in->head + 1;
    return (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
}

uint8_t gw_grpc_inbox_flag(const struct gw_grpc_inbox *in)
{
    return in->head[0];
}

int gw_grpc_inbox_begin(struct gw_grpc_inbox *in)
{
    in->message = gw_grpc_message_new(gw_grpc_inbox_length(in));
    if (!in->message) return -ENOMEM;
    in->message->at = GW_GRPC_PREFIX;
    return 0;
}

struct gw_grpc_message *gw_grpc_inbox_take(struct gw_grpc_inbox *in)
{
    struct gw_grpc_message *m = in->message;
    *in = (struct gw_grpc_inbox){0};
    return m;
}

bool gw_grpc_inbox_is_empty(const struct gw_grpc_inbox *in)
{
    return !in->heads;
}

void gw_grpc_inbox_free(struct gw_grpc_inbox *in)
{
    free(in->message);
    *in = (struct gw_grpc_inbox){0};
}
