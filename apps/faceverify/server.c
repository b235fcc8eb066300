/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops the server's kernel: memory, sockets, launches. */
#include "apps/faceverify/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

GW_KERNEL_DECLARE(face_listen_kernel);
GW_KERNEL_DECLARE(face_serve_kernel);

enum { FACE_THREADS = 256, FACE_MEMS = 16 };

struct face_server {
    struct gw_exec *exec;
    struct gw_device *dev;                     /* for RDMA */
    struct gw_sockets *set[FACE_NETS_MAX + 1]; /* the last: of clients, where they have one of their own */
    struct face_args args;
    struct gw_mem mem[FACE_MEMS];
    uint32_t mems, blocks;
    uint32_t *stop;                   /* as the host sees it */
    const struct face_counts *counts; /* the same */
    const struct face_recent *recent;
    uint16_t port;
    char name[NI_MAXHOST + NI_MAXSERV + 8];
    bool running;
};

void face_server_defaults(struct face_server_opts *o)
{
    *o = (struct face_server_opts){.exec = "auto",
                                   .lanes = 1,
                                   .conns = 1024,
                                   .limit_ms = 200,
                                   .stall_s = 5,
                                   .idle_s = 300,
                                   .protocol = MC_BINARY,
                                   .spread = MC_MODULA,
                                   .threshold = FACE_THRESHOLD};
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* n bytes; *dev is where kernels see them. *host (of GW_MEM_HOST) may be NULL. */
static int server_memory(struct face_server *s, enum gw_mem_kind kind, uint64_t n, void **dev, void **host)
{
    struct gw_mem *m = &s->mem[s->mems];
    int err = gw_mem_alloc(s->exec, kind, n, m);

    if (err) return err;
    s->mems++;
    *dev = m->dev;
    if (host) *host = m->host;
    return 0;
}

/* What blocks work in: in the GPU's memory. */
static int server_block_memory(struct face_server *s)
{
    struct face_args *a = &s->args;
    uint64_t blocks = s->blocks, conns = blocks * a->conns, links = blocks * a->ring.servers;
    struct {
        uint64_t n;
        void **at;
    } parts[] = {
        {blocks * sizeof(*a->block), (void **)&a->block},
        {conns * sizeof(*a->conn), (void **)&a->conn},
        {blocks * FACE_SLOTS * sizeof(*a->slot), (void **)&a->slot},
        {links * sizeof(*a->link), (void **)&a->link},
        {(blocks + conns + links) * sizeof(*a->fds), (void **)&a->fds},
        {conns * FACE_BUFFER, (void **)&a->buffer},
        {sizeof(*a->open) * FACE_NETS_MAX, (void **)&a->open},
    };
    int err = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !err; i++)
        err = server_memory(s, GW_MEM_DEVICE, parts[i].n, parts[i].at, NULL);
    return err;
}

/* Where the memcacheds are, and who has which key. */
static int server_ring(struct face_server *s, const struct face_server_opts *o)
{
    static struct mc_point points[MC_POINTS_MAX];
    struct mc_host hosts[MC_SERVERS_MAX];
    void *at;
    int err;

    mc_ring_make(&o->memcached, o->spread, points, &s->args.ring);
    for (uint32_t i = 0; i < o->memcached.count; i++)
        hosts[i] = (struct mc_host){o->memcached.server[i].addr, o->memcached.server[i].len};
    err = server_memory(s, GW_MEM_DEVICE, sizeof(hosts), &at, NULL);
    if (err) return err;
    s->args.host = at;
    err = gw_copy_in(s->exec, at, hosts, sizeof(hosts[0]) * o->memcached.count);
    if (err || !s->args.ring.points) return err;
    err = server_memory(s, GW_MEM_DEVICE, sizeof(points), &at, NULL);
    if (err) return err;
    s->args.ring.point = at;
    return gw_copy_in(s->exec, at, points, sizeof(points[0]) * s->args.ring.points);
}

