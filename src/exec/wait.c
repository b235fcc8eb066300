/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines, and sleeping on file descriptors. */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include <gpuwire/exec.h>

uint64_t gw_deadline(uint64_t from_now_ns)
{
    uint64_t now = gw_clock_ns();

    return from_now_ns > GW_NEVER - now ? GW_NEVER : now + from_now_ns;
}

int64_t gw_wait_fds(const int *fds, uint32_t n, uint64_t deadline_ns)
{
    struct pollfd poll_fds[62];
    struct timespec left, *timeout = NULL;
    int64_t ready = 0;
    uint32_t i;
    int err;

    if (n > 62) return gw_error(-EINVAL, "cannot wait for %u file descriptors at once: 62 at most", n);
    for (i = 0; i < n; i++) {
        poll_fds[i].fd = fds[i];
        poll_fds[i].events = POLLIN;
        poll_fds[i].revents = 0;
    }
    if (deadline_ns != GW_NEVER) {
        uint64_t now = gw_clock_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;

        left.tv_sec = (time_t)(ns / 1000000000u);
        left.tv_nsec = (long)(ns % 1000000000u);
        timeout = &left;
    }
    err = ppoll(poll_fds, n, timeout, NULL);
    if (err < 0) return errno == EINTR ? -EINTR : gw_error_errno(-errno, "poll");
    for (i = 0; i < n; i++) {
        if (poll_fds[i].revents & POLLNVAL)
            return gw_error(-EBADF, "%d is not an open file descriptor", fds[i]);
        if (poll_fds[i].revents) ready |= (int64_t)1 << i;
    }
    return ready;
}
