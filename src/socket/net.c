/* SPDX-License-Identifier: Apache-2.0 */
/* A set of sockets: its memory and queue pairs, made once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/socket/proxy.h"
#include "src/socket/datagram.h"

#define COUNT_MAX  65536u
#define BUFFER_MAX (256u << 20)
#define LINE       64u /* bytes that the tables are a multiple of */
/* In sets of this number of sockets, waits for acknowledgements sleep: it takes descriptors. */
#define SENDERS_SLEEP 64u

static uint32_t net_pow2(uint32_t n, uint32_t otherwise)
{
    uint32_t p = 1;

    while (p < (n ? n : otherwise)) p *= 2;
    return p;
}

static int net_check(const struct gw_device *dev, struct gw_sockets_attr *a)
{
    if (!a->count || a->count > COUNT_MAX || a->rbuf > BUFFER_MAX || a->wbuf > BUFFER_MAX ||
        a->writes > 4096 || a->mem > GW_MEM_DEVICE || a->rdma > GW_RDMA_TRY || a->maps > GW_RS_MAPS_MAX)
        return gw_error(-EINVAL,
                        "sockets: %u of %u and %u bytes, %u writes, memory of kind %u, RDMA %u, %u maps",
                        a->count, a->rbuf, a->wbuf, a->writes, a->mem, a->rdma, a->maps);
    if (!dev && (!a->exec || a->rdma))
        return gw_error(-EINVAL, "sockets without a device: they need an executor, and have no RDMA");
    a->rbuf = net_pow2(a->rbuf, 128 << 10);
    a->wbuf = net_pow2(a->wbuf, 128 << 10);
    a->writes = net_pow2(a->writes, 64);
    if (a->rbuf < GW_SOCK_BUFFER_MIN_ || a->wbuf < GW_SOCK_BUFFER_MIN_ || a->writes < 16)
        return gw_error(-EINVAL, "sockets: buffers of %u and %u bytes and %u writes; at least 4096 and 16",
                        a->rbuf, a->wbuf, a->writes);
    if (!a->keepalive_ns) a->keepalive_ns = 1000000000u;
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Where the parts of the kernels' piece begin, and of the one that the helper shares with them. */
struct layout {
    size_t sock, stream, host_stream, mark, map, datagrams, asking, kernels;
    size_t info, ends, asked, groups, bells, datagram_shared, shared;
};

static size_t net_lines(size_t bytes)
{
    return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

static struct layout net_layout(const struct gw_sockets *set)
{
    const struct gw_sockets_attr *a = &set->attr;
    size_t streams = set->dev ? a->count : 0, host_streams = set->proxy ? a->count : 0,
           datagram_ends = set->datagrams ? a->datagrams : 0;
    struct layout l;

    l.sock = 256; /* after struct gw_net */
    l.stream = l.sock + a->count * sizeof(struct gw_sock_);
    l.host_stream = l.stream + streams * sizeof(struct gw_stream_);
    l.mark = l.host_stream + host_streams * sizeof(struct gw_host_stream_);
    l.map = l.mark + net_lines(streams * a->writes * sizeof(struct gw_stream_mark_));
    l.datagrams = net_lines(l.map + streams * a->maps * sizeof(struct gw_stream_map_));
    l.asking = l.datagrams + datagram_ends * sizeof(struct gw_datagram_end_);
    l.kernels = l.asking + GW_SOCK_ASKS_ * sizeof(uint32_t);

    l.info = GW_SOCK_ASKS_ * sizeof(struct gw_sock_ask_);
    l.ends = l.info + a->count * sizeof(struct gw_sock_info_);
    l.asked = l.ends + host_streams * sizeof(struct gw_host_stream_ends_);
    l.groups = l.asked + LINE;
    l.bells = l.groups + net_lines((host_streams + GW_BELL_GROUP_ - 1) / GW_BELL_GROUP_);
    l.datagram_shared = net_lines(l.bells + host_streams);
    l.datagram_shared += l.datagram_shared & LINE; /* to a multiple of two lines */
    l.shared = l.datagram_shared + datagram_ends * sizeof(struct gw_datagram_shared_);
    return l;
}

/* A socket's tables: what the peer writes, sges and then maps as rsocket.h has them, and as much of our own
 * for it. */
static size_t table_size(const struct gw_sockets_attr *a)
{
    return GW_RS_TABLE * sizeof(struct gw_rs_sge) + a->maps * sizeof(struct gw_rs_map);
}

static size_t per_socket(const struct gw_sockets_attr *a)
{
    return (size_t)a->rbuf + a->wbuf + net_lines(2 * table_size(a));
}

/* Buffers and tables, which the NIC writes. Kernels and the host's sockets share them where both can reach
 * them. */
static int make_buffers(struct gw_sockets *set)
{
    struct gw_sockets_attr *a = &set->attr;
    struct gw_device_info info = {.gpu_reach = GW_REACH_NONE};
    size_t datagram_ends = 0;
    int err;

    if (set->dev) gw_device_query(set->dev, &info);
    if (!set->dev || (!a->mem && info.gpu_reach == GW_REACH_NONE)) a->mem = GW_MEM_HOST;
    if (!a->mem) a->mem = GW_MEM_DEVICE;
    if (set->datagrams) datagram_ends = a->datagrams * gw_datagram_buffers(set);
    err = gw_mem_alloc(set->exec, (enum gw_mem_kind)a->mem, a->count * per_socket(a) + datagram_ends,
                       &set->bytes);
    if (!err && set->proxy && !set->bytes.host)
        err = gw_mem_alloc(set->exec, GW_MEM_HOST, a->count * per_socket(a), &set->rings);
    if (err || !set->dev) return err;
    return gw_mr_register(set->pd, set->bytes.host ? set->bytes.host : set->bytes.dev, set->bytes.size,
                          GW_MR_REMOTE_WRITE, &set->mr);
}

static int net_make_memory(struct gw_sockets *set)
{
    struct layout l = net_layout(set);
    int err = make_buffers(set);

    if (!err) err = gw_mem_alloc(set->exec, GW_MEM_DEVICE, l.kernels, &set->kernels);
    if (!err) err = gw_mem_alloc(set->exec, GW_MEM_HOST, l.shared, &set->shared);
    if (err) return err;
    set->asked = (uint32_t *)((uint8_t *)set->shared.host + l.asked);
    set->groups = (uint8_t *)set->shared.host + l.groups;
    set->bells = (uint8_t *)set->shared.host + l.bells;
    return 0;
}

static int publish_net(struct gw_sockets *set)
{
    struct layout l = net_layout(set);
    uint8_t *at = set->kernels.dev, *shared = set->shared.dev;
    struct gw_net net = {
        .size = sizeof(net),
        .version = GW_SOCK_VERSION,
        .count = set->attr.count,
        .keepalive_ns = set->attr.keepalive_ns == UINT64_MAX ? GW_SOCK_SECOND_ : set->attr.keepalive_ns,
        .host = gw_exec_kind(set->exec) == GW_EXEC_CPU ? set : NULL,
        .sock = (struct gw_sock_ *)(at + l.sock),
        .stream = set->dev ? (struct gw_stream_ *)(at + l.stream) : NULL,
        .host_stream = set->proxy ? (struct gw_host_stream_ *)(at + l.host_stream) : NULL,
        .datagrams = set->datagrams ? (struct gw_datagram_end_ *)(at + l.datagrams) : NULL,
        .asking = (uint32_t *)(at + l.asking),
        .ask = (struct gw_sock_ask_ *)shared,
        .info = (struct gw_sock_info_ *)(shared + l.info),
        .asked = (uint32_t *)(shared + l.asked),
    };

    return gw_copy_in(set->exec, at, &net, sizeof(net));
}

/* ---- one socket --------------------------------------------------------------------------------------- */

static size_t offset(const struct gw_sockets *set, const struct sock *k)
{
    return (size_t)(k - set->sock) * per_socket(&set->attr);
}

void gw_sock_offer(const struct gw_sockets *set, const struct sock *k, struct gw_rs_conn *mine)
{
    const struct gw_sockets_attr *a = &set->attr;
    uint64_t addr = set->mr->addr + offset(set, k);

    memset(mine, 0, sizeof(*mine));
    mine->half =
        (struct gw_rs_sge){.addr = addr, .key = set->mr->rkey, .length = k->info->opt[GW_SOCK_OPT_RBUF_] / 2};
    mine->table =
        (struct gw_rs_sge){.addr = addr + a->rbuf + a->wbuf, .key = set->mr->rkey, .length = GW_RS_TABLE};
    mine->credits = a->writes;
    mine->maps = a->maps;
}

/* The fields of a stream that never change. */
static int publish_stream(struct gw_sockets *set, const struct sock *k)
{
    const struct gw_sockets_attr *a = &set->attr;
    struct layout l = net_layout(set);
    size_t i = (size_t)(k - set->sock), off = offset(set, k);
    uint8_t *bytes = (uint8_t *)set->bytes.dev + off, *at = set->kernels.dev;
    uint8_t *table = bytes + a->rbuf + a->wbuf, *own = table + table_size(a);
    uint64_t own_addr = set->mr->addr + off + (uint64_t)(own - bytes);
    size_t sges = GW_RS_TABLE * sizeof(struct gw_rs_sge);
    struct gw_stream_ st = {
        .flow = {.qp = gw_qp_handle(k->qp), .cq = gw_cq_handle(k->recv_cq), .lock = 1}, /* sealed */
        .send_cq = gw_cq_handle(k->send_cq),
        .rbuf = bytes,
        .wbuf = bytes + a->rbuf,
        .table = (struct gw_rs_sge *)table,
        .own = (struct gw_rs_sge *)own,
        .map_table = (struct gw_rs_map *)(table + sges),
        .map_own = (struct gw_rs_map *)(own + sges),
        .map = (struct gw_stream_map_ *)(at + l.map) + i * a->maps,
        .mark = (struct gw_stream_mark_ *)(at + l.mark) + i * a->writes,
        .rbuf_addr = set->mr->addr + off,
        .wbuf_addr = set->mr->addr + off + a->rbuf,
        .own_addr = own_addr,
        .map_own_addr = own_addr + sges,
        .lkey = set->mr->lkey,
        .rkey = set->mr->rkey,
        .writes = a->writes,
        .maps = a->maps,
    };

    return gw_copy_in(set->exec, (struct gw_stream_ *)(at + l.stream) + i, &st, sizeof(st));
}

static int publish_pipe(struct gw_sockets *set, struct sock *k)
{
    const struct gw_mem *rings = set->rings.size ? &set->rings : &set->bytes;
    struct layout l = net_layout(set);
    size_t i = (size_t)(k - set->sock), off = offset(set, k);
    uint8_t *at = set->kernels.dev, *shared = set->shared.dev;
    struct gw_host_stream_ p = {
        .ends = (struct gw_host_stream_ends_ *)(shared + l.ends) + i,
        .sock = (struct gw_sock_ *)(at + l.sock) + i,
        .host = gw_exec_kind(set->exec) == GW_EXEC_CPU ? set : NULL,
        .bell = shared + l.bells + i,
        .group = shared + l.groups + i / GW_BELL_GROUP_,
        .rbuf = (uint8_t *)rings->dev + off,
        .wbuf = (uint8_t *)rings->dev + off + set->attr.rbuf,
    };

    k->ends = (struct gw_host_stream_ends_ *)((uint8_t *)set->shared.host + l.ends) + i;
    k->rbuf = (uint8_t *)rings->host + off;
    k->wbuf = k->rbuf + set->attr.rbuf;
    return gw_copy_in(set->exec, (struct gw_host_stream_ *)(at + l.host_stream) + i, &p, sizeof(p));
}

static int net_post_receives(struct gw_sockets *set, struct sock *k)
{
    return gw_qp_recv_empty(k->qp, set->attr.writes + GW_STREAM_SPARE_, 0);
}

int gw_sock_renew(struct gw_sockets *set, struct sock *k)
{
    int err;

    if (!k->used) return 0;
    err = gw_qp_reset(k->qp, GW_RESET_QUIET, 0);
    k->used = false;
    return err ? err : net_post_receives(set, k);
}

/* Its queue pair, and the stream over it. */
static int net_make_stream(struct gw_sockets *set, struct sock *k)
{
    uint32_t entries = set->attr.writes + GW_STREAM_SPARE_;
    struct gw_cq_attr ca = {.cqe = net_pow2(entries, 0),
                            .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP,
                            .qps = 1,
                            .post_mode = set->attr.post_mode};
    struct gw_qp_attr qa = {.max_send_wr = entries, .max_recv_wr = entries, .post_mode = set->attr.post_mode};
    int err = gw_cq_create(set->dev, &ca, &k->recv_cq);

    ca.flags = set->attr.count <= SENDERS_SLEEP ? GW_CQ_SLEEP : 0;
    if (!err) err = gw_cq_create(set->dev, &ca, &k->send_cq);
    qa.send_cq = k->send_cq;
    qa.recv_cq = k->recv_cq;
    if (!err) err = gw_qp_create(set->pd, &qa, &k->qp);
    if (!err) err = net_post_receives(set, k);
    return err ? err : publish_stream(set, k);
}

static int make_sock(struct gw_sockets *set, uint32_t i)
{
    struct gw_sock_ closed = {.closing = 1}; /* until it is given out, as its last user would have left it */
    struct gw_sock_ *kernels = (struct gw_sock_ *)((uint8_t *)set->kernels.dev + net_layout(set).sock) + i;
    struct sock *k = &set->sock[i];
    int err = gw_copy_in(set->exec, kernels, &closed, sizeof(closed));

    k->info = (struct gw_sock_info_ *)((uint8_t *)set->shared.host + net_layout(set).info) + i;
    k->last = &k->first;
    if (!err && set->dev) err = net_make_stream(set, k);
    if (!err && set->proxy) err = publish_pipe(set, k);
    return err;
}

/* The ends of datagrams over RDMA, after all sockets. */
static int make_rds(struct gw_sockets *set)
{
    struct layout l = net_layout(set);

    if (!set->datagrams) return 0;
    return gw_datagram_make(set, (struct gw_datagram_end_ *)((uint8_t *)set->kernels.dev + l.datagrams),
                            (struct gw_datagram_shared_ *)((uint8_t *)set->shared.dev + l.datagram_shared),
                            (struct gw_datagram_shared_ *)((uint8_t *)set->shared.host + l.datagram_shared),
                            set->attr.count * per_socket(&set->attr));
}

/* ---- the set ------------------------------------------------------------------------------------------ */

int gw_sockets_create(struct gw_device *dev, const struct gw_sockets_attr *attr, struct gw_sockets **out)
{
    struct gw_sockets *set = calloc(1, sizeof(*set));
    int err;

    *out = NULL;
    if (!set) return gw_error_errno(-ENOMEM, "sockets");
    set->dev = dev;
    set->attr = *attr;
    set->exec = dev ? gw_device_exec(dev) : attr->exec;
    err = net_check(dev, &set->attr);
    if (!err) set->sock = calloc(set->attr.count, sizeof(*set->sock));
    if (!err && !set->sock) err = gw_error_errno(-ENOMEM, "sockets");
    for (uint32_t i = 0; !err && i < set->attr.count; i++) set->sock[i].fd = -1;
    if (!err && set->attr.rdma != GW_RDMA_ONLY) err = gw_socket_proxy_create(set);
    if (!err && dev) err = gw_pd_create(dev, &set->pd);
    if (!err) err = gw_datagram_create(set);
    if (!err) err = net_make_memory(set);
    if (!err) err = publish_net(set);
    if (!err) err = make_rds(set);
    for (uint32_t i = 0; !err && i < set->attr.count; i++) err = make_sock(set, i);
    if (!err) err = gw_sock_helper_start(set);
    if (err)
        gw_sockets_destroy(set);
    else
        *out = set;
    return err;
}

int gw_sockets_destroy(struct gw_sockets *set)
{
    if (!set) return 0;
    gw_sock_helper_stop(set);
    gw_socket_proxy_destroy(set);
    for (uint32_t i = 0; set->sock && i < set->attr.count; i++) {
        struct sock *k = &set->sock[i];

        gw_qp_destroy(k->qp);
        if (k->send_cq) gw_cq_destroy(k->send_cq);
        if (k->recv_cq) gw_cq_destroy(k->recv_cq);
    }
    gw_datagram_destroy(set);
    gw_mr_free(set->mr);
    if (set->pd) gw_pd_destroy(set->pd);
    gw_mem_free(&set->bytes);
    gw_mem_free(&set->kernels);
    gw_mem_free(&set->shared);
    gw_mem_free(&set->rings);
    free(set->sock);
    free(set);
    return 0;
}

int gw_sockets_map(struct gw_sockets *set, void *addr, size_t length, struct gw_mr **out)
{
    return gw_mr_register(set->pd, addr, length, GW_MR_REMOTE_WRITE, out);
}

struct gw_net *gw_sockets_net(const struct gw_sockets *set)
{
    return set->kernels.dev;
}
