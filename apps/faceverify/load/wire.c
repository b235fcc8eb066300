/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the host's sockets, and rsockets' in the same form. */
#include "apps/faceverify/load/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <time.h>
#include <unistd.h>

#include "apps/faceverify/now.h"

enum { LOOKS = 100 }; /* before it naps */

/* ---- TCP ----------------------------------------------------------------------------------------------- */

static int tcp_open(const struct sockaddr *to, socklen_t len)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!connect(fd, to, len) || errno == EINPROGRESS) return fd;
    close(fd);
    return -1;
}

static int tcp_connected(int fd)
{
    int err = 0;
    socklen_t len = sizeof(err);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) ? errno : err;
}

static int tcp_wait(struct pollfd *fds, uint32_t n, uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

    return ppoll(fds, n, &t, NULL);
}

const struct face_wire face_wire_tcp = {tcp_open, tcp_connected, sendmsg, recv, tcp_wait, close};

/* ---- RDMA ---------------------------------------------------------------------------------------------- */

/* It blocks while it connects: a reply of the server's takes less than a millisecond. */
static int rdma_open(const struct sockaddr *to, socklen_t len)
{
    int fd = rsocket(to->sa_family, SOCK_STREAM, 0);

    if (fd < 0) return -1;
    if (!rconnect(fd, to, len) && !rfcntl(fd, F_SETFL, O_NONBLOCK)) return fd;
    rclose(fd);
    return -1;
}

static int rdma_connected(int fd)
{
    (void)fd;
    return 0;
}

/* A time-out that passes within librdmacm's rpoll may stop all later ones of the process for good: it forgets
 * to count its thread out. So rpoll only looks, and between the looks the thread sleeps here. */
static int rdma_wait(struct pollfd *fds, uint32_t n, uint64_t ns)
{
    const struct timespec nap = {0, 20000};
    uint64_t until = face_now() + ns;

    for (uint32_t looks = 1;; looks++) {
        int ready = rpoll(fds, n, 0);

        if (ready || face_now() >= until) return ready;
        if (looks > LOOKS) nanosleep(&nap, NULL);
    }
}

const struct face_wire face_wire_rdma = {rdma_open, rdma_connected, rsendmsg, rrecv, rdma_wait, rclose};
