/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the checks that are under way: connects, asks, waits, and reports what each has found. */
#include "src/balance/control/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/balance/control/probe_impl.h"
#include "src/balance/control/probe_rdma.h"
#include "src/balance/control/probe_script.h"

static void stop_ask(struct gw_bal_probe *p);

#define LEAST_PLACES 64u
#define MAX_PLACES   65536u

/* A quarter of the descriptors is for checks: the API's door leaves that much. */
void gw_bal_probes_init(struct gw_bal_probes *p)
{
    struct rlimit files = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &files);
    rlim_t most = files.rlim_cur / 4;
    *p = (struct gw_bal_probes){.most = most < LEAST_PLACES ? LEAST_PLACES
                                        : most > MAX_PLACES ? MAX_PLACES
                                                            : (unsigned)most};
}

void gw_bal_probes_free(struct gw_bal_probes *p)
{
    for (unsigned i = 0; i < p->places; i++)
        if (p->probe[i].busy) stop_ask(&p->probe[i]);
    free(p->probe);
    *p = (struct gw_bal_probes){0};
}

static void probe_add_places(struct gw_bal_probes *p)
{
    unsigned places = p->places ? 2 * p->places : LEAST_PLACES;
    if (places > p->most) places = p->most;
    struct gw_bal_probe *bigger = places > p->places ? realloc(p->probe, places * sizeof(*bigger)) : NULL;
    if (!bigger) return;
    p->probe = bigger;
    for (; p->places < places; p->places++) p->probe[p->places].busy = 0;
}

static struct gw_bal_probe *probe_free_place(struct gw_bal_probes *p)
{
    if (p->next == p->places) probe_add_places(p);
    for (; p->next < p->places; p->next++)
        if (!p->probe[p->next].busy) return &p->probe[p->next];
    return NULL;
}

bool gw_bal_probe_room(struct gw_bal_probes *p, const struct gw_bal_check *c)
{
    if (gw_bal_check_asks(c, GW_BAL_RDMA_CHECK) && !gw_bal_rdma_room()) return false;
    if (gw_bal_check_asks(c, GW_BAL_MISC_CHECK) && (p->reserved == GW_BAL_SCRIPTS || !gw_bal_script_room()))
        return false;
    return probe_free_place(p) != NULL;
}

/* ---- sockets ---- */

/* ---- kinds that need no file of their own ---- */

static int tcp_begin(struct gw_bal_probe *p, char *why, size_t size)
{
    return gw_bal_probe_connect(p, SOCK_STREAM, why, size);
}
static short tcp_waits(const struct gw_bal_probe *p)
{
    (void)p;
    return POLLOUT;
}

static int rdma_begin(struct gw_bal_probe *p, char *why, size_t size)
{
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    p->fd = gw_bal_rdma_begin(a->connect.family ? &a->connect : &p->addr, a->port ? a->port : p->port, a);
    if (p->fd >= 0) return 0;
    snprintf(why, size, "cannot start a thread for the check");
    return -1;
}
static int rdma_run(struct gw_bal_probe *p, char *why, size_t size)
{
    ssize_t n = read(p->fd, why, size - 1);
    if (n < 0 && errno == EAGAIN) return 0;
    why[n < 0 ? 0 : n] = 0;
    if (n <= 0) snprintf(why, size, "the check ended without a result");
    return strcmp(why, "ok") ? -1 : 1;
}
static short rdma_waits(const struct gw_bal_probe *p)
{
    (void)p;
    return POLLIN;
}

static const struct gw_bal_probe_kind tcp_kind = {tcp_begin, gw_bal_probe_connected, tcp_waits, NULL, NULL};
static const struct gw_bal_probe_kind rdma_kind = {rdma_begin, rdma_run, rdma_waits, NULL, NULL};

static const struct gw_bal_probe_kind *probe_kind_of(const struct gw_bal_probe *p)
{
    switch (gw_bal_probe_ask(p)->kind) {
    case GW_BAL_HTTP_GET:
    case GW_BAL_SSL_GET: return &gw_bal_probe_http;
    case GW_BAL_UDP_CHECK: return &gw_bal_probe_udp;
    case GW_BAL_MISC_CHECK: return &gw_bal_probe_script;
    case GW_BAL_RDMA_CHECK: return &rdma_kind;
    default: return &tcp_kind;
    }
}

