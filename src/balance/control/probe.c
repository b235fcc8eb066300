/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/balance/control/probe_rdma.h"

#define LEAST_PLACES 64u
#define MOST_PLACES  65536u

/* A quarter of the descriptors is for checks: the API's door leaves that much. */
void gw_bal_probes_init(struct gw_bal_probes *p)
{
    struct rlimit files = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    rlim_t most = files.rlim_cur / 4;
    *p = (struct gw_bal_probes){.most = most < LEAST_PLACES  ? LEAST_PLACES
                                        : most > MOST_PLACES ? MOST_PLACES
                                                             : (unsigned)most};
}

void gw_bal_probes_free(struct gw_bal_probes *p)
{
    for (unsigned i = 0; i < p->places; i++)
        if (p->probe[i].fd >= 0) close(p->probe[i].fd);
    free(p->probe);
    *p = (struct gw_bal_probes){0};
}

static void add_places(struct gw_bal_probes *p)
{
    unsigned places = p->places ? 2 * p->places : LEAST_PLACES;
    if (places > p->most) places = p->most;
    struct gw_bal_probe *bigger = places > p->places ? realloc(p->probe, places * sizeof(*bigger)) : NULL;
    if (!bigger) return;
    p->probe = bigger;
    for (; p->places < places; p->places++) p->probe[p->places].fd = -1;
}

static struct gw_bal_probe *free_place(struct gw_bal_probes *p)
{
    if (p->next == p->places) add_places(p);
    for (; p->next < p->places; p->next++)
        if (p->probe[p->next].fd < 0) return &p->probe[p->next];
    return NULL;
}

int gw_bal_probe_room(struct gw_bal_probes *p, uint8_t kind)
{
    if (kind == GW_BAL_RDMA_CHECK && !gw_bal_rdma_room()) return 0;
    return free_place(p) != NULL;
}

static void end(struct gw_bal_probe *p, const char *why, gw_bal_probe_done done, void *ctx)
{
    close(p->fd);
    p->fd = -1;
    done(ctx, p->worker, why);
}

static void end_errno(struct gw_bal_probe *p, const char *what, int error, gw_bal_probe_done done, void *ctx)
{
    char why[128];
    snprintf(why, sizeof(why), "%s: %s", what, strerror(error));
    end(p, why, done, ctx);
}

static socklen_t fill_address(const struct gw_bal_addr *a, uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (a->family == 6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        memcpy(&six->sin6_addr, a->bytes, 16);
        return sizeof(*six);
    }
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    memcpy(&four->sin_addr, a->bytes, 4);
    return sizeof(*four);
}

static void write_request(struct gw_bal_probe *p, const struct gw_bal_worker *w)
{
    char host[GW_BAL_NAME], path[sizeof(p->check.path)];
    int six = !p->check.host[0] && w->addr.family == 6;
    memcpy(path, p->check.path, sizeof(path));
    memcpy(host, p->check.host, sizeof(host));
    if (!host[0]) gw_bal_addr_text(&w->addr, host);
    int n = snprintf(
        p->request, sizeof(p->request),
        "GET %s HTTP/1.0\r\nHost: %s%s%s\r\nUser-Agent: gpuwire-balance\r\nConnection: close\r\n\r\n", path,
        six ? "[" : "", host, six ? "]" : "");
    p->bytes = n > 0 && (size_t)n < sizeof(p->request) ? (unsigned)n : 0;
}

void gw_bal_probe_begin(struct gw_bal_probes *set, const struct gw_bal_service *s,
                        const struct gw_bal_worker *w, uint64_t now_ns, gw_bal_probe_done done, void *ctx)
{
    struct sockaddr_storage to;
    const struct gw_bal_check *c = gw_bal_check_of(s, w);
    struct gw_bal_probe *p = free_place(set);
    if (!p) return;
    *p = (struct gw_bal_probe){
        .worker = w->id, .kind = c->kind, .check = *c, .deadline_ns = now_ns + c->timeout_ns};
    uint16_t port = c->port ? c->port : gw_bal_port_of(s, w);
    if (c->kind == GW_BAL_RDMA_CHECK) {
        p->fd = gw_bal_rdma_begin(&w->addr, port, c);
        if (p->fd < 0) done(ctx, w->id, "cannot start a thread for the check");
        return;
    }
    if (!port) {
        p->fd = -1;
        done(ctx, w->id, "the service has all ports: give connect_port");
        return;
    }
    socklen_t length = fill_address(&w->addr, port, &to);
    p->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0) {
        done(ctx, w->id, "no socket for the check: too many files are open");
        return;
    }
    if (c->kind == GW_BAL_HTTP_GET) write_request(p, w);
    if (connect(p->fd, (struct sockaddr *)&to, length) && errno != EINPROGRESS)
        end_errno(p, "connect", errno, done, ctx);
}

