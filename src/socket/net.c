/* SPDX-License-Identifier: Apache-2.0 */
/* A set of sockets: its memory and queue pairs, made once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/socket/net.h"

#define COUNT_MAX  65536u
#define BUFFER_MAX (256u << 20)
#define LINE       64u /* bytes of the tables: the peer's entries for us, then ours for it */

static uint32_t pow2(uint32_t n, uint32_t otherwise)
{
    uint32_t p = 1;

    while (p < (n ? n : otherwise)) p *= 2;
    return p;
}

static int check(struct gw_sockets_attr *a)
{
    if (!a->count || a->count > COUNT_MAX || a->rbuf > BUFFER_MAX || a->wbuf > BUFFER_MAX ||
        a->writes > 4096 || a->mem > GW_MEM_DEVICE)
        return gw_error(-EINVAL, "sockets: %u of %u and %u bytes, %u writes, memory of kind %u", a->count,
                        a->rbuf, a->wbuf, a->writes, a->mem);
    a->rbuf = pow2(a->rbuf, 128 << 10);
    a->wbuf = pow2(a->wbuf, 128 << 10);
    a->writes = pow2(a->writes, 64);
    if (a->rbuf < GW_SOCK_BUFFER_MIN_ || a->wbuf < GW_SOCK_BUFFER_MIN_ || a->writes < 16)
        return gw_error(-EINVAL, "sockets: buffers of %u and %u bytes and %u writes; at least 4096 and 16",
                        a->rbuf, a->wbuf, a->writes);
    if (!a->keepalive_ns) a->keepalive_ns = 1000000000u;
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Where the parts of the kernels' piece begin. */
struct layout {
    size_t sock, stream, mark, asking, size;
};

static struct layout layout(const struct gw_sockets_attr *a)
{
    struct layout l;

    l.stream = 256; /* behind struct gw_net */
    l.mark = l.stream + a->count * sizeof(struct gw_stream_);
    l.sock = l.mark + (((size_t)a->count * a->writes * sizeof(struct gw_stream_mark_) + 63) & ~(size_t)63);
    l.asking = l.sock + a->count * sizeof(struct gw_sock_);
    l.size = l.asking + GW_SOCK_ASKS_ * sizeof(uint32_t);
    return l;
}

static size_t per_socket(const struct gw_sockets_attr *a)
{
    return (size_t)a->rbuf + a->wbuf + LINE;
}

static int make_memory(struct gw_sockets *set)
{
    struct gw_exec *exec = gw_device_exec(set->dev);
    struct gw_sockets_attr *a = &set->attr;
    struct gw_device_info info;
    int err;

    gw_device_query(set->dev, &info);
    if (!a->mem) a->mem = info.gpu_reach == GW_REACH_NONE ? GW_MEM_HOST : GW_MEM_DEVICE;
    err = gw_mem_alloc(exec, (enum gw_mem_kind)a->mem, a->count * per_socket(a), &set->bytes);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_DEVICE, layout(a).size, &set->kernels);
    if (!err)
        err = gw_mem_alloc(exec, GW_MEM_HOST,
                           a->count * sizeof(struct gw_sock_info_) +
                               GW_SOCK_ASKS_ * sizeof(struct gw_sock_ask_),
                           &set->shared);
    if (err) return err;
    return gw_mr_register(set->pd, set->bytes.host ? set->bytes.host : set->bytes.dev, set->bytes.size,
                          GW_MR_REMOTE_WRITE, &set->mr);
}

static int publish_net(struct gw_sockets *set)
{
    struct gw_exec *exec = gw_device_exec(set->dev);
    struct layout l = layout(&set->attr);
    uint8_t *at = set->kernels.dev, *shared = set->shared.dev;
    struct gw_net net = {
        .size = sizeof(net),
        .version = GW_SOCK_VERSION,
        .count = set->attr.count,
        .keepalive_ns = set->attr.keepalive_ns == UINT64_MAX ? GW_SOCK_SECOND_ : set->attr.keepalive_ns,
        .host = gw_exec_kind(exec) == GW_EXEC_CPU ? set : NULL,
        .sock = (struct gw_sock_ *)(at + l.sock),
        .stream = (struct gw_stream_ *)(at + l.stream),
        .asking = (uint32_t *)(at + l.asking),
        .ask = (struct gw_sock_ask_ *)shared,
        .info = (struct gw_sock_info_ *)(shared + GW_SOCK_ASKS_ * sizeof(struct gw_sock_ask_)),
    };

    return gw_copy_in(exec, at, &net, sizeof(net));
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
}

