/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's ring: requests, what comes of them, and bells of kernels. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "src/socket/proxy.h"

#define ENTRIES     256u
#define CQ_MAX      16384u
#define OP_BITS     8
#define NOBODY      0xffffffu /* the set's own requests */
#define LOOKS_MAX   4u        /* looks that requests wait at most while kernels ring and ring */
#define PENDING_MAX 64u
#define ASK_EVERY   64u
#define LEAVE_NS    1000000000u /* requests that are cancelled end at once; nothing waits forever */

/* ---- requests ----------------------------------------------------------------------------------------- */

/* The ring has failed: every socket of the host's has, and what kernels ask is refused from now on. */
static void sock_proxy_give_up(struct gw_sockets *set, int err)
{
    if (set->proxy->error) return;
    set->proxy->error = err;
    io_uring_queue_exit(
        &set->proxy->ring); /* ends all requests: nothing writes to the sockets' rings any more */
    for (uint32_t i = 0; i < set->attr.count; i++) {
        struct sock *k = &set->sock[i];

        if (k->fd < 0) continue;
        k->requests = 0;
        if (k->step == SOCK_CONNECTED) {
            gw_host_stream_fail(set, k, -ENETDOWN);
        } else if (k->step == SOCK_LISTENING || (k->step == SOCK_ASKED && !k->id)) {
            k->info->error = -ENETDOWN;
            gw_sock_publish(set, k, k->step == SOCK_ASKED ? GW_SOCK_FAILED_ : GW_SOCK_DOWN_);
            k->step = SOCK_FAILED;
        } else if (k->step == SOCK_CLOSING) {
            gw_sock_closed(set, k);
        }
    }
}

int gw_socket_proxy_error(const struct gw_sockets *set)
{
    return !set->proxy ? -EOPNOTSUPP : set->proxy->error ? -ENETDOWN : 0;
}

/* May a call that has returned this be made again? */
static bool passing(int err)
{
    return err >= 0 || err == -ETIME || err == -EINTR || err == -EAGAIN || err == -EBUSY;
}

struct io_uring_sqe *gw_socket_proxy_sqe(struct gw_sockets *set, struct sock *k, enum gw_socket_proxy_op op)
{
    struct gw_socket_proxy *p = set->proxy;
    struct io_uring_sqe *sqe = p->error ? NULL : io_uring_get_sqe(&p->ring);

    if (!sqe && !p->error) {
        int err = io_uring_submit(&p->ring);

        sqe = io_uring_get_sqe(&p->ring);
        if (!sqe) sock_proxy_give_up(set, err < 0 ? err : -EBUSY);
    }
    if (!sqe) sqe = &p->spare;
    /* An attempt's time may end when the socket is another one: it then counts for no socket. */
    if (k && sqe != &p->spare && op != PROXY_TRY) k->requests++;
    sqe->user_data = (k ? (uint32_t)(k - set->sock) : NOBODY) << OP_BITS | (uint32_t)op;
    if (op == PROXY_TRY) sqe->user_data |= (uint64_t)k->attempt << 32;
    return sqe;
}

static void watch_wake(struct gw_sockets *set)
{
    struct io_uring_sqe *sqe = gw_socket_proxy_sqe(set, NULL, PROXY_WAKE);

    io_uring_prep_read(sqe, set->helper.fd[0], &set->proxy->woken, sizeof(set->proxy->woken), 0);
}

static void watch_channel(struct gw_sockets *set)
{
    struct io_uring_sqe *sqe;

    if (!set->channel) return;
    sqe = gw_socket_proxy_sqe(set, NULL, PROXY_CHANNEL);
    io_uring_prep_poll_multishot(sqe, set->channel->fd, POLLIN);
}

/* ---- what comes of them ------------------------------------------------------------------------------- */

static void sock_proxy_ended(struct gw_sockets *set, const struct io_uring_cqe *cqe)
{
    uint32_t i = (uint32_t)cqe->user_data >> OP_BITS;
    enum gw_socket_proxy_op op = cqe->user_data & ((1 << OP_BITS) - 1);
    struct sock *k = i < set->attr.count ? &set->sock[i] : NULL;

    if (op == PROXY_TRY) {
        gw_try_late(set, k, (uint32_t)(cqe->user_data >> 32));
        return;
    }
    GW_ASSERT(!k || (k->requests && k->step != SOCK_FREE));
    if (k && !(cqe->flags & IORING_CQE_F_MORE)) k->requests--;
    switch (op) {
    case PROXY_WAKE: watch_wake(set); return;
    case PROXY_CHANNEL:
        gw_sock_cm_events(set);
        if (!(cqe->flags & IORING_CQE_F_MORE)) watch_channel(set);
        return;
    case PROXY_LISTEN: gw_socket_proxy_listening(set, k, cqe->res); break;
    case PROXY_CONNECT: gw_socket_proxy_connected(set, k, cqe->res); break;
    case PROXY_RECV:
        gw_host_stream_received(set, k, cqe->res, cqe->flags & IORING_CQE_F_SOCK_NONEMPTY);
        break;
    case PROXY_SEND: gw_host_stream_sent(set, k, cqe->res); break;
    case PROXY_RECVMSG: gw_host_datagram_received(set, k, cqe->res); break;
    case PROXY_SENDMSG: gw_host_datagram_sent(set, k, cqe->res); break;
    case PROXY_WATCH: gw_host_stream_watched(set, k, cqe->res); break;
    default: break;
    }
    if (k->step == SOCK_CLOSING && !k->requests) gw_sock_closed(set, k);
}

