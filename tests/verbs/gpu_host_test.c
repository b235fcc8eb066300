/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a NIC and a GPU rings and DMA may go nowhere, and data may come after its completion. The GPU here
 * is made of host memory. The software NIC is as unkind as a real host can be.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <gpuwire/sync.h>

static uint64_t clock_of_a_poller(void);
#define gw_clock_ns clock_of_a_poller
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>
#undef gw_clock_ns

#define LIMIT  UINT64_C(20000000000)
#define ROUNDS 50

static struct gw_exec *exec;

struct host {
    struct gw_device *dev;
    struct gw_device_info info;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp; /* connected to itself */
    struct gw_mem gpu, host;
    struct gw_mr *gpu_mr, *host_mr;
};

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

static void open_host(struct host *h, const char *nic, const char *cuda)
{
    memset(h, 0, sizeof(*h));
    setenv("GPUWIRE_NIC", nic, 1);
    setenv("FAKE_CUDA", cuda, 1);
    must(gw_device_open("softnic", exec, &h->dev));
    gw_device_query(h->dev, &h->info);
    must(gw_pd_create(h->dev, &h->pd));
}

static void close_host(struct host *h)
{
    must(gw_qp_destroy(h->qp));
    must(gw_cq_destroy(h->cq));
    must(gw_mr_free(h->gpu_mr));
    must(gw_mr_free(h->host_mr));
    gw_mem_free(&h->gpu);
    gw_mem_free(&h->host);
    must(gw_pd_destroy(h->pd));
    must(gw_device_close(h->dev));
    unsetenv("FAKE_CUDA");
    unsetenv("FAKE_GPU_IO");
}

static void make_queues(struct host *h, uint32_t mode)
{
    struct gw_cq_attr ca = {.cqe = 64, .post_mode = mode};
    struct gw_qp_attr qa = {.max_send_wr = 8, .max_recv_wr = 8, .post_mode = mode};
    struct gw_endpoint itself;

    must(gw_cq_create(h->dev, &ca, &h->cq));
    qa.send_cq = qa.recv_cq = h->cq;
    must(gw_qp_create(h->pd, &qa, &h->qp));
    gw_qp_endpoint(h->qp, &itself);
    must(gw_qp_connect(h->qp, &itself, NULL));
}

static void make_buffers(struct host *h, enum gw_mem_kind kind)
{
    must(gw_mem_alloc(exec, GW_MEM_HOST, 65536, &h->host));
    must(gw_mem_alloc(exec, kind, 65536, &h->gpu));
    must(gw_mr_register(h->pd, h->host.host, 65536, 0, &h->host_mr));
    must(gw_mr_register(h->pd, h->gpu.dev, 65536, 0, &h->gpu_mr));
}

/* This thread stands for a kernel of the GPU. */
static void post(struct host *h, struct gw_op op, uint32_t flags)
{
    must(gw_post_op(gw_qp_handle(h->qp), op, flags, 1));
}

static struct ibv_wc next(struct host *h)
{
    uint64_t until = gw_deadline(LIMIT);
    struct ibv_wc wc = {0};
    int n;

