/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a stream into frames. Small frames are taken where they were read; a large one is read into its own
 * memory, which grows with what has come. */
#include "src/fleet/wire/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEAD = sizeof(struct fleet_frame), LEAST_ROOM = 4096 };

static int inbox_check(struct fleet_inbox *in, const struct fleet_frame *f)
{
    in->wrong = f->flags ? "a frame with flags" : "a frame that is too long";
    if (f->flags) return -EPROTO;
    return f->bytes > in->most ? -EMSGSIZE : 0;
}

/* Bytes that the frame in `part` still needs: of its header, then of its body. */
static size_t inbox_lacks(const struct fleet_inbox *in)
{
    struct fleet_frame f;
    if (in->have < HEAD) return HEAD - in->have;
    memcpy(&f, in->part, HEAD);
    return HEAD + f.bytes - in->have;
}

/* Room for `n` bytes more, of which some may have to wait: at least one, and all that were there again. */
static int inbox_grow(struct fleet_inbox *in, size_t n)
{
    size_t room = in->have + n, most = in->have < LEAST_ROOM / 2 ? LEAST_ROOM : 2 * in->have;
    if (room > most) room = most;
    if (room <= in->room) return 0;
    uint8_t *part = realloc(in->part, room);
    if (!part) return -ENOMEM;
    in->part = part;
    in->room = room;
    return 0;
}

/* `n` bytes came into `part`. */
static int inbox_came(struct fleet_inbox *in, size_t n)
{
    struct fleet_frame f;
    size_t had = in->have;
    in->have += n;
    if (in->have < HEAD) return 0;
    memcpy(&f, in->part, HEAD);
    int err = had < HEAD ? inbox_check(in, &f) : 0;
    if (err || in->have < HEAD + (size_t)f.bytes) return err;
    in->have = 0;
    return in->take(in->ctx, &f, in->part + HEAD) ? 0 : -ECANCELED;
}

/* Puts the beginning of `bytes` into `part`; returns how many bytes it took. */
static int64_t inbox_put(struct fleet_inbox *in, const uint8_t *bytes, size_t n)
{
    size_t lacks = inbox_lacks(in), k = n < lacks ? n : lacks;
    int err = inbox_grow(in, k);
    if (err) return err;
    if (k > in->room - in->have) k = in->room - in->have;
    memcpy(in->part + in->have, bytes, k);
    err = inbox_came(in, k);
    return err ? err : (int64_t)k;
}

/* The frame at `bytes`, if it is whole there; returns its bytes, or 0. */
static int64_t inbox_whole(struct fleet_inbox *in, const uint8_t *bytes, size_t n)
{
    struct fleet_frame f;
    if (n < HEAD) return 0;
    memcpy(&f, bytes, HEAD);
    int err = inbox_check(in, &f);
    if (err || n < HEAD + (size_t)f.bytes) return err;
    const uint8_t *body = bytes + HEAD;
    if ((uintptr_t)body % 8) body = memcpy(in->scratch->aligned, body, f.bytes);
    return in->take(in->ctx, &f, body) ? HEAD + (int64_t)f.bytes : -ECANCELED;
}

static int inbox_feed_all(struct fleet_inbox *in, const uint8_t *bytes, size_t n)
{
    while (n) {
        int64_t k = in->have ? 0 : inbox_whole(in, bytes, n);
        if (!k) k = inbox_put(in, bytes, n);
        if (k < 0) return (int)k;
        bytes += k;
        n -= (size_t)k;
    }
    return 0;
}

int fleet_inbox_feed(struct fleet_inbox *in, const uint8_t *bytes, size_t n)
{
    int err = inbox_feed_all(in, bytes, n);
    return err == -ECANCELED ? 0 : err;
}

int64_t fleet_inbox_read(struct fleet_inbox *in, int fd)
{
    size_t lacks = in->have >= HEAD ? inbox_lacks(in) : 0;
    int err = lacks ? inbox_grow(in, lacks) : 0;
    if (err) return err;
    size_t direct = lacks < in->room - in->have ? lacks : in->room - in->have;
    if (!lacks) direct = 0;
    struct iovec v[2] = {{in->part ? in->part + in->have : NULL, direct}, {in->scratch->read, FLEET_SCRATCH}};
    ssize_t n = direct ? readv(fd, v, direct == lacks ? 2 : 1) : read(fd, in->scratch->read, FLEET_SCRATCH);
    if (n < 0) return errno == EINTR ? -EAGAIN : -errno;
    if (!n) return -EPIPE;
    size_t first = (size_t)n < direct ? (size_t)n : direct;
    err = first ? inbox_came(in, first) : 0;
    if (!err) err = inbox_feed_all(in, in->scratch->read, (size_t)n - first);
    return err && err != -ECANCELED ? err : n;
}

void fleet_inbox_trim(struct fleet_inbox *in)
{
    if (in->have) return;
    free(in->part);
    in->part = NULL;
    in->room = 0;
}