static bool sock_proxy_reap(struct gw_sockets *set)
{
    struct io_uring *ring = &set->proxy->ring;
    struct io_uring_cqe *cqe, copy;
    bool any = false;

    while (!set->proxy->error && io_uring_peek_cqe(ring, &cqe) == 0) {
        copy = *cqe;
        io_uring_cqe_seen(ring, cqe); /* before it is looked at: room for what that may bring */
        sock_proxy_ended(set, &copy);
        any = true;
    }
    return any;
}

/* ---- bells -------------------------------------------------------------------------------------------- */

static bool answer_bells(struct gw_sockets *set)
{
    uint32_t groups = (set->attr.count + GW_BELL_GROUP_ - 1) / GW_BELL_GROUP_;
    bool any = false;

    for (uint32_t g = 0; g < groups; g++) {
        if (!gw_ld_relaxed_u8(&set->groups[g])) continue;
        gw_st_relaxed_u8(&set->groups[g], 0);
        gw_fence_sc(); /* cleared before the bells are looked at: who rings after that look sets it again */
        for (uint32_t i = g * GW_BELL_GROUP_; i < (g + 1) * GW_BELL_GROUP_ && i < set->attr.count; i++) {
            if (!gw_ld_relaxed_u8(&set->bells[i])) continue;
            gw_st_relaxed_u8(&set->bells[i], 0);
            gw_fence_sc(); /* as above, and what was written before the bell is seen */
            gw_host_stream_serve(set, &set->sock[i]);
        }
        any = true;
    }
    return any;
}

/* ---- the thread --------------------------------------------------------------------------------------- */

bool gw_socket_proxy_look(struct gw_sockets *set)
{
    struct gw_socket_proxy *p = set->proxy;
    uint32_t pending = p->error ? 0 : io_uring_sq_ready(&p->ring);
    bool any;

    if (pending > PENDING_MAX || (pending && p->looks++ >= LOOKS_MAX)) gw_socket_proxy_wait(set, 0);
    any = sock_proxy_reap(set);
    return answer_bells(set) || any;
}

/* Would a call that does not wait do anything? The kernel says whether it has completions to make; now and
 * then it is asked all the same, for that a ring which has failed says nothing. */
static bool sock_proxy_due(struct gw_socket_proxy *p)
{
    const unsigned news = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;

    return io_uring_sq_ready(&p->ring) || __atomic_load_n(p->ring.sq.kflags, __ATOMIC_RELAXED) & news ||
           ++p->idle % ASK_EVERY == 0;
}

void gw_socket_proxy_wait(struct gw_sockets *set, uint64_t ns)
{
    struct __kernel_timespec t = {.tv_sec = (int64_t)(ns / 1000000000u),
                                  .tv_nsec = (int64_t)(ns % 1000000000u)};
    struct gw_socket_proxy *p = set->proxy;
    struct io_uring_cqe *cqe;
    int err;

    p->looks = 0;
    if (!ns)
        err = sock_proxy_due(p) ? io_uring_submit_and_get_events(&p->ring) : 0;
    else if (ns == GW_NEVER)
        err = io_uring_submit_and_wait(&p->ring, 1);
    else
        err = io_uring_submit_and_wait_timeout(&p->ring, &cqe, 1, &t, NULL);
    if (!passing(err)) sock_proxy_give_up(set, err);
}

void gw_socket_proxy_enter(struct gw_sockets *set)
{
    /* This thread submits from now on, and no other. liburing 2.3 forgets to export its function for that. */
    if (syscall(__NR_io_uring_register, set->proxy->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) <
        0) {
        sock_proxy_give_up(set, -errno);
        return;
    }
    watch_wake(set);
    watch_channel(set);
}

void gw_socket_proxy_leave(struct gw_sockets *set)
{
    uint64_t until = gw_deadline(LEAVE_NS);
    uint32_t left = 0;

    for (uint32_t i = 0; i < set->attr.count; i++) {
        struct sock *k = &set->sock[i];

        if (k->fd >= 0 && k->step != SOCK_CLOSING && !gw_socket_proxy_close(set, k)) gw_sock_release(set, k);
    }
    do {
        for (uint32_t i = left = 0; i < set->attr.count; i++) left += set->sock[i].requests;
        if (!left || set->proxy->error) return;
        gw_socket_proxy_wait(set, 1000000u);
        sock_proxy_reap(set);
    } while (gw_clock_ns() < until);
}

/* ---- making it ---------------------------------------------------------------------------------------- */

int gw_socket_proxy_create(struct gw_sockets *set)
{
    /* Newer kernels run completions in our own thread and nowhere else; older ones know less. */
    static const unsigned flags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_TASKRUN_FLAG,
                                     IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
    struct io_uring_params params;
    struct gw_socket_proxy *p = calloc(1, sizeof(*p));
    uint32_t cq = 2 * ENTRIES;
    int err = -EINVAL;

    if (!p) return gw_error_errno(-ENOMEM, "sockets");
    while (cq < 4 * set->attr.count && cq < CQ_MAX) cq *= 2;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && err == -EINVAL; i++) {
        memset(&params, 0, sizeof(params));
        params.flags = flags[i] | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params.cq_entries = cq;
        err = io_uring_queue_init_params(ENTRIES, &p->ring, &params);
    }
    if (err) {
        free(p);
        return gw_error_errno(
            err == -ENOMEM ? err : -EOPNOTSUPP,
            "sockets of the host's own: no io_uring here (%s; see `sysctl kernel.io_uring_disabled`, "
            "and what a container forbids)",
            strerror(-err));
    }
    set->proxy = p;
    return 0;
}

void gw_socket_proxy_destroy(struct gw_sockets *set)
{
    if (!set->proxy) return;
    if (!set->proxy->error) io_uring_queue_exit(&set->proxy->ring);
    free(set->proxy);
    set->proxy = NULL;
}