    while (!(n = gw_poll_cq(gw_cq_handle(h->cq), 1, &wc)) && gw_clock_ns() < until) gw_pause(1);
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

/* ---- data after its completion ------------------------------------------------------------------------- */

static void fill(struct host *h, uint32_t round)
{
    uint8_t *from = h->host.host;

    for (size_t i = 0; i < 8192; i++) from[i] = (uint8_t)(i * 7 + round + 1);
}

static void same(struct host *h, size_t at, const char *how, uint32_t round)
{
    if (memcmp((uint8_t *)h->gpu.dev + at, h->host.host, 4096))
        fail_msg("round %u: %s completed, and its data is not there", round, how);
}

static void written(struct host *h, uint32_t round)
{
    struct gw_op put =
        gw_put_imm_op(h->host_mr->addr, h->host_mr->lkey, h->gpu_mr->addr, h->gpu_mr->rkey, 4096, round);
    struct ibv_wc wc;

    must(gw_recv_empty(gw_qp_handle(h->qp), 1, 2));
    post(h, put, 0);
    wc = next(h);
    assert_int_equal(gw_wc_imm(&wc), round);
    same(h, 0, "a WRITE", round);
}

static void sent(struct host *h, uint32_t round)
{
    must(gw_recv(gw_qp_handle(h->qp), h->gpu_mr->addr + 4096, h->gpu_mr->lkey, 4096, 2));
    post(h, gw_send_op(h->host_mr->addr, h->host_mr->lkey, 4096), 0);
    assert_int_equal(next(h).opcode, IBV_WC_RECV);
    same(h, 4096, "a SEND", round);
}

/* signal: by itself; else by the WRITE that follows it. */
static void fetched(struct host *h, uint32_t round, int signal)
{
    post(h, gw_get_op(h->gpu_mr->addr + 8192, h->gpu_mr->lkey, h->host_mr->addr, h->host_mr->rkey, 4096),
         signal ? GW_SIGNALED : 0);
    if (!signal)
        post(h, gw_put_op(h->host_mr->addr, h->host_mr->lkey, h->host_mr->addr + 16384, h->host_mr->rkey, 8),
             GW_SIGNALED);
    (void)next(h);
    same(h, 8192, signal ? "a READ" : "a WRITE after a READ", round);
}

static void added(struct host *h, uint32_t round)
{
    uint64_t *word = (uint64_t *)((uint8_t *)h->host.host + 32768),
             *old = (uint64_t *)((uint8_t *)h->gpu.dev + 32768);

    *word = UINT64_C(0x1122334455667788) + round;
    post(h,
         gw_fetch_add_op(h->gpu_mr->addr + 32768, h->gpu_mr->lkey, h->host_mr->addr + 32768, h->host_mr->rkey,
                         1),
         GW_SIGNALED);
    (void)next(h);
    if (*old != UINT64_C(0x1122334455667788) + round)
        fail_msg("round %u: an atomic's answer is not there", round);
}

static void late_data(uint32_t mode, const char *cuda, const char *why)
{
    struct host h;

    open_host(&h, "addr=127.0.0.1,hostile=1,seed=7", cuda);
    assert_int_equal(h.info.gpu_flush, 1);
    if (!strstr(h.info.flush_why, why)) fail_msg("why: %s", h.info.flush_why);
    make_queues(&h, mode);
    make_buffers(&h, GW_MEM_DEVICE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(&h, i);
        written(&h, i);
        sent(&h, i);
        fetched(&h, i, 1);
        fetched(&h, i, 0);
        added(&h, i);
        memset(h.gpu.dev, 0, 16384);
    }
    close_host(&h);
}

static void late_data_direct(void **state)
{
    (void)state;
    late_data(GW_POST_DIRECT, "unordered", "CUDA says so");
}

/* Such a GPU's promise about the order of writes does not count. */
static void late_data_of_an_older_gpu(void **state)
{
    (void)state;
    late_data(GW_POST_DIRECT, "ampere", "below 9.0");
}

static void late_data_beside_a_coherent_link(void **state)
{
    (void)state;
    late_data(GW_POST_DIRECT, "coherent", "coherent link");
}

/* libibverbs', in whose way this is: ibv_reg_mr calls it for rights that may be optional. */
static unsigned strict; /* regions without relaxed ordering */

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct ibv_mr *(*theirs)(struct ibv_pd *, void *, size_t, uint64_t, unsigned) =
        (struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, uint64_t, unsigned))
            dlsym(RTLD_NEXT, "ibv_reg_mr_iova2");

    strict += !(access & IBV_ACCESS_RELAXED_ORDERING);
    return theirs(pd, addr, length, iova, access);
}

/* The bus may put a READ from such a region in front of what it is to push. So the region of the READ that
 * flushes is none, whatever is asked for. */
static void late_data_with_relaxed_ordering(void **state)
{
    struct host h;

    (void)state;
    setenv("GPUWIRE_RELAXED_ORDERING", "1", 1);
    strict = 0;
    open_host(&h, "addr=127.0.0.1,hostile=1,seed=7", "unordered");
    assert_int_equal(h.info.gpu_flush, 1);
    assert_int_equal(strict, 1);
    make_buffers(&h, GW_MEM_DEVICE);
    assert_int_equal(strict, 1);
    close_host(&h);
    late_data(GW_POST_DIRECT, "unordered", "CUDA says so");
    unsetenv("GPUWIRE_RELAXED_ORDERING");
}

static void late_data_by_proxy(void **state)
{
    (void)state;
    late_data(GW_POST_PROXY_POST, "unordered", "CUDA says so");
}

/* Nothing but a READ, by libibverbs' struct: the queue pair has not fetched before. */
static void late_data_of_a_twin(void **state)
{
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1,hostile=1,seed=6", "unordered");
    make_queues(&h, GW_POST_DIRECT);
    make_buffers(&h, GW_MEM_DEVICE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_sge sge = {h.gpu_mr->addr, 4096, h.gpu_mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {h.host_mr->addr, h.host_mr->rkey}},
                           *bad;

        fill(&h, i);
        assert_int_equal(gw_post_send(gw_qp_handle(h.qp), &wr, &bad), 0);
        (void)next(&h);
        same(&h, 0, "a READ by gw_post_send", i);
        memset(h.gpu.dev, 0, 4096);
    }
    close_host(&h);
}

