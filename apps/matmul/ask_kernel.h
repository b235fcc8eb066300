/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that asks a server for products. kernels.c and kernels.cu include it. */
#include "ask.h"

/* A block's memory. */
struct mm_asker {
    double *b_r, *y; /* B r, and A (B r) */
    struct mm_request *request;
    uint8_t *a, *b;
    struct mm_answer *answer;
    float *c;
};

GW_DEV struct mm_asker mm_asker_at(const struct mm_ask_args *a)
{
    uint64_t in = mm_in_bytes(a->type, a->n);
    struct mm_asker k;

    k.b_r = (double *)(a->memory + gw_block_idx() * a->stride);
    k.y = k.b_r + a->n;
    k.request = (struct mm_request *)(k.y + a->n);
    k.a = (uint8_t *)(k.request + 1);
    k.b = k.a + in / 2;
    k.answer = (struct mm_answer *)(k.b + in / 2);
    k.c = (float *)(k.answer + 1);
    return k;
}

/* Fills the matrices, and works out what C r must be. */
GW_DEV void mm_ask_prepare(const struct mm_ask_args *a, struct mm_asker *k)
{
    uint32_t n = a->n, seed = 2 * gw_block_idx() + 1;

    for (uint32_t i = gw_thread_idx(); i < n * n; i += gw_block_dim()) {
        mm_put(k->a, a->type, i, mm_pattern(seed, i));
        mm_put(k->b, a->type, i, mm_pattern(seed + 1, i));
    }
    for (uint32_t i = gw_thread_idx(); i < n; i += gw_block_dim()) {
        k->b_r[i] = 0;
        for (uint32_t j = 0; j < n; j++) k->b_r[i] += mm_pattern(seed + 1, i * n + j) * mm_probe(j);
    }
    gw_syncthreads();
    for (uint32_t i = gw_thread_idx(); i < n; i += gw_block_dim()) {
        k->y[i] = 0;
        for (uint32_t j = 0; j < n; j++) k->y[i] += mm_pattern(seed, i * n + j) * k->b_r[j];
    }
    if (gw_thread_idx() == 0) {
        k->request->magic = MM_REQUEST_MAGIC;
        k->request->version = MM_VERSION;
        k->request->type = (uint16_t)a->type;
        k->request->n = n;
        k->request->flags = 0;
        k->request->length = mm_in_bytes(a->type, n);
    }
    gw_syncthreads();
}

/* Rows of C that are wrong. */
GW_DEV uint32_t mm_ask_wrong(const struct mm_ask_args *a, const struct mm_asker *k)
{
    GW_SHARED(uint32_t, wrong);

    if (gw_thread_idx() == 0) *wrong = 0;
    gw_syncthreads();
    for (uint32_t i = gw_thread_idx(); i < a->n; i += gw_block_dim()) {
        double sum = 0;

        for (uint32_t j = 0; j < a->n; j++) sum += k->c[(uint64_t)i * a->n + j] * mm_probe(j);
        if (sum != k->y[i]) *wrong = 1; /* whichever thread writes: it is the same */
    }
    gw_syncthreads();
    return *wrong;
}

/* One request and its answer: 1: C has come; 0: the server was busy; or an error. */
GW_DEV int64_t mm_ask_once(const struct mm_ask_args *a, struct mm_asker *k, int s, uint64_t id)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns, all = sizeof(*k->request) + mm_in_bytes(a->type, a->n);
    int64_t n;

    if (gw_thread_idx() == 0) k->request->id = id;
    gw_syncthreads();
    n = gw_sock_send(a->net, s, k->request, all, MSG_NOSIGNAL, deadline);
    if (n != (int64_t)all) return n < 0 ? n : -ETIMEDOUT;
    n = gw_sock_recv(a->net, s, k->answer, sizeof(*k->answer), MSG_WAITALL, deadline);
    if (n != sizeof(*k->answer)) return n < 0 ? n : -ECONNRESET;
    if (k->answer->magic != MM_ANSWER_MAGIC || k->answer->id != id) return -EPROTO;
    if (k->answer->status == MM_BUSY) return 0;
    if (k->answer->status != MM_OK || k->answer->length != mm_out_bytes(a->n)) return -EPROTO;
    n = gw_sock_recv(a->net, s, k->c, k->answer->length, MSG_WAITALL, deadline);
    if (n != (int64_t)k->answer->length) return n < 0 ? n : -ECONNRESET;
    return 1;
}

GW_DEV int64_t mm_ask_connect(const struct mm_ask_args *a)
{
    int s = gw_sock_open(a->net, a->addr.ss_family, SOCK_STREAM, 0, gw_clock_ns() + a->limit_ns);
    int rdma = (int)a->rdma, one = 1, err = 0;

    if (s < 0) return s;
    if (rdma != GW_RDMA_OFF)
        err = gw_sock_setsockopt(a->net, s, GW_SOL_SOCKET, GW_SO_RDMA, &rdma, sizeof(rdma));
    if (!err) err = gw_sock_setsockopt(a->net, s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!err)
        err = gw_sock_connect(a->net, s, (const struct sockaddr *)&a->addr, a->addr_len,
                              gw_clock_ns() + a->limit_ns);
    if (!err) return s;
    gw_sock_close(a->net, s, 0);
    return err;
}

GW_KERNEL(mm_ask, struct mm_ask_args, a)
{
    struct mm_ask_result *r = &a->results[gw_block_idx()];
    struct mm_asker k = mm_asker_at(a);
    uint64_t began, before, now, answered = 0, busy = 0, wrong = 0, slowest = 0;
    int64_t s = mm_ask_connect(a), got = s < 0 ? s : 0;

    mm_ask_prepare(a, &k);
    began = now = gw_clock_ns();
    for (uint32_t i = 0; i < a->requests && got >= 0; i++) {
        if (gw_group_first(GW_BLOCK, gw_thread_idx() ? 0 : gw_ld_relaxed_u32(a->stop))) break;
        before = now;
        got = mm_ask_once(a, &k, (int)s, (uint64_t)gw_block_idx() << 32 | i);
        now = gw_clock_ns();
        if (now - before > slowest) slowest = now - before;
        answered += got == 1;
        busy += got == 0;
        wrong += got == 1 && mm_ask_wrong(a, &k);
    }
    if (s >= 0) gw_sock_close(a->net, (int)s, gw_clock_ns() + a->limit_ns);
    if (gw_thread_idx()) return;
    r->err = got < 0 ? (int)got : 0;
    r->answered = (uint32_t)answered;
    r->busy = (uint32_t)busy;
    r->wrong = (uint32_t)wrong;
    r->ns = now - began;
    r->slowest_ns = slowest;
}
