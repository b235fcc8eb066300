/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire cat's end of the connection: sockets that a kernel uses, one call at a time in each direction. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "src/cli/cat/cat.h"
#include "src/cli/options.h"

GW_KERNEL_DECLARE(cat_kernel);

#define THREADS    256 /* of the block, on a GPU; CPU threads: one */
#define TIMEOUT_NS 20000000000u

/* After a lane's bytes. */
struct tail {
    int64_t result;
    struct sockaddr_storage name;
    socklen_t len;
};

static struct tail *tail(void *base)
{
    return (struct tail *)((uint8_t *)base + CAT_BYTES);
}

void *cat_bytes(const struct cat_lane *l)
{
    return l->mem.host;
}

/* ---- made and freed ------------------------------------------------------------------------------------ */

static int lane_open(struct cat_lane *l, const char *which, const struct gw_exec_opts *opts)
{
    int err = gw_exec_create(which, opts, &l->exec);

    return err ? err : gw_mem_alloc(l->exec, GW_MEM_HOST, CAT_BYTES + sizeof(struct tail), &l->mem);
}

static void lane_close(struct cat_lane *l)
{
    gw_mem_free(&l->mem);
    gw_exec_destroy(l->exec);
}

int cat_end_open(struct cat_end *e, const struct cat_opts *o)
{
    struct gw_exec_opts opts = {.device = (uint32_t)o->gpu};
    struct gw_sockets_attr a = {
        .count = 2, .rbuf = 1 << 20, .wbuf = 1 << 20, .rdma = o->rdma ? GW_RDMA_ONLY : GW_RDMA_OFF};
    const char *which;
    int err;

    memset(e, 0, sizeof(*e));
    e->s = -1;
    err = gw_exec_create(o->exec, &opts, &e->exec);
    if (err) return err;
    which = gw_exec_kind(e->exec) == GW_EXEC_GPU ? "gpu" : "cpu";
    err = lane_open(&e->out, which, &opts);
    if (!err) err = lane_open(&e->in, which, &opts);
    if (!err && o->rdma) err = gw_device_open(o->device, e->exec, &e->dev);
    a.exec = e->exec;
    return err ? err : gw_sockets_create(e->dev, &a, &e->set);
}

