/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC message as it travels: five bytes in front (a flag, and the length), then the message. And the other
 * way round: the bytes of a call become messages. */
#ifndef GW_SERVER_GRPC_WIRE_MESSAGE_H
#define GW_SERVER_GRPC_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_GRPC_PREFIX 5u

/* free() ends it. */
struct gw_grpc_message {
    struct gw_grpc_message *next; /* of the owner's list */
    size_t size;                  /* in all, with the five bytes */
    size_t at;                    /* how many of them have come, or have left */
    uint8_t bytes[];
};

/* Of `length` bytes after the first five, which it fills in. NULL: no memory, or gRPC has no such length. */
struct gw_grpc_message *gw_grpc_message_new(uint64_t length);

static inline uint8_t *gw_grpc_message_body(struct gw_grpc_message *m)
{
    return m->bytes + GW_GRPC_PREFIX;
}
static inline size_t gw_grpc_message_length(const struct gw_grpc_message *m)
{
    return m->size - GW_GRPC_PREFIX;
}

/* Takes the first out of a list, which is not empty. */
static inline struct gw_grpc_message *gw_grpc_message_first(struct gw_grpc_message **list)
{
    struct gw_grpc_message *m = *list;
    *list = m->next;
    return m;
}

/* The message that is coming in. Zero is a good beginning. */
struct gw_grpc_inbox {
    uint8_t head[GW_GRPC_PREFIX];
    uint32_t heads; /* bytes of it */
    struct gw_grpc_message *message;
};

enum gw_grpc_inbox_news {
    GW_GRPC_INBOX_MORE,  /* all bytes were taken */
    GW_GRPC_INBOX_HEAD,  /* a message's length is known: gw_grpc_inbox_begin, then go on */
    GW_GRPC_INBOX_WHOLE, /* a message is there: gw_grpc_inbox_take, then go on */
};

/* Takes bytes of the call, and says in *used how many. */
enum gw_grpc_inbox_news gw_grpc_inbox_put(struct gw_grpc_inbox *in, const uint8_t *data, size_t n,
                                          size_t *used);
uint32_t gw_grpc_inbox_length(const struct gw_grpc_inbox *in);
/* The first byte: 0 stands for a message that is not compressed. */
uint8_t gw_grpc_inbox_flag(const struct gw_grpc_inbox *in);
/* 0 or -ENOMEM. */
int gw_grpc_inbox_begin(struct gw_grpc_inbox *in);
struct gw_grpc_message *gw_grpc_inbox_take(struct gw_grpc_inbox *in);
/* Is it between two messages? */
bool gw_grpc_inbox_is_empty(const struct gw_grpc_inbox *in);
void gw_grpc_inbox_free(struct gw_grpc_inbox *in);

#endif
