/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/local/gpu_side.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* ---- a side ------------------------------------------------------------------------------------------- */

int side_memory_named(const char *word)
{
    static const char *const names[] = {"allocated", "mapped", "private"};

    for (int i = 0; i < 3; i++)
        if (!strcmp(word, names[i])) return i;
    return -1;
}

/* Two allocations, the border between them in the middle of the side's memory. */
static int map_memory(struct side *s, int gpu)
{
    const struct cu_prop prop = {
        .type = 1, .handle_types = s->memory == SIDE_MAPPED, .location = 1, .gpu = gpu};
    const struct cu_access access = {1, gpu, 3};
    unsigned long long memory;
    size_t size = 0;
    cu_ptr at;

    TRY(!cuMemGetAllocationGranularity(&size, &prop, 0) && size);
    size = (SIDE_BYTES / 2 + size - 1) / size * size;
    TRY(!cuMemAddressReserve(&at, 2 * size, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        TRY(!cuMemCreate(&memory, size, &prop, 0) && !cuMemMap(at + i * size, size, 0, memory, 0));
        TRY(!cuMemRelease(memory));
    }
    TRY(!cuMemSetAccess(at, 2 * size, &access, 1));
    s->gpu = at + size - SIDE_BYTES / 2;
    return 0;
}

static int open_gpu(struct side *s, int gpu)
{
    int dev;

    TRY(!cuInit(0) && !cuDeviceGet(&dev, gpu) && !cuDevicePrimaryCtxRetain(&s->ctx, dev));
    TRY(!cuCtxSetCurrent(s->ctx));
    if (s->memory != SIDE_ALLOCATED) return map_memory(s, gpu);
    TRY(!cuMemAlloc_v2(&s->gpu, SIDE_BYTES));
    return 0;
}

int side_open(struct side *s, const char *device, int gpu, int fd)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = SIDE_POSTS, .max_recv_wr = 64};

    s->fd = fd;
    s->host = aligned_alloc(4096, SIDE_BYTES);
    s->want = malloc(SIDE_BYTES);
    TRY(s->host && s->want && !open_gpu(s, gpu));
    TRY(!gw_device_open(device, NULL, &s->dev) && !gw_pd_create(s->dev, &s->pd) &&
        !gw_cq_create(s->dev, &ca, &s->cq));
    qa.send_cq = qa.recv_cq = s->cq;
    TRY(!gw_qp_create(s->pd, &qa, &s->qp));
    TRY(!gw_mr_register(s->pd, (void *)(uintptr_t)s->gpu, SIDE_BYTES, 0, &s->mr[GPU]));
    TRY(!gw_mr_register(s->pd, s->host, SIDE_BYTES, 0, &s->mr[HOST]));
    return 0;
}

static void introduce(const struct side *s, struct card *c)
{
    struct gw_endpoint ep;

    memset(c, 0, sizeof(*c));
    gw_qp_endpoint(s->qp, &ep);
    gw_endpoint_format(&ep, c->ep);
    for (int k = 0; k < KINDS; k++) {
        c->addr[k] = s->mr[k]->addr;
        c->rkey[k] = s->mr[k]->rkey;
    }
}

static int join(struct side *s)
{
    struct gw_connect_opts opts = {.timeout = 16, .retry_cnt = 7};
    struct gw_endpoint ep;

    TRY(!gw_endpoint_parse(s->peer.ep, &ep) && !gw_qp_connect(s->qp, &ep, &opts));
    return 0;
}

int side_meet(struct side *s)
{
    struct card mine;
    char ok;

    introduce(s, &mine);
    if (s->other) {
        introduce(s->other, &s->peer);
        s->other->peer = mine;
        return join(s) || (s->other != s && join(s->other));
    }
    TRY(write(s->fd, &mine, sizeof(mine)) == sizeof(mine));
    TRY(recv(s->fd, &s->peer, sizeof(s->peer), MSG_WAITALL) == sizeof(s->peer));
    TRY(!join(s) && write(s->fd, "c", 1) == 1 && recv(s->fd, &ok, 1, MSG_WAITALL) == 1);
    return 0;
}

