/* SPDX-License-Identifier: Apache-2.0 */
/* stranger.h: another user of the host, as a process that attacks; and its sockets. For root alone. */
#ifndef TESTS_SECURITY_STRANGER_H
#define TESTS_SECURITY_STRANGER_H

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 65534 };

/* A child of that user; it runs fn(fd) and exits with what that returns. *fd: the way to talk to it. */
static inline pid_t stranger_start(int (*fn)(int fd, const void *arg), const void *arg, int *fd)
{
    int pair[2];
    pid_t pid;

    *fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return -1;
    pid = fork();
    if (pid) {
        close(pair[1]);
        *fd = pair[0];
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
        setresuid(STRANGER, STRANGER, STRANGER))
        _exit(100);
    _exit(fn(pair[1], arg));
}

/* Waits for it to end, or ends it. Returns its exit status. */
static inline int stranger_end(pid_t pid, int fd, bool at_once)
{
    int status;

    if (at_once) kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int stranger_does(int (*fn)(int fd, const void *arg), const void *arg)
{
    int fd;
    pid_t pid = stranger_start(fn, arg, &fd);

    return stranger_end(pid, fd, false);
}

static inline struct sockaddr_in at_port(const char *ip, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(ip)};
}

/* A UDP socket there, or -1. */
static inline int port_at(const char *ip, uint16_t port, bool shared)
{
    struct sockaddr_in sin = at_port(ip, port);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = shared;

    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0) return fd;
    close(fd);
    return -1;
}

/* Sends with that source address, which need not be the socket's. */
static inline bool send_as(int fd, const char *from, const char *to, uint16_t port, const void *data,
                           size_t len)
{
    struct sockaddr_in sin = at_port(to, port);
    struct in_pktinfo info = {.ipi_spec_dst.s_addr = inet_addr(from)};
    struct iovec iov = {(void *)data, len};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
    } control;
    struct msghdr msg = {.msg_name = &sin,
                         .msg_namelen = sizeof(sin),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c;

    memset(&control, 0, sizeof(control));
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(c), &info, sizeof(info));
    return sendmsg(fd, &msg, 0) == (ssize_t)len;
}

#endif