/* ---- one check ---- */

static void stop_ask(struct gw_bal_probe *p)
{
    const struct gw_bal_probe_kind *kind = probe_kind_of(p);
    if (kind->end) kind->end(p);
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
    p->connected = 0;
}

/* The probe has succeeded (`why` NULL) or not. The next thing is begun. True: all is over. */
static bool end_ask(struct gw_bal_probe *p, char *why, size_t size)
{
    stop_ask(p);
    while (!*why && p->at < p->check.others) {
        p->at++;
        p->deadline_ns = p->now_ns + gw_bal_probe_ask(p)->timeout_ns;
        if (!probe_kind_of(p)->begin(p, why, size)) return false;
        stop_ask(p);
    }
    return true;
}

static void probe_finish(struct gw_bal_probes *set, struct gw_bal_probe *p, const char *why,
                         gw_bal_probe_done done, void *ctx)
{
    char text[160];
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    bool has_path = a->kind == GW_BAL_HTTP_GET || a->kind == GW_BAL_SSL_GET;
    set->reserved -= p->reserved;
    p->busy = 0;
    if (*why && p->check.others) { /* which of them */
        snprintf(text, sizeof(text), "%s%s%.60s: %.80s", gw_bal_check_names[a->kind], has_path ? " " : "",
                 has_path ? a->path : "", why);
        why = text;
    }
    done(ctx, p->worker, *why ? why : NULL, p->weight);
}

void gw_bal_probe_begin(struct gw_bal_probes *set, const struct gw_bal_service *s,
                        const struct gw_bal_worker *w, uint64_t now_ns, gw_bal_probe_done done, void *ctx)
{
    char why[128] = "";
    const struct gw_bal_check *c = gw_bal_check_of(s, w);
    struct gw_bal_probe *p = probe_free_place(set);
    if (!p) return;
    *p = (struct gw_bal_probe){.worker = w->id,
                               .fd = -1,
                               .busy = 1,
                               .reserved = (uint8_t)gw_bal_check_asks(c, GW_BAL_MISC_CHECK),
                               .weight = -1,
                               .now_ns = now_ns,
                               .deadline_ns = now_ns + c->timeout_ns,
                               .addr = w->addr,
                               .port = gw_bal_port_of(s, w),
                               .check = *c};
    set->reserved += p->reserved;
    if (probe_kind_of(p)->begin(p, why, sizeof(why)) && end_ask(p, why, sizeof(why)))
        probe_finish(set, p, why, done, ctx);
}

/* ---- all of them ---- */

unsigned gw_bal_probes_fds(const struct gw_bal_probes *set, struct pollfd *fds, uint64_t *until_ns)
{
    unsigned n = 0;
    for (unsigned i = 0; i < set->places; i++) {
        const struct gw_bal_probe *p = &set->probe[i];
        if (!p->busy) continue;
        fds[n++] = (struct pollfd){.fd = p->fd, .events = probe_kind_of(p)->waits(p)};
        if (p->deadline_ns < *until_ns) *until_ns = p->deadline_ns;
    }
    return n;
}

static void run_one(struct gw_bal_probes *set, struct gw_bal_probe *p, uint64_t now_ns,
                    gw_bal_probe_done done, void *ctx)
{
    char why[128] = "";
    const struct gw_bal_probe_kind *kind = probe_kind_of(p);
    p->now_ns = now_ns;
    int got = kind->run(p, why, sizeof(why));
    if (!got && now_ns < p->deadline_ns) return;
    if (got > 0 || (!got && kind->silence && kind->silence(p)))
        why[0] = 0;
    else if (!got)
        snprintf(why, sizeof(why), p->connected ? "connected, but no answer in time" : "no answer in time");
    if (end_ask(p, why, sizeof(why))) probe_finish(set, p, why, done, ctx);
}

void gw_bal_probes_run(struct gw_bal_probes *set, uint64_t now_ns, gw_bal_probe_done done, void *ctx)
{
    for (unsigned i = 0; i < set->places; i++)
        if (set->probe[i].busy) run_one(set, &set->probe[i], now_ns, done, ctx);
    set->next = 0;
}
