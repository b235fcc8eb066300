/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives whole frames before a deadline. */
#include "src/ranks/wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

uint64_t gw_ranks_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int gw_ranks_poll_ms(uint64_t deadline_ns)
{
    uint64_t now = gw_ranks_now(), left = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;

    return left > 3600000 ? 3600000 : (int)left;
}

/* 0: the socket may be ready now. */
static int wire_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};

    if (gw_ranks_now() >= deadline_ns) return -ETIMEDOUT;
    if (poll(&p, 1, gw_ranks_poll_ms(deadline_ns)) < 0 && errno != EINTR) return -errno;
    return 0;
}

int gw_ranks_send(int fd, const struct gw_ranks_head *head, const void *body, uint64_t deadline_ns,
                  bool *begun)
{
    size_t sent = 0, all = sizeof(*head) + head->size;

    *begun = false;
    while (sent < all) {
        size_t in_body = sent > sizeof(*head) ? sent - sizeof(*head) : 0;
        struct iovec v[2] = {
            {.iov_base = (char *)(uintptr_t)head + sent,
             .iov_len = sent < sizeof(*head) ? sizeof(*head) - sent : 0},
            {.iov_base = (char *)(uintptr_t)body + in_body, .iov_len = head->size - in_body}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        int err = 0;

        if (n > 0) {
            sent += (size_t)n;
            *begun = true;
        } else if (errno == EAGAIN) {
            err = wire_wait(fd, POLLOUT, deadline_ns);
        } else if (errno != EINTR) {
            err = -errno;
        }
        if (err) return err;
    }
    return 0;
}

int gw_ranks_recv(int fd, void *to, size_t n, uint64_t deadline_ns)
{
    size_t got = 0;

    while (got < n) {
        ssize_t one = recv(fd, (char *)to + got, n - got, MSG_DONTWAIT);
        int err = 0;

        if (one > 0)
            got += (size_t)one;
        else if (!one)
            err = -ECONNRESET;
        else if (errno == EAGAIN)
            err = wire_wait(fd, POLLIN, deadline_ns);
        else if (errno != EINTR)
            err = -errno;
        if (err) return err;
    }
    return 0;
}
