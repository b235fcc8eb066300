/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP connection over which the two sides tell each other what they need to begin and to end a round. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

enum { PATIENCE_MS = 120000 };

static int listen_for(struct side *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->opt.port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
        return complain("port %d: %s", s->opt.port, strerror(errno));
    s->control = accept(fd, NULL, NULL);
    close(fd);
    return s->control < 0 ? complain("accept: %s", strerror(errno)) : 0;
}

static int connect_to(struct side *s)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai;
    char port[16];

    snprintf(port, sizeof(port), "%d", s->opt.port);
    if (getaddrinfo(s->opt.host, port, &hints, &ai)) return complain("%s: no such host", s->opt.host);
    for (int i = 0; i < 100; i++) { /* the server may not be there yet */
        s->control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!connect(s->control, ai->ai_addr, ai->ai_addrlen)) break;
        close(s->control);
        s->control = -1;
        usleep(100000);
    }
    freeaddrinfo(ai);
    return s->control < 0 ? complain("%s port %d: no answer", s->opt.host, s->opt.port) : 0;
}

int control_open(struct side *s)
{
    struct plan peers;
    int one = 1, err = s->server ? listen_for(s) : connect_to(s);

    if (err) return err;
    setsockopt(s->control, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(s->control, F_SETFL, O_NONBLOCK);
    err = control_exchange(s, &s->opt.plan, &peers, sizeof(peers));
    if (!err && s->server) s->opt.plan = peers;
    return err;
}

/* Neither side waits for the other to read: both go on serving what the peer's requests need. */
int control_exchange(struct side *s, const void *mine, void *peers, size_t bytes)
{
    size_t sent = 0, got = 0;
    uint64_t limit = now_ms() + PATIENCE_MS;

    while (sent < bytes || got < bytes) {
        struct pollfd p = {s->control, (short)(POLLIN | (sent < bytes ? POLLOUT : 0)), 0};
        bool did = false;
        ssize_t n;

        if (sent < bytes && (n = send(s->control, (const char *)mine + sent, bytes - sent, MSG_NOSIGNAL)) > 0)
            sent += (size_t)n;
        n = got < bytes ? recv(s->control, (char *)peers + got, bytes - got, 0) : -1;
        if (n == 0 && bytes) return complain("the other side has ended");
        if (n > 0) got += (size_t)n;
        if (s->links && progress(s, PHASE_SERVE, &did)) return -1;
        if (!did) poll(&p, 1, 1);
        if (now_ms() > limit) return complain("the other side says nothing");
    }
    return 0;
}
