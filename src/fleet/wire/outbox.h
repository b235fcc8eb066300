/* SPDX-License-Identifier: Apache-2.0 */
/* What waits until a peer reads. */
#ifndef GW_FLEET_WIRE_OUTBOX_H
#define GW_FLEET_WIRE_OUTBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct fleet_outbox {
    uint8_t *bytes;
    size_t from, to, room;
};

/* Sends long frames at once, if nothing waits; what has not left waits. -ENOBUFS: more than `most` bytes
 * would wait. One frame may be longer than that, if it is alone. */
int fleet_outbox_send(struct fleet_outbox *o, int fd, struct iovec *v, int n, size_t most);

/* 0: all has left; 1: something waits; or a negative errno. */
int fleet_outbox_flush(struct fleet_outbox *o, int fd);

void fleet_outbox_trim(struct fleet_outbox *o);

#endif