/* Tickets are retired by another way. */
static void late_ticket(void **state)
{
    struct gw_tx tx;
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1,hostile=1,seed=8", "unordered");
    make_queues(&h, GW_POST_AUTO);
    make_buffers(&h, GW_MEM_DEVICE);
    must(gw_tx_open(&tx, gw_qp_handle(h.qp)));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t ticket = 0;

        fill(&h, i);
        must(gw_tx_post(&tx,
                        gw_get_op(h.gpu_mr->addr, h.gpu_mr->lkey, h.host_mr->addr, h.host_mr->rkey, 4096), 0,
                        &ticket));
        must(gw_tx_wait(&tx, ticket, gw_deadline(LIMIT)));
        same(&h, 0, "a READ", i);
        memset(h.gpu.dev, 0, 4096);
    }
    close_host(&h);
}

/* ---- a poller that is stopped while it waits for a flush ----------------------------------------------- */

static const struct gw_flush_handle *stops_in; /* whose READ it waits for then */
static unsigned looks, stops;

/* The clock of the poller's flush. It is stopped at the first look after the one that begins it,
 * until the READ has ended, and for longer than a READ may take. */
static uint64_t clock_of_a_poller(void)
{
    const struct timespec pause = {.tv_nsec = 100000000};

    if (!stops_in || !stops_in->failed || ++looks != 2) return gw_clock_ns();
    nanosleep(&pause, NULL);
    stops++;
    return gw_clock_ns() + 2 * UINT64_C(1000000000);
}

static void stopped_poller(void **state)
{
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1,hostile=1,seed=9", "unordered");
    make_queues(&h, GW_POST_DIRECT);
    make_buffers(&h, GW_MEM_DEVICE);
    stops_in = gw_cq_handle(h.cq)->flush;
    assert_non_null(stops_in);
    for (uint32_t i = 0; i < 20 && stops < 3; i++) {
        looks = 0;
        fill(&h, i);
        written(&h, i);
    }
    stops_in = NULL;
    assert_int_equal(stops, 3);
    close_host(&h);
}

/* ---- who flushes --------------------------------------------------------------------------------------- */

static void asked_for(void **state)
{
    static const char *const set[] = {"0", "1"};
    struct host h;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        setenv("GPUWIRE_GPU_FLUSH", set[i], 1);
        open_host(&h, i ? "addr=127.0.0.1" : "addr=127.0.0.1,hostile=1", i ? "" : "unordered");
        assert_int_equal(h.info.gpu_flush, i);
        make_queues(&h, GW_POST_AUTO);
        assert_int_equal(gw_cq_handle(h.cq)->flush != NULL, i);
        if (i) assert_string_equal(h.info.flush_why, "GPUWIRE_GPU_FLUSH=1");
        close_host(&h);
    }
    unsetenv("GPUWIRE_GPU_FLUSH");
}

/* The software NIC has no regard for what the GPU promises: such a flush must be asked for. For good:
 * last. */
static void late_data_of_any_gpu(void **state)
{
    struct host h;

    (void)state;
    setenv("GPUWIRE_GPU_FLUSH", "1", 1);
    open_host(&h, "addr=127.0.0.1,hostile=1,gpuorder=none,seed=7", "");
    make_queues(&h, GW_POST_DIRECT);
    make_buffers(&h, GW_MEM_DEVICE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(&h, i);
        written(&h, i);
        fetched(&h, i, 1);
        memset(h.gpu.dev, 0, 16384);
    }
    close_host(&h);
    unsetenv("GPUWIRE_GPU_FLUSH");
}

/* Where the GPU promises the order, or the NIC waits for it, nothing is done about it. */
static void no_need(void **state)
{
    static const struct {
        const char *nic, *cuda;
    } hosts[] = {{"addr=127.0.0.1,hostile=1", ""}, {"addr=127.0.0.1", "unordered"}};
    struct host h;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        open_host(&h, hosts[i].nic, hosts[i].cuda);
        assert_int_equal(h.info.gpu_flush, 0);
        make_queues(&h, GW_POST_AUTO);
        assert_null(gw_cq_handle(h.cq)->flush);
        close_host(&h);
    }
}

/* CPU threads have no flush: they need the promise. */
static void cpu_threads(void **state)
{
    struct gw_exec *cpu;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_mr *mr;
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1,hostile=1", "unordered");
    make_buffers(&h, GW_MEM_DEVICE);
    must(gw_exec_create("cpu", NULL, &cpu));
    must(gw_device_open("softnic", cpu, &dev));
    must(gw_pd_create(dev, &pd));
    assert_int_equal(gw_mr_register(pd, h.gpu.dev, h.gpu.size, 0, &mr), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "does not promise"));
    assert_non_null(strstr(gw_last_error(), "mapped host memory"));
    setenv("FAKE_CUDA", "", 1);
    must(gw_mr_register(pd, h.gpu.dev, h.gpu.size, 0, &mr));
    must(gw_mr_free(mr));
    must(gw_pd_destroy(pd));
    must(gw_device_close(dev));
    must(gw_exec_destroy(cpu));
    close_host(&h);
}

