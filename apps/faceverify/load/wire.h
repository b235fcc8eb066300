/* SPDX-License-Identifier: Apache-2.0 */
/* What carries a connection of the load generator: the host's TCP, or RDMA through librdmacm's rsockets. */
#ifndef FACE_LOAD_WIRE_H
#define FACE_LOAD_WIRE_H

#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>

/* Results are those of the calls of that name, with errno. No descriptor blocks. */
struct face_wire {
    /* Connects, or begins to: a descriptor that is writable when it is done; -1. */
    int (*open)(const struct sockaddr *to, socklen_t len);
    /* Why it is writable: 0, or the errno with which connecting failed. */
    int (*connected)(int fd);
    ssize_t (*send)(int fd, const struct msghdr *m, int flags);
    ssize_t (*recv)(int fd, void *to, size_t bytes, int flags);
    int (*wait)(struct pollfd *fds, uint32_t n, uint64_t ns); /* ns at most */
    int (*close)(int fd);
};
extern const struct face_wire face_wire_tcp, face_wire_rdma;

#endif