static int server_all_memory(struct face_server *s, const struct face_server_opts *o)
{
    void *at, *here;
    int err = server_ring(s, o);

    if (!err) err = server_block_memory(s);
    if (!err)
        err = server_memory(s, GW_MEM_HOST, s->blocks * sizeof(struct face_counts), (void **)&s->args.counts,
                            &here);
    if (!err) s->counts = here;
    if (!err && o->recent) {
        err = server_memory(s, GW_MEM_HOST, s->blocks * sizeof(struct face_recent), (void **)&s->args.recent,
                            &here);
        if (!err) s->recent = here;
    }
    if (!err) err = server_memory(s, GW_MEM_HOST, sizeof(uint32_t), &at, &here);
    if (err) return err;
    s->args.stop = at;
    s->stop = here;
    return 0;
}

/* ---- listening ----------------------------------------------------------------------------------------- */

struct listening {
    struct sockaddr_storage name;
    socklen_t len;
    int listener[FACE_NETS_MAX], err;
};

static int server_listen(struct face_server *s)
{
    struct listening *there, *here;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    int err = server_memory(s, GW_MEM_HOST, sizeof(*here), (void **)&there, (void **)&here);

    if (err) return err;
    here->len = sizeof(here->name);
    s->args.name = &there->name;
    s->args.name_len = &there->len;
    s->args.listener = there->listener;
    s->args.err = &there->err;
    err = gw_launch(s->exec, &face_listen_kernel, 1, 1, &s->args);
    if (!err) err = gw_exec_sync(s->exec, gw_deadline(2 * (uint64_t)GW_SOCK_HELPER_NS));
    if (!err && here->err) err = gw_error_errno(here->err, "cannot listen");
    if (err) return err;
    getnameinfo((struct sockaddr *)&here->name, here->len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(s->name, sizeof(s->name), "%s port %s", host, port);
    s->port = ntohs(((struct sockaddr_in *)&here->name)->sin_port);
    return 0;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool on_gpu(const struct face_server *s)
{
    return gw_exec_kind(s->exec) == GW_EXEC_GPU;
}

static int server_exec(struct face_server *s, const struct face_server_opts *o)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct gw_exec_opts opts = {
        .lanes = (uint32_t)o->lanes, .device = (uint32_t)o->gpu, .blocks = (uint32_t)o->blocks};
    int err = gw_exec_create(o->exec, &opts, &s->exec);
    uint32_t doors;

    if (err) return err;
    s->blocks = o->blocks ? (uint32_t)o->blocks : gw_exec_resident_blocks(s->exec);
    s->args.nets = (uint32_t)o->proxies;
    if (!s->args.nets) s->args.nets = on_gpu(s) ? (uint32_t)(processors + 3) / 4 : 1;
    if (s->args.nets > FACE_NETS_MAX) s->args.nets = FACE_NETS_MAX;
    if (s->args.nets > s->blocks) s->args.nets = s->blocks;
    if (o->rdma && !on_gpu(s) && s->args.nets > 1)
        return gw_error(-EINVAL, "on CPU threads, clients over RDMA need --proxies 1");
    doors = o->rdma ? 1 : s->args.nets;
    /* Connections spread unevenly over sets that share a port, so each has room for twice its part. */
    s->args.conns_max = (uint32_t)(doors == 1 ? o->conns : 2 * o->conns / doors + 16);
    s->args.conns = s->args.conns_max / (s->blocks / doors) + 2;
    return 0;
}

/* One more set, of `count` sockets. */
static int server_set(struct face_server *s, uint32_t i, uint64_t count, struct gw_net **net)
{
    struct gw_sockets_attr attr = {
        .count = (uint32_t)count,
        .rbuf = 64 << 10,
        .wbuf = 16 << 10,
        .busy = on_gpu(s), /* kernels on a GPU cannot wake it */
        .exec = s->exec,
    };
    int err = gw_sockets_create(net == &s->args.clients || !on_gpu(s) ? s->dev : NULL, &attr, &s->set[i]);

    if (!err) *net = gw_sockets_net(s->set[i]);
    return err;
}

/* Over RDMA no port can be shared, so that all clients are in one set. A GPU's looks at two sets cost nothing
 * more: the memcacheds keep theirs. A CPU thread sleeps on one set alone, which has both. */
static int server_sockets(struct face_server *s, const struct face_server_opts *o)
{
    uint64_t waiting = o->rdma ? 64 : 0; /* connections over RDMA that wait to be accepted */
    uint64_t clients = s->args.conns_max + waiting + 1;
    uint64_t links = (s->blocks / s->args.nets + 1) * (2 + o->memcached.count);
    bool apart = o->rdma && on_gpu(s);
    int err = o->rdma ? gw_device_open(NULL, s->exec, &s->dev) : 0;

    s->args.rdma = o->rdma ? GW_RDMA_TRY : GW_RDMA_OFF;
    for (uint32_t i = 0; i < s->args.nets && !err; i++)
        err = server_set(s, i, links + (apart ? 0 : clients), &s->args.net[i]);
    if (!err && apart) err = server_set(s, FACE_NETS_MAX, clients + s->blocks, &s->args.clients);
    return err;
}

int face_server_start(const struct face_server_opts *o, struct face_server **out)
{
    struct face_server *s = *out = calloc(1, sizeof(*s));
    int err;

    if (!s) return gw_error(-ENOMEM, "no memory");
    s->args = (struct face_args){.addr = o->addr,
                                 .addr_len = o->addr_len,
                                 .protocol = o->protocol,
                                 .threshold = (float)o->threshold,
                                 .limit_ns = o->limit_ms * 1000000,
                                 .stall_ns = o->stall_s * 1000000000,
                                 .idle_ns = o->idle_s * 1000000000};
    err = server_exec(s, o);
    if (!err) err = server_all_memory(s, o);
    if (!err) err = server_sockets(s, o);
    if (!err) err = server_listen(s);
    if (!err) err = gw_launch(s->exec, &face_serve_kernel, s->blocks, FACE_THREADS, &s->args);
    s->running = !err;
    return err;
}

const char *face_server_name(const struct face_server *s)
{
    return s->name;
}

uint16_t face_server_port(const struct face_server *s)
{
    return s->port;
}

const char *face_server_exec(const struct face_server *s)
{
    return gw_exec_name(s->exec);
}

uint32_t face_server_blocks(const struct face_server *s)
{
    return s->blocks;
}

void face_server_counts(const struct face_server *s, struct face_counts *sum)
{
    uint64_t *to = (uint64_t *)sum;

    memset(sum, 0, sizeof(*sum));
    for (uint32_t b = 0; b < s->blocks; b++)
        for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
            to[i] += gw_ld_relaxed_u64((const uint64_t *)&s->counts[b] + i);
}

const struct face_recent *face_server_recent(const struct face_server *s)
{
    return s->recent;
}

int face_server_check(struct face_server *s)
{
    int err = gw_exec_sync(s->exec, gw_deadline(0));

    return err == -ETIMEDOUT ? 0 : err ? err : gw_error(-EIO, "the kernel has ended");
}

int face_server_halt(struct face_server *s)
{
    int err;

    if (!s->running) return 0;
    gw_st_relaxed_u32(s->stop, 1);
    err = gw_exec_sync(s->exec, gw_deadline(30 * (uint64_t)1000000000));
    if (err != -ETIMEDOUT) s->running = false;
    return err;
}

int face_server_stop(struct face_server *s)
{
    int err = s ? face_server_halt(s) : 0;

    if (!s || s->running) return err; /* running: nothing of it may be freed */
    for (uint32_t i = 0; i <= FACE_NETS_MAX; i++) gw_sockets_destroy(s->set[i]);
    if (s->dev) gw_device_close(s->dev);
    while (s->mems) gw_mem_free(&s->mem[--s->mems]);
    gw_exec_destroy(s->exec);
    free(s);
    return err;
}