/* ---- its memory ---------------------------------------------------------------------------------------- */

static void pattern(struct side *s, uint32_t seed)
{
    for (uint32_t i = 0; i < SIDE_BYTES / 8; i++)
        ((uint64_t *)(void *)s->want)[i] = (i + seed + 1) * 0x9e3779b97f4a7c15u;
}

int side_fill(struct side *s, enum kind k, uint32_t seed)
{
    pattern(s, seed);
    if (k == GPU) /* A copy from pageable memory may return before all of it has arrived. */
        TRY(!cuCtxSetCurrent(s->ctx) && !cuMemcpyHtoD_v2(s->gpu, s->want, SIDE_BYTES) &&
            !cuStreamSynchronize(NULL));
    else
        memcpy(s->host, s->want, SIDE_BYTES);
    return 0;
}

int side_image(const struct side *s, enum kind k, uint8_t *to)
{
    if (k == GPU)
        TRY(!cuCtxSetCurrent(s->ctx) && !cuMemcpyDtoH_v2(to, s->gpu, SIDE_BYTES));
    else
        memcpy(to, s->host, SIDE_BYTES);
    return 0;
}

int side_holds(struct side *s, enum kind k, uint32_t seed, uint32_t other, uint32_t at, uint32_t len)
{
    uint8_t *got = malloc(SIDE_BYTES);

    TRY(got && !side_image(s, k, got));
    pattern(s, seed);
    TRY(!memcmp(got + at, s->want + at, len));
    pattern(s, other);
    TRY(!memcmp(got, s->want, at) && !memcmp(got + at + len, s->want + at + len, SIDE_BYTES - at - len));
    free(got);
    return 0;
}

/* ---- who is driven ------------------------------------------------------------------------------------- */

static int take_back(struct side *s)
{
    TRY(!gw_mr_free(s->mr[GPU]));
    s->mr[GPU] = NULL;
    TRY(!side_fill(s, GPU, 99));
    usleep(50000);
    return side_holds(s, GPU, 99, 99, 0, SIDE_BYTES);
}

static int receive(struct side *s, const struct order *o)
{
    const struct gw_mr *mr = s->mr[o->kind];

    TRY(!gw_recv(gw_qp_handle(s->qp), mr->addr + o->at, mr->lkey, o->len, 2));
    return 0;
}

static int obey(struct side *s, const struct order *o)
{
    struct ibv_wc wc;

    switch (o->what) {
    case 'f': return side_fill(s, o->kind, o->seed);
    case 'h': return side_holds(s, o->kind, o->seed, o->other, o->at, o->len);
    case 'r': return receive(s, o);
    case 'g': TRY(!side_wait(s, 2, &wc) && wc.status == IBV_WC_SUCCESS && wc.byte_len == o->len); return 0;
    case 'd': return take_back(s);
    default: return __LINE__;
    }
}

int side_serve(struct side *s)
{
    struct order o;

    while (recv(s->fd, &o, sizeof(o), MSG_WAITALL) == sizeof(o) && o.what != 'e')
        TRY(!obey(s, &o) && write(s->fd, "k", 1) == 1);
    return 0;
}

int side_tell(struct side *s, struct order o)
{
    char ok;

    if (s->other) return obey(s->other, &o);
    TRY(write(s->fd, &o, sizeof(o)) == sizeof(o));
    TRY(o.what == 'e' || recv(s->fd, &ok, 1, MSG_WAITALL) == 1);
    return 0;
}

/* ---- who drives ---------------------------------------------------------------------------------------- */

