/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the baselines' servers. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "peer.h"

int peer_listen(const char *where, const char *what)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    const char *colon = strrchr(where, ':');
    socklen_t len = sizeof(at);
    char host[64] = "";
    int fd = -1, one = 1;

    if (colon && colon - where < (int)sizeof(host)) memcpy(host, where, (size_t)(colon - where));
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1) {
        fprintf(stderr, "%s: %s: expected ADDRESS:PORT\n", what, where);
        return -1;
    }
    at.sin_port = htons((uint16_t)atoi(colon + 1));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&at, &len)) {
        fprintf(stderr, "%s: listening at %s: %s\n", what, where, strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    printf("%s: listening at %s port %u: a baseline\n", what, host, ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

void peer_begin(struct peer *p, int fd)
{
    int one = 1;

    p->fd = fd;
    p->answering = p->last = false;
    p->done = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static enum peer_got peer_end(struct peer *p)
{
    close(p->fd);
    p->fd = -1;
    return PEER_END;
}

void peer_answer(struct peer *p, enum mm_status status)
{
    p->answer = mm_answer_to(&p->head, status);
    p->answering = true;
    p->last = status != MM_OK;
    p->done = 0;
}

enum peer_got peer_read(struct peer *p, bool (*grow)(struct peer *p, size_t in, size_t out))
{
    while (!p->answering) {
        size_t head = sizeof(p->head), all = p->done < head ? head : head + p->head.length;
        uint8_t *to = p->done < head ? (uint8_t *)&p->head + p->done : p->in + p->done - head;
        ssize_t n = recv(p->fd, to, all - p->done, 0);
        enum mm_status status;

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return PEER_WAIT;
        if (n <= 0) return peer_end(p);
        p->done += (size_t)n;
        if (p->done < all) continue;
        if (all > head) return PEER_REQUEST;
        status = mm_check(&p->head, MM_N_MAX);
        if (status == MM_OK && !grow(p, p->head.length, mm_out_bytes(p->head.n))) status = MM_BUSY;
        if (status != MM_OK) peer_answer(p, status);
    }
    return peer_write(p);
}

enum peer_got peer_write(struct peer *p)
{
    while (p->answering) {
        size_t head = sizeof(p->answer), all = head + p->answer.length;
        struct iovec v[2] = {{(uint8_t *)&p->answer + p->done, head - p->done}, {p->out, p->answer.length}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n;

        if (p->done >= head) {
            v[0] = (struct iovec){p->out + p->done - head, all - p->done};
            m.msg_iovlen = 1;
        }
        n = sendmsg(p->fd, &m, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return PEER_WAIT;
        if (n < 0) return peer_end(p);
        p->done += (size_t)n;
        if (p->done < all) continue;
        if (p->last) return peer_end(p);
        p->answering = false;
        p->done = 0;
    }
    return PEER_ANSWERED;
}