unsigned gw_bal_probes_fds(const struct gw_bal_probes *set, struct pollfd *fds, uint64_t *until_ns)
{
    unsigned n = 0;
    for (unsigned i = 0; i < set->places; i++) {
        const struct gw_bal_probe *p = &set->probe[i];
        if (p->fd < 0) continue;
        int reads = p->kind == GW_BAL_RDMA_CHECK || (p->connected && p->sent == p->bytes);
        fds[n++] = (struct pollfd){.fd = p->fd, .events = reads ? POLLIN : POLLOUT};
        if (p->deadline_ns < *until_ns) *until_ns = p->deadline_ns;
    }
    return n;
}

int gw_bal_http_status(const char *line, unsigned bytes, uint16_t wanted, char *why, unsigned size)
{
    unsigned status = 0;
    if (bytes < 12 && !memchr(line, '\n', bytes)) return 0;
    if (bytes < 12 || memcmp(line, "HTTP/1.", 7) || line[8] != ' ') {
        snprintf(why, size, "the answer is not HTTP");
        return -1;
    }
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9') status = 10000;
        status = status * 10 + (unsigned)(line[i] - '0') % 10;
    }
    if (wanted ? status == wanted : status >= 200 && status < 300) return 1;
    snprintf(why, size, "HTTP status %.3s", line + 9);
    return -1;
}

/* Connected: 1, not yet: 0, or a negative errno. */
static int connection(struct gw_bal_probe *p)
{
    struct pollfd now = {.fd = p->fd, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof(error);
    if (p->connected) return 1;
    if (poll(&now, 1, 0) < 1) return 0;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &length)) error = errno;
    p->connected = !error;
    return error ? -error : 1;
}

static void talk_http(struct gw_bal_probe *p, gw_bal_probe_done done, void *ctx)
{
    char why[64];
    while (p->sent < p->bytes) {
        ssize_t n = send(p->fd, p->request + p->sent, p->bytes - p->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            end_errno(p, "sending the request", errno, done, ctx);
            return;
        }
        p->sent += (unsigned)n;
    }
    ssize_t n = recv(p->fd, p->answer + p->got, sizeof(p->answer) - p->got, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
        end_errno(p, "reading the answer", errno, done, ctx);
        return;
    }
    p->got += (unsigned)n;
    int good = gw_bal_http_status(p->answer, p->got, p->check.status, why, sizeof(why));
    if (good > 0)
        end(p, NULL, done, ctx);
    else if (good < 0)
        end(p, why, done, ctx);
    else if (!n)
        end(p, "the connection was closed without an answer", done, ctx);
}

static void run_rdma(struct gw_bal_probe *p, gw_bal_probe_done done, void *ctx)
{
    char why[128] = "";
    ssize_t n = read(p->fd, why, sizeof(why) - 1);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0)
        end(p, "the check ended without a result", done, ctx);
    else
        end(p, strcmp(why, "ok") ? why : NULL, done, ctx);
}

static void run_one(struct gw_bal_probe *p, gw_bal_probe_done done, void *ctx)
{
    if (p->kind == GW_BAL_RDMA_CHECK) {
        run_rdma(p, done, ctx);
        return;
    }
    int ready = connection(p);
    if (ready < 0)
        end_errno(p, "connect", -ready, done, ctx);
    else if (ready && p->kind == GW_BAL_TCP_CHECK)
        end(p, NULL, done, ctx);
    else if (ready)
        talk_http(p, done, ctx);
}

void gw_bal_probes_run(struct gw_bal_probes *set, uint64_t now_ns, gw_bal_probe_done done, void *ctx)
{
    for (unsigned i = 0; i < set->places; i++) {
        struct gw_bal_probe *p = &set->probe[i];
        if (p->fd >= 0) run_one(p, done, ctx);
        if (p->fd >= 0 && now_ns >= p->deadline_ns)
            end(p, p->connected ? "connected, but no answer in time" : "no answer in time", done, ctx);
    }
    set->next = 0;
}