static enum ibv_wr_opcode opcode_of(enum mode mode)
{
    static const enum ibv_wr_opcode all[] = {[PUT] = IBV_WR_RDMA_WRITE,
                                             [PUT_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
                                             [GET] = IBV_WR_RDMA_READ,
                                             [SEND] = IBV_WR_SEND,
                                             [FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                             [CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP};

    return all[mode];
}

int side_post(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len,
              int signaled)
{
    struct ibv_sge sge = {s->mr[here]->addr + at, len, s->mr[here]->lkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode_of(mode)}, *bad;
    uint64_t to = s->peer.addr[there] + at;

    if (signaled) wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = htobe32(7);
    if (mode < FETCH_ADD) {
        wr.wr.rdma.remote_addr = to;
        wr.wr.rdma.rkey = s->peer.rkey[there];
    } else {
        uint64_t old;

        /* What is compared is what the peer's memory was filled with. */
        memcpy(&old, s->want + at, sizeof(old));
        wr.wr.atomic.remote_addr = to;
        wr.wr.atomic.rkey = s->peer.rkey[there];
        wr.wr.atomic.compare_add = mode == FETCH_ADD ? SIDE_ADD : old;
        wr.wr.atomic.swap = SIDE_SWAP;
    }
    TRY(!gw_post_send(gw_qp_handle(s->qp), &wr, &bad));
    return 0;
}

int side_wait(struct side *s, uint64_t number, struct ibv_wc *wc)
{
    do TRY(gw_wait_cq(gw_cq_handle(s->cq), 1, wc, gw_deadline(SIDE_LIMIT), NULL, -1) == 1);
    while (wc->status == IBV_WC_SUCCESS && wc->wr_id != number);
    return 0;
}

int side_request(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len,
                 struct ibv_wc *wc)
{
    return side_post(s, mode, here, there, at, len, 1) || side_wait(s, 1, wc);
}

int side_one(struct side *s, enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len)
{
    struct order r = {'r', there, 0, 0, mode == SEND ? at : 0, mode == SEND ? len : 0};
    int arrives = mode == SEND || mode == PUT_IMM;
    struct ibv_wc wc;

    TRY(!side_fill(s, here, 10) && !side_tell(s, (struct order){.what = 'f', .kind = there, .seed = 20}));
    if (arrives) TRY(!side_tell(s, r));
    TRY(!side_request(s, mode, here, there, at, len, &wc) && wc.status == IBV_WC_SUCCESS);
    if (arrives) TRY(!side_tell(s, (struct order){.what = 'g', .len = len}));
    if (!side_holds(s, here, mode == GET ? 20 : 10, 10, at, len) &&
        !side_tell(s, (struct order){'h', there, mode == GET ? 20 : 10, 20, at, len}))
        return 0;
    fprintf(stderr, "in mode %d, %u bytes at %u\n", (int)mode, len, at);
    return __LINE__;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int side_measure(struct side *s, enum mode mode, uint32_t len, double *us)
{
    double t[SIDE_TIMES];
    struct ibv_wc wc;

    for (int i = 0; i < SIDE_TIMES; i++) {
        uint64_t before = gw_clock_ns();

        TRY(!side_request(s, mode, GPU, GPU, 0, len, &wc) && wc.status == IBV_WC_SUCCESS);
        t[i] = (double)(gw_clock_ns() - before) / 1e3;
    }
    qsort(t, SIDE_TIMES, sizeof(*t), by_value);
    *us = t[SIDE_TIMES / 2];
    return 0;
}

/* ---- others -------------------------------------------------------------------------------------------- */

/* The tool lies beside the program, or in the bundle's bin. */
long long side_counter(const char *name)
{
    char exe[400] = "", command[1000], word[100], *text = calloc(1, 1 << 20);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    long long sum = 0;
    FILE *f;

    if (n < 0 || !text) return -1;
    *strrchr(exe, '/') = 0;
    snprintf(command, sizeof(command),
             "t=%s/gpuwire; [ -x $t ] || t=%s/../bin/gpuwire; $t nic --json --pid %d", exe, exe,
             (int)getpid());
    f = popen(command, "r");
    if (f) n = (ssize_t)fread(text, 1, (1 << 20) - 1, f);
    if (f) pclose(f);
    snprintf(word, sizeof(word), "\"%s\":", name);
    for (char *at = text; (at = strstr(at, word)); at += strlen(word)) sum += atoll(at + strlen(word));
    free(text);
    return sum;
}
