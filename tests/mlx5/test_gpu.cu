/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats as device code: a kernel and the host build the same random entries, which must be equal byte
 * for byte. Exit code 77 (skipped) where there is no GPU.
 */
#include <stdio.h>
#include <string.h>

#include "tests/mlx5/random_wr.h"

enum { BBS = 64, QPN = 0xabcdef, ROUNDS = 2000, CQES = 256 };

/* All that both sides see, in pinned memory that the GPU reads and writes at the same addresses. */
struct shared {
    uint8_t sq[BBS * GW_MLX5_WQEBB];
    uint8_t rq[BBS * GW_MLX5_WQEBB];
    struct gw_mlx5_cqe cqe[CQES];
    struct gw_mlx5_wc wc[CQES], parsed[CQES];
    uint64_t doorbell[4];
    struct random_wr_pool pool;
    struct gw_mlx5_wr wr;
    int result;
};

static int failures;

static void check(int ok, const char *what, int round)
{
    if (ok || failures++ > 5) return;
    printf("FAIL: %s differs between host and device (round %d)\n", what, round);
}

static int cuda_ok(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return 1;
    printf("FAIL: %s: %s\n", what, cudaGetErrorString(e));
    failures++;
    return 0;
}

GW_FN void build_send(struct shared *s, uint32_t idx)
{
    struct gw_mlx5_sq sq = {s->sq, BBS, QPN};

    s->result = gw_mlx5_put_wr(&sq, idx, &s->wr);
}

GW_FN void build_lean(struct shared *s, uint32_t idx)
{
    struct gw_mlx5_sq sq = {s->sq, BBS, QPN};
    const struct gw_mlx5_wr *w = &s->wr;

    gw_mlx5_put_send(&sq, idx, GW_MLX5_SEND_IMM, w->flags, w->imm_be, w->raddr, w->rkey & 0xffff, w->rkey);
    gw_mlx5_put_rdma(&sq, idx + 1, GW_MLX5_WRITE_IMM, w->flags, w->imm_be, w->raddr, w->rkey, w->compare, 64,
                     5);
    gw_mlx5_put_atomic(&sq, idx + 2, GW_MLX5_ATOMIC_CS, w->flags, w->raddr, w->rkey, w->swap_or_add,
                       w->compare, 8, 9);
    gw_mlx5_put_nop(&sq, idx + 3, 4, w->flags);
    gw_mlx5_put(&sq, idx * 4 + 13, gw_mlx5_inline12(8, w->rkey, w->imm_be, 0));
    s->doorbell[0] = gw_mlx5_sq_db_be(idx, QPN);
    s->doorbell[1] = gw_mlx5_cq_db_be(gw_mlx5_cq_arm_be(idx, idx & 1, idx * 77), idx);
    s->doorbell[2] = gw_mlx5_dbrec_be(idx);
    s->doorbell[3] = gw_mlx5_cq_ci_be(idx * 99);
}

GW_FN void build_recv(struct shared *s, uint32_t idx)
{
    struct gw_mlx5_rq rq = {s->rq, BBS, 64};

    s->result = gw_mlx5_put_recv(&rq, idx, s->wr.sge, s->wr.num_sge, 4);
}

GW_FN void build_cqe(struct shared *s, uint32_t i)
{
    s->cqe[i].op_own = gw_mlx5_cqe_build(&s->cqe[i], &s->wc[i], i, CQES / 2);
    gw_mlx5_cqe_parse(&s->cqe[i], &s->parsed[i]);
}

__global__ void send_kernel(struct shared *s, uint32_t idx)
{
    build_send(s, idx);
}

__global__ void lean_kernel(struct shared *s, uint32_t idx)
{
    build_lean(s, idx);
}

__global__ void recv_kernel(struct shared *s, uint32_t idx)
{
    build_recv(s, idx);
}

__global__ void cqe_kernel(struct shared *s)
{
    build_cqe(s, threadIdx.x);
}

static void queues(struct shared *s, struct shared *host)
{
    uint32_t idx = 65000;

    for (int i = 0; i < ROUNDS && failures < 5; i++) {
        s->wr = random_wr(&s->pool, i % 4 ? 60 : 4);
        *host = *s;
        send_kernel<<<1, 1>>>(s, idx);
        build_send(host, idx);
        if (!cuda_ok(cudaDeviceSynchronize(), "send_kernel")) return;
        check(s->result == host->result && s->result > 0, "gw_mlx5_put_wr's result", i);
        check(!memcmp(s->sq, host->sq, sizeof(s->sq)), "a send WQE", i);
        idx += (uint32_t)s->result;
        if (i % 8) continue;
        lean_kernel<<<1, 1>>>(s, idx);
        build_lean(host, idx);
        if (!cuda_ok(cudaDeviceSynchronize(), "lean_kernel")) return;
        check(!memcmp(s->sq, host->sq, sizeof(s->sq)), "a lean send WQE", i);
        check(!memcmp(s->doorbell, host->doorbell, sizeof(s->doorbell)), "a doorbell value", i);
        recv_kernel<<<1, 1>>>(s, idx);
        build_recv(host, idx);
        if (!cuda_ok(cudaDeviceSynchronize(), "recv_kernel")) return;
        check(s->result == host->result, "gw_mlx5_put_recv's result", i);
        check(!memcmp(s->rq, host->rq, sizeof(s->rq)), "a receive WQE", i);
    }
}

static void completions(struct shared *s, struct shared *host)
{
    static const uint8_t ops[] = {0, 1, 2, 3, 4, 13, 14};
    struct rnd *r = &s->pool.rnd;

    for (int i = 0; i < CQES; i++) {
        struct gw_mlx5_wc *wc = &s->wc[i];

        rnd_bytes(r, wc, sizeof(*wc));
        wc->opcode = ops[rnd_below(r, 7)];
        wc->scatter = (uint8_t)rnd_below(r, 3);
    }
    *host = *s;
    cqe_kernel<<<1, CQES>>>(s);
    for (uint32_t i = 0; i < CQES; i++) build_cqe(host, i);
    if (!cuda_ok(cudaDeviceSynchronize(), "cqe_kernel")) return;
    check(!memcmp(s->cqe, host->cqe, sizeof(s->cqe)), "a CQE", 0);
    check(!memcmp(s->parsed, host->parsed, sizeof(s->parsed)), "a parsed CQE", 0);
}

int main(void)
{
    struct cudaDeviceProp prop;
    struct shared *s, *host;
    void *p[2];
    int n = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        printf("SKIPPED: no CUDA device\n");
        return 77;
    }
    if (!cuda_ok(cudaGetDeviceProperties(&prop, 0), "cudaGetDeviceProperties") ||
        !cuda_ok(cudaMallocHost(&p[0], sizeof(*s)), "cudaMallocHost") ||
        !cuda_ok(cudaMallocHost(&p[1], sizeof(*s)), "cudaMallocHost"))
        return 1;
    s = (struct shared *)p[0];
    host = (struct shared *)p[1];
    memset(s, 0, sizeof(*s));
    random_wr_init(&s->pool, 31);
    queues(s, host);
    completions(s, host);
    cudaFreeHost(s);
    cudaFreeHost(host);
    printf("%s: %d rounds of send, receive and completion entries on %s, seed 31\n",
           failures ? "FAILED" : "ok", ROUNDS, prop.name);
    return failures != 0;
}