/* What of a stream never changes. */
static int publish_stream(struct gw_sockets *set, const struct sock *k)
{
    const struct gw_sockets_attr *a = &set->attr;
    struct layout l = layout(a);
    size_t i = (size_t)(k - set->sock), off = offset(set, k);
    uint8_t *bytes = (uint8_t *)set->bytes.dev + off, *at = set->kernels.dev;
    struct gw_stream_ st = {
        .flow = {.qp = gw_qp_handle(k->qp), .cq = gw_cq_handle(k->recv_cq)},
        .sock = (struct gw_sock_ *)(at + l.sock) + i,
        .send_cq = gw_cq_handle(k->send_cq),
        .rbuf = bytes,
        .wbuf = bytes + a->rbuf,
        .table = (struct gw_rs_sge *)(bytes + a->rbuf + a->wbuf),
        .own = (struct gw_rs_sge *)(bytes + a->rbuf + a->wbuf) + GW_RS_TABLE,
        .mark = (struct gw_stream_mark_ *)(at + l.mark) + i * a->writes,
        .rbuf_addr = set->mr->addr + off,
        .wbuf_addr = set->mr->addr + off + a->rbuf,
        .own_addr = set->mr->addr + off + a->rbuf + a->wbuf + GW_RS_TABLE * sizeof(struct gw_rs_sge),
        .lkey = set->mr->lkey,
        .rkey = set->mr->rkey,
        .writes = a->writes,
    };

    return gw_copy_in(gw_device_exec(set->dev), (struct gw_stream_ *)(at + l.stream) + i, &st, sizeof(st));
}

static int post_receives(struct gw_sockets *set, struct sock *k)
{
    return gw_qp_recv_empty(k->qp, set->attr.writes + GW_STREAM_SPARE_, 0);
}

int gw_sock_renew(struct gw_sockets *set, struct sock *k)
{
    int err;

    if (!k->used) return 0;
    err = gw_qp_reset(k->qp, GW_RESET_QUIET, 0);
    k->used = false;
    return err ? err : post_receives(set, k);
}

static int make_sock(struct gw_sockets *set, uint32_t i)
{
    struct sock *k = &set->sock[i];
    uint32_t entries = set->attr.writes + GW_STREAM_SPARE_;
    struct gw_cq_attr ca = {.cqe = pow2(entries, 0), .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    struct gw_qp_attr qa = {.max_send_wr = entries, .max_recv_wr = entries, .post_mode = set->attr.post_mode};
    int err = gw_cq_create(set->dev, &ca, &k->recv_cq);

    ca.flags = 0;
    if (!err) err = gw_cq_create(set->dev, &ca, &k->send_cq);
    qa.send_cq = k->send_cq;
    qa.recv_cq = k->recv_cq;
    if (!err) err = gw_qp_create(set->pd, &qa, &k->qp);
    k->info =
        (struct gw_sock_info_ *)((uint8_t *)set->shared.host + GW_SOCK_ASKS_ * sizeof(struct gw_sock_ask_)) +
        i;
    k->last = &k->first;
    if (!err) err = post_receives(set, k);
    return err ? err : publish_stream(set, k);
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
    err = check(&set->attr);
    if (!err) set->sock = calloc(set->attr.count, sizeof(*set->sock));
    if (!err && !set->sock) err = gw_error_errno(-ENOMEM, "sockets");
    if (!err) err = gw_pd_create(dev, &set->pd);
    if (!err) err = make_memory(set);
    if (!err) err = publish_net(set);
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
    for (uint32_t i = 0; set->sock && i < set->attr.count; i++) {
        struct sock *k = &set->sock[i];

        gw_qp_destroy(k->qp);
        if (k->send_cq) gw_cq_destroy(k->send_cq);
        if (k->recv_cq) gw_cq_destroy(k->recv_cq);
    }
    gw_mr_free(set->mr);
    if (set->pd) gw_pd_destroy(set->pd);
    gw_mem_free(&set->bytes);
    gw_mem_free(&set->kernels);
    gw_mem_free(&set->shared);
    free(set->sock);
    free(set);
    return 0;
}

struct gw_net *gw_sockets_net(const struct gw_sockets *set)
{
    return set->kernels.dev;
}