/* ---- rings and DMA that go nowhere --------------------------------------------------------------------- */

static void works(struct host *h, enum gw_mem_kind kind)
{
    make_queues(h, GW_POST_AUTO);
    make_buffers(h, kind);
    for (uint32_t i = 0; i < 5; i++) {
        fill(h, i);
        written(h, i);
    }
}

static void falls_back(const char *nic)
{
    struct host h;

    open_host(&h, nic, "");
    assert_int_equal(h.info.post_mode, GW_POST_PROXY_DOORBELL);
    if (!strstr(h.info.post_why, "nothing came of it")) fail_msg("why: %s", h.info.post_why);
    works(&h, GW_MEM_DEVICE);
    assert_int_equal(gw_post_try(h.dev, GW_POST_DIRECT), -EOPNOTSUPP);
    close_host(&h);
}

static void lost_mapping(void **state)
{
    (void)state;
    setenv("FAKE_GPU_IO", "lost", 1);
    falls_back("addr=127.0.0.1");
}

static void lost_rings(void **state)
{
    (void)state;
    falls_back("addr=127.0.0.1,gpurings=lost");
}

static void forced(void **state)
{
    struct gw_device *dev;

    (void)state;
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,gpurings=lost", 1);
    setenv("GPUWIRE_POST", "direct", 1);
    assert_int_equal(gw_device_open("softnic", exec, &dev), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "nothing came of it"));
    unsetenv("GPUWIRE_POST");
}

static void nothing_lost(void **state)
{
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1", "");
    assert_int_equal(h.info.post_mode, GW_POST_DIRECT);
    assert_int_equal(h.info.gpu_reach, GW_REACH_DIRECT);
    works(&h, GW_MEM_DEVICE);
    close_host(&h);
}

/* By its address it is registered, and does not work; as a dma-buf it does, or cannot be had. The NIC keeps
 * to that for good: last. */
static void lost_dma(void **state)
{
    struct gw_mem mem;
    struct gw_mr *mr;
    struct host h;

    (void)state;
    open_host(&h, "addr=127.0.0.1,gpudma=lost", "");
    assert_int_equal(h.info.gpu_reach, GW_REACH_DMABUF);
    works(&h, GW_MEM_DEVICE);
    assert_int_equal(h.gpu_mr->reach, GW_REACH_DMABUF);
    assert_int_equal(gw_reach_try(h.dev, GW_REACH_DIRECT), -EOPNOTSUPP);
    assert_non_null(strstr(gw_last_error(), "does not arrive"));
    close_host(&h);
    open_host(&h, "addr=127.0.0.1,gpudma=lost", "no_dmabuf");
    assert_int_equal(h.info.gpu_reach, GW_REACH_NONE);
    if (!strstr(h.info.gpu_why, "does not arrive")) fail_msg("why: %s", h.info.gpu_why);
    works(&h, GW_MEM_HOST); /* what programs do then */
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, 65536, &mem));
    assert_int_equal(gw_mr_register(h.pd, mem.dev, 65536, 0, &mr), -EOPNOTSUPP);
    gw_mem_free(&mem);
    close_host(&h);
}

static int open_exec(void **state)
{
    (void)state;
    return gw_exec_create("gpu", NULL, &exec);
}

static int close_exec(void **state)
{
    (void)state;
    return gw_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_lost),
                                       cmocka_unit_test(late_data_direct),
                                       cmocka_unit_test(late_data_by_proxy),
                                       cmocka_unit_test(late_data_of_an_older_gpu),
                                       cmocka_unit_test(late_data_beside_a_coherent_link),
                                       cmocka_unit_test(late_data_with_relaxed_ordering),
                                       cmocka_unit_test(late_data_of_a_twin),
                                       cmocka_unit_test(late_ticket),
                                       cmocka_unit_test(stopped_poller),
                                       cmocka_unit_test(asked_for),
                                       cmocka_unit_test(no_need),
                                       cmocka_unit_test(cpu_threads),
                                       cmocka_unit_test(lost_mapping),
                                       cmocka_unit_test(lost_rings),
                                       cmocka_unit_test(forced),
                                       cmocka_unit_test(late_data_of_any_gpu),
                                       cmocka_unit_test(lost_dma)};

    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
