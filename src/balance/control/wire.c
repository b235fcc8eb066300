/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives JSON messages with a length in front, each within a deadline. */
#include "src/balance/control/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

/* 0 once the descriptor is ready, or -ETIMEDOUT. */
static int control_wire_wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = gw_deadline(0);
        if (now >= deadline_ns) return -ETIMEDOUT;
        uint64_t ms = (deadline_ns - now) / 1000000 + 1;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, ms > 1000 ? 1000 : (int)ms);
        if (n > 0) return 0;
        if (n < 0 && errno != EINTR) return -errno;
    }
}

int gw_bal_write_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            int err = control_wire_wait_for(fd, POLLOUT, deadline_ns);
            if (err) return err;
            continue;
        }
        if (n < 0) return -errno;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int gw_bal_read_all(int fd, void *data, size_t bytes, uint64_t deadline_ns)
{
    char *at = data;
    while (bytes) {
        ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
        if (!n) return -ECONNRESET;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            int err = control_wire_wait_for(fd, POLLIN, deadline_ns);
            if (err) return err;
            continue;
        }
        if (n < 0) return -errno;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int gw_bal_send(int fd, const json_t *message, uint64_t deadline_ns)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    if (!text) return -ENOMEM;
    uint32_t bytes = (uint32_t)strlen(text);
    int err = bytes > GW_BAL_MESSAGE ? -EFBIG : gw_bal_write_all(fd, &bytes, sizeof(bytes), deadline_ns);
    if (!err) err = gw_bal_write_all(fd, text, bytes, deadline_ns);
    free(text);
    return err;
}

int gw_bal_receive(int fd, json_t **message, uint64_t deadline_ns)
{
    uint32_t bytes;
    json_error_t where;
    int err = gw_bal_read_all(fd, &bytes, sizeof(bytes), deadline_ns);
    if (err) return err;
    if (bytes > GW_BAL_MESSAGE) return -EPROTO;
    char *text = malloc(bytes + 1);
    if (!text) return -ENOMEM;
    err = gw_bal_read_all(fd, text, bytes, deadline_ns);
    *message = err ? NULL : json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    free(text);
    return err ? err : *message ? 0 : -EPROTO;
}

int gw_bal_socket_path(const char *run_dir, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path, sizeof(out->sun_path), "%s/%s", run_dir, GW_BAL_SOCKET);
    if (n < (int)sizeof(out->sun_path)) return 0;
    return gw_error(-ENAMETOOLONG, "run_dir %s: the path must have at most %zu bytes", run_dir,
                    sizeof(out->sun_path) - sizeof(GW_BAL_SOCKET) - 1);
}
