/* SPDX-License-Identifier: Apache-2.0 */
/* Frames out of a stream of bytes. A length that a stranger claims takes no memory before its bytes come. */
#ifndef GW_FLEET_WIRE_INBOX_H
#define GW_FLEET_WIRE_INBOX_H

#include "src/fleet/wire/loop.h"

struct fleet_inbox {
    uint32_t most;     /* bytes of a frame, without its header */
    uint8_t *part;     /* the frame that is not whole yet */
    size_t have, room; /* bytes of it, and of its memory */
    const char *wrong; /* after -EPROTO and -EMSGSIZE: why */
    struct fleet_scratch_room *scratch;
    /* Gets each whole frame, its body at a multiple of 8. False: it wants no more. */
    bool (*take)(void *ctx, const struct fleet_frame *frame, const void *body);
    void *ctx;
};

/* Takes bytes of the stream, FLEET_SCRATCH at most. 0 or a negative errno: the stream makes no sense, or
 * there is no memory. */
int fleet_inbox_feed(struct fleet_inbox *in, const uint8_t *bytes, size_t n);

/* Reads once. The number of bytes; -EAGAIN: there are none; -EPIPE: the peer has closed; or as above. */
int64_t fleet_inbox_read(struct fleet_inbox *in, int fd);

/* Gives memory back that no frame needs now. */
void fleet_inbox_trim(struct fleet_inbox *in);

#endif