void cat_end_close(struct cat_end *e)
{
    gw_sockets_destroy(e->set);
    if (e->dev) gw_device_close(e->dev);
    lane_close(&e->out);
    lane_close(&e->in);
    gw_exec_destroy(e->exec);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static int64_t cat_end_call(struct cat_end *e, struct cat_lane *l, struct cat_args *a)
{
    struct tail *here = tail(l->mem.host), *there = tail(l->mem.dev);
    int err;

    a->net = gw_sockets_net(e->set);
    a->bytes = l->mem.dev;
    a->result = &there->result;
    a->name = (struct sockaddr *)&there->name;
    a->name_len = &there->len;
    here->len = sizeof(here->name);
    if (!a->limit_ns) a->limit_ns = CAT_SLICE_NS;
    err = gw_launch(l->exec, &cat_kernel, 1, THREADS, a);
    if (!err) err = gw_exec_sync(l->exec, gw_deadline(TIMEOUT_NS));
    return err ? err : here->result;
}

int64_t cat_do(struct cat_end *e, struct cat_lane *l, enum cat_op op, int s, uint64_t n)
{
    struct cat_args a = {.op = op, .s = s, .n = n, .limit_ns = op == CAT_CLOSE ? TIMEOUT_NS / 2 : 0};

    return cat_end_call(e, l, &a);
}

/* ---- meeting ------------------------------------------------------------------------------------------- */

static void cat_end_say(struct cat_end *e, const char *what, enum cat_op op, int s, int flags)
{
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    const struct tail *t = tail(e->out.mem.host);

    if (!cat_do(e, &e->out, op, s, 0))
        getnameinfo((const struct sockaddr *)&t->name, t->len, host, sizeof(host), port, sizeof(port), flags);
    fprintf(stderr, "gpuwire cat: %s %s port %s\n", what, host, port);
}

/* A call that may take long, in slices, until it is over, Ctrl-C has come or the time is up. */
static int64_t patiently(struct cat_end *e, struct cat_args *a, const struct cat_opts *o)
{
    uint64_t until = o->wait_s ? gw_deadline(o->wait_s * 1000000000u) : GW_NEVER;
    int64_t got;

    while ((got = cat_end_call(e, &e->out, a)) == -ETIMEDOUT) {
        if (gw_interrupted()) return -ECANCELED;
        if (gw_clock_ns() >= until) break;
    }
    return got;
}

/* With one address: 0, or what is wrong with it, and where it went wrong. */
static int64_t try_one(struct cat_end *e, const struct cat_opts *o, const struct sockaddr *addr,
                       socklen_t len)
{
    struct cat_args a = {.op = CAT_OPEN, .len = len};
    int64_t s, got;

    memcpy(&a.addr, addr, len);
    s = cat_end_call(e, &e->out, &a);
    if (s < 0) return s;
    a.s = e->s = (int)s;
    a.op = o->listen ? CAT_BIND : CAT_CONNECT;
    got = o->listen ? cat_end_call(e, &e->out, &a) : patiently(e, &a, o);
    a.op = CAT_LISTEN;
    if (!got && o->listen) got = cat_end_call(e, &e->out, &a);
    if (!got && o->listen) {
        if (o->verbose && !o->path)
            cat_end_say(e, "listening on", CAT_NAME, e->s, NI_NUMERICHOST | NI_NUMERICSERV);
        a.op = CAT_ACCEPT;
        got = patiently(e, &a, o);
        cat_do(e, &e->out, CAT_CLOSE, (int)s, 0);
        if (o->path) unlink(o->path); /* no peer can use the name any more */
        e->s = got < 0 ? -1 : (int)got;
        return got < 0 ? got : 0;
    }
    if (got) {
        cat_do(e, &e->out, CAT_CLOSE, (int)s, 0);
        e->s = -1;
    }
    return got;
}

static int cat_end_failed(const struct cat_opts *o, int64_t err)
{
    const char *what = o->listen ? "listening on" : "connecting to",
               *host = o->host ? o->host : "any address";

    if (err == -ECANCELED) return -ECANCELED;
    if (err == -ETIMEDOUT && o->listen)
        return gw_error(-ETIMEDOUT, "no peer has connected within %llu s (-w)",
                        (unsigned long long)o->wait_s);
    if (o->path) return gw_error_errno((int)err, "%s %s", what, o->path);
    return gw_error_errno((int)err, "%s %s port %s", what, host, o->port);
}

int cat_meet(struct cat_end *e, const struct cat_opts *o)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = o->listen ? AI_PASSIVE : 0}, *all = NULL;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int64_t err = -EADDRNOTAVAIL;
    int gai;

    if (o->path) {
        if (strlen(o->path) >= sizeof(un.sun_path)) return cat_end_failed(o, -ENAMETOOLONG);
        strcpy(un.sun_path, o->path);
        err = try_one(e, o, (struct sockaddr *)&un, sizeof(un));
    } else {
        if (o->listen && !o->host)
            hints.ai_family = AF_INET; /* its wildcard, as rdma_cm and TCP both have it */
        gai = getaddrinfo(o->host, o->port, &hints, &all);
        if (gai) return gw_error(-EADDRNOTAVAIL, "%s: %s", o->host ? o->host : o->port, gai_strerror(gai));
        for (struct addrinfo *a = all; a && err && err != -ECANCELED; a = a->ai_next)
            err = try_one(e, o, a->ai_addr, a->ai_addrlen);
        freeaddrinfo(all);
    }
    if (err) return cat_end_failed(o, err);
    if (o->verbose && !o->path)
        cat_end_say(e, "connected to", CAT_PEER, e->s, NI_NUMERICHOST | NI_NUMERICSERV);
    return 0;
}
