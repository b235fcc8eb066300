/* SPDX-License-Identifier: Apache-2.0 */
/* Reading pieces of files: io_uring, or plain reads. */
#include "reader.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct reader {
    struct io_uring ring;
    bool uring, wide;
    int event;
    uint32_t depth, busy;
    struct reader_piece **done; /* plain reads that have ended: `n` from `first` on, in a circle of depth */
    uint32_t first, n;
};

struct reader *reader_open(uint32_t depth, bool wide)
{
    struct reader *r = (struct reader *)calloc(1, sizeof(*r));

    if (!r) return NULL;
    r->depth = depth;
    r->wide = wide;
    r->event = -1;
    r->done = (struct reader_piece **)calloc(depth, sizeof(*r->done));
    if (!r->done) {
        free(r);
        return NULL;
    }
    r->uring = io_uring_queue_init(depth < 4096 ? depth : 4096, &r->ring, 0) == 0;
    if (!r->uring) return r;
    r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->event >= 0 && io_uring_register_eventfd(&r->ring, r->event) == 0) return r;
    io_uring_queue_exit(&r->ring);
    r->uring = false;
    return r;
}

void reader_close(struct reader *r)
{
    if (!r) return;
    while (r->busy)
        if (!reader_next(r) && r->uring) {
            struct io_uring_cqe *cqe;

            (void)io_uring_wait_cqe(&r->ring, &cqe);
        }
    if (r->uring) io_uring_queue_exit(&r->ring);
    if (r->event >= 0) close(r->event);
    free(r->done);
    free(r);
}

const char *reader_name(const struct reader *r)
{
    return r->uring ? "io_uring" : "plain reads";
}

int reader_fd(const struct reader *r)
{
    return r->uring ? r->event : -1;
}

uint32_t reader_busy(const struct reader *r)
{
    return r->busy;
}

static void read_plainly(struct reader_piece *p)
{
    while (p->got < p->bytes) {
        ssize_t n = pread(p->fd, p->to + p->got, p->bytes - p->got, (off_t)(p->at + p->got));

        if (n > 0)
            p->got += (uint32_t)n;
        else if (n == 0 || errno != EINTR) {
            p->err = n ? -errno : 0;
            return;
        }
    }
}

/* Asks for the rest of a piece. false: the ring is full, or broken. */
static bool reader_ask(struct reader *r, struct reader_piece *p)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

    if (!sqe) return false;
    io_uring_prep_read(sqe, p->fd, p->to + p->got, p->bytes - p->got, p->at + p->got);
    if (r->wide) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    io_uring_sqe_set_data(sqe, p);
    return io_uring_submit(&r->ring) >= 1;
}

void reader_start(struct reader *r, struct reader_piece *p)
{
    p->got = 0;
    p->err = 0;
    r->busy++;
    if (r->uring && reader_ask(r, p)) return;
    read_plainly(p);
    r->done[(r->first + r->n++) % r->depth] = p;
}

struct reader_piece *reader_next(struct reader *r)
{
    struct io_uring_cqe *cqe;
    struct reader_piece *p;

    if (r->n) {
        p = r->done[r->first];
        r->first = (r->first + 1) % r->depth;
        r->n--;
        r->busy--;
        return p;
    }
    while (r->uring && io_uring_peek_cqe(&r->ring, &cqe) == 0) {
        int n = cqe->res;

        p = (struct reader_piece *)io_uring_cqe_get_data(cqe);
        io_uring_cqe_seen(&r->ring, cqe);
        if (n > 0) p->got += (uint32_t)n;
        if (n < 0 && n != -EINTR && n != -EAGAIN) p->err = n;
        /* a short read: the rest */
        if ((n > 0 || n == -EINTR || n == -EAGAIN) && p->got < p->bytes) {
            if (reader_ask(r, p)) continue;
            read_plainly(p);
        }
        r->busy--;
        return p;
    }
    return NULL;
}
