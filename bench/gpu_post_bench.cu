/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of posting on a GPU, beside the limits of the same run. Queues, records, registers and CQs lie in
 * mapped host memory. CPU threads stand for the NIC: they read records and write completions. bench/README.md
 * says what is measured and how.
 *
 *     gpu_post_bench [--device N] [--sinks N] [--short] [--rows TEXT] [--payload]
 *         0: every WQE was accounted for; 1: not, or no GPU
 *
 * Prints one table; the last column says which rows miss their target. --rows: only those with TEXT in their
 * name. --payload: instead, what one post costs against the payload it announces, as lines
 * "gpu,BYTES,NANOSECONDS".
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <gpuwire/verbs_device.h>

#define QPS    132u
#define QPN(i) (0x100u + (i))
#define RUNS   7

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            fprintf(stderr, "gpu_post_bench: %s: %s\n", #call, cudaGetErrorString(e_));                      \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* ---- kernels ------------------------------------------------------------------------------------------- */

struct run_args {
    struct gw_qp_handle *qps; /* GW_HANDLE_BYTES apart */
    uint32_t one_qp;          /* all blocks share the first; else block i has queue pair i */
    uint32_t place;           /* blocks that leave at once: the others land on other multiprocessors */
    uint32_t posts;           /* of each thread */
    uint32_t len;             /* of each request */
    uint64_t limit_ns;
    uint64_t *start, *stop; /* of each block */
    uint32_t *failed;
};

/* The remote address is the request's number, for the check. */
__device__ static struct gw_op nth(const struct run_args &a, uint32_t i)
{
    uint64_t thread = (uint64_t)(blockIdx.x - a.place) * blockDim.x + threadIdx.x;

    return gw_put_op(0x1000, 1, thread * a.posts + i, 2, a.len);
}

__global__ static void by_thread(struct run_args a)
{
    uint64_t start = gw_clock_ns(), t = 0;
    uint32_t i, b = blockIdx.x - a.place;
    struct gw_tx tx;
    int err;

    if (blockIdx.x < a.place) return;
    err = gw_tx_open(&tx, a.qps + (a.one_qp ? 0 : b));
    a.start[b] = start;
#pragma unroll 1
    for (i = 0; i < a.posts && !err;) {
        err = gw_tx_post(&tx, nth(a, i), 0, &t);
        if (!err)
            i++;
        else if (err == -EAGAIN && gw_clock_ns() - start < a.limit_ns)
            err = 0;
    }
    a.stop[b] = gw_clock_ns();
    if (err || gw_tx_wait(&tx, t & ~tx.mask, start + 2 * a.limit_ns)) atomicAdd(a.failed, 1);
}

__global__ static void by_warp(struct run_args a)
{
    uint64_t start = gw_clock_ns(), t = 0;
    uint32_t i, b = blockIdx.x - a.place;
    struct gw_tx tx;
    int err;

    if (blockIdx.x < a.place) return;
    err = gw_tx_open(&tx, a.qps + (a.one_qp ? 0 : b));
    if (threadIdx.x == 0) a.start[b] = start;
#pragma unroll 1
    for (i = 0; i < a.posts && !err;) {
        err = gw_tx_post_warp(&tx, 1, nth(a, i), 0, &t);
        if (!err)
            i++;
        else if (err == -EAGAIN && !gw_any(gw_warp_mask(), gw_clock_ns() - start > a.limit_ns))
            err = 0;
    }
    if (threadIdx.x == 0) a.stop[b] = gw_clock_ns();
    if (err || gw_tx_wait_warp(&tx, t & ~tx.mask, start + 2 * a.limit_ns)) atomicAdd(a.failed, 1);
}

/* Limit: a submit's stores, and nothing else. Each lane stores a WQE of `units` times 16 bytes. Then the
 * first lane releases it and stores a record of 4 bytes. It releases that, too, and stores a ring of 8. */
__global__ static void submits(uint8_t *area, size_t apart, uint32_t place, uint32_t units, uint32_t n,
                               uint64_t *start, uint64_t *stop)
{
    uint32_t b = blockIdx.x - place, i, k;
    uint8_t *q = area + b * apart;

    if (blockIdx.x < place) return;
    if (threadIdx.x == 0) start[b] = gw_clock_ns();
    for (i = 0; i < n; i++) {
        uint8_t *wqe = q + 4096 + (size_t)((i * blockDim.x + threadIdx.x) & 1023) * 64;
        struct gw_u128 v = {{i, i, i, i}};

        for (k = 0; k < units; k++) gw_store16(wqe + 16 * k, v);
        __syncwarp();
        if (threadIdx.x) continue;
        gw_fence_release();
        gw_st_relaxed_u32(q + 4, i);
        gw_fence_release();
        gw_mmio_st64(q + 128, i);
    }
    if (threadIdx.x == 0) stop[b] = gw_clock_ns();
}

/* Limit: whole WQEs of 64 bytes, of which each store instruction of a warp writes 8, with nothing between. */
__global__ static void bus_writes(uint8_t *queues, size_t apart, uint32_t wqebbs, uint32_t n, uint64_t *start,
                                  uint64_t *stop)
{
    uint8_t *q = queues + blockIdx.x * apart;
    uint32_t i, k;

    if (threadIdx.x == 0) start[blockIdx.x] = gw_clock_ns();
    for (i = 0; i < n; i++) {
        uint8_t *wqes = q + (size_t)(i * 32 & (wqebbs - 1)) * 64;
        struct gw_u128 v = {{i, i, i, i}};

        for (k = 0; k < 4; k++) gw_store16(wqes + 512 * k + 16 * threadIdx.x, v);
    }
    gw_fence_release();
    __syncwarp();
    if (threadIdx.x == 0) stop[blockIdx.x] = gw_clock_ns();
}

/* ---- queue pairs and the stand-in ---------------------------------------------------------------------- */

struct queue {
    uint8_t *sq, *cq;
    uint32_t *dbrec; /* 0: the queue pair's two words; at 64 bytes the CQ's, at 128 the register */
    volatile uint64_t ci;
    uint64_t pi;
};

struct bench {
    uint32_t qps, wqebbs, interval, flags;
    std::vector<struct queue> q;
    uint8_t *host, *dev;
    struct gw_qp_handle *handles;
    std::vector<std::thread> sinks;
    std::atomic<bool> stop;
    std::vector<uint8_t> seen; /* when checking: per request, how often */
    std::atomic<uint32_t> wrong;
};

static uint32_t sinks_wanted = 12, device;

static void look_at(struct bench *b, struct queue *q, uint32_t qpn, uint64_t at)
{
    const uint32_t *w = (const uint32_t *)(q->sq + (at & (b->wqebbs - 1)) * 64);
    uint64_t token = (uint64_t)gw_be32(w[4]) << 32 | gw_be32(w[5]);

    if (gw_be32(w[0]) != ((uint32_t)(at & 0xffff) << 8 | GW_MLX5_WRITE) || gw_be32(w[1]) >> 8 != qpn ||
        token >= b->seen.size() || b->seen[token]++)
        b->wrong++;
}

static void complete(struct bench *b, struct queue *q, uint32_t qpn, uint64_t at)
{
    struct gw_mlx5_cqe *cqe = (struct gw_mlx5_cqe *)(q->cq + 64 * (q->pi & (b->wqebbs - 1)));
    struct gw_mlx5_wc wc = {};

    wc.opcode = GW_MLX5_CQE_REQ;
    wc.wqe_opcode = GW_MLX5_WRITE;
    wc.wqe_counter = (uint16_t)at;
    wc.qpn = qpn;
    gw_st_release_u8(&cqe->op_own, gw_mlx5_cqe_build(cqe, &wc, (uint32_t)q->pi, b->wqebbs));
    q->pi++;
}

/* Looks about once a microsecond: a NIC reads a record when it is rung, and does not fight over its line all
 * the time. */
static void sink(struct bench *b, uint32_t from, uint32_t step)
{
    uint64_t next = gw_clock_ns();

    for (; !b->stop; next += 1000) {
        while (gw_clock_ns() < next) gw_pause(0);
        for (uint32_t i = from; i < b->qps; i += step) {
            struct queue *q = &b->q[i];
            uint32_t count = gw_mlx5_dbrec_count(gw_ld_acquire_u32(&q->dbrec[GW_MLX5_DBREC_SEND]));
            uint32_t n = (count - (uint32_t)q->ci) & 0xffff;

            if (n > b->wqebbs) b->wrong++, b->stop = true;
            for (uint64_t at = q->ci; n; n--, q->ci = ++at) {
                if (!b->seen.empty()) look_at(b, q, QPN(i), at);
                if ((at & (b->interval - 1)) == b->interval - 1) complete(b, q, QPN(i), at);
            }
        }
    }
}

static void make_handles(struct bench *b, uint32_t i, size_t slots_at, uint8_t *image)
{
    struct gw_qp_handle *qp = (struct gw_qp_handle *)(image + i * sizeof(*qp));
    struct gw_cq_handle *cq = (struct gw_cq_handle *)(image + (b->qps + i) * sizeof(*cq));
    struct gw_qp_entry *table = (struct gw_qp_entry *)(image + 2 * b->qps * GW_HANDLE_BYTES + i * 64);

    qp->size = sizeof(*qp);
    qp->version = GW_VERBS_VERSION;
    qp->flags = b->flags;
    qp->sq.buf = b->q[i].sq;
    qp->sq.wqebbs = b->wqebbs;
    qp->sq.qpn = QPN(i);
    qp->dbrec = b->q[i].dbrec;
    qp->db = (uint64_t *)(b->q[i].dbrec + 32);
    qp->slot = (struct gw_sq_slot *)(b->dev + slots_at) + (size_t)i * b->wqebbs;
    qp->interval = b->interval;
    qp->send_cq = (struct gw_cq_handle *)(b->dev + (b->qps + i) * GW_HANDLE_BYTES);
    cq->size = sizeof(*cq);
    cq->version = GW_VERBS_VERSION;
    cq->flags = b->flags;
    cq->cqe = b->q[i].cq;
    cq->cqes = b->wqebbs;
    cq->table_mask = 1;
    cq->table = (struct gw_qp_entry *)(b->dev + 2 * b->qps * GW_HANDLE_BYTES + i * 64);
    cq->dbrec = b->q[i].dbrec + 16;
    table[(QPN(i) * 2654435769u >> 8) & 1].qpn = QPN(i);
    table[(QPN(i) * 2654435769u >> 8) & 1].qp = (struct gw_qp_handle *)(b->dev + i * GW_HANDLE_BYTES);
}

static void begin(struct bench *b, uint32_t qps, uint32_t wqebbs, bool owner, uint64_t check)
{
    size_t each = 4096 + 2 * (size_t)wqebbs * 64, slots_at = 2 * qps * GW_HANDLE_BYTES + qps * 64;
    std::vector<uint8_t> image(slots_at);

    b->qps = qps;
    b->wqebbs = wqebbs;
    b->interval = wqebbs / 2;
    b->flags = owner ? 1 : 0; /* GW_QP_ONE_POSTER, GW_CQ_ONE_POLLER */
    b->stop = false;
    b->wrong = 0;
    b->seen.assign(check, 0);
    b->q.assign(qps, {});
    slots_at = (slots_at + 511) & ~(size_t)511;
    MUST(cudaHostAlloc((void **)&b->host, qps * each, cudaHostAllocMapped));
    MUST(cudaMalloc((void **)&b->dev, slots_at + (size_t)qps * wqebbs * 16));
    MUST(cudaMemset(b->dev, 0, slots_at + (size_t)qps * wqebbs * 16));
    memset(b->host, 0, qps * each);
    for (uint32_t i = 0; i < qps; i++) {
        b->q[i].dbrec = (uint32_t *)(b->host + i * each);
        b->q[i].sq = b->host + i * each + 4096;
        b->q[i].cq = b->q[i].sq + (size_t)wqebbs * 64;
        for (uint32_t k = 0; k < wqebbs; k++) b->q[i].cq[64 * (size_t)k + 63] = 0xf0;
        make_handles(b, i, slots_at, image.data());
    }
    b->handles = (struct gw_qp_handle *)b->dev;
    MUST(cudaMemcpy(b->dev, image.data(), image.size(), cudaMemcpyHostToDevice));
    for (uint32_t i = 0, n = std::min(qps, sinks_wanted); i < n; i++) b->sinks.emplace_back(sink, b, i, n);
}

static void end(struct bench *b, uint64_t posted)
{
    uint64_t taken = 0;

    b->stop = true;
    for (auto &t : b->sinks) t.join();
    b->sinks.clear();
    for (uint32_t i = 0; i < b->qps; i++) {
        struct queue *q = &b->q[i];

        taken += q->ci;
        /* The register holds the last WQE's ring, no matter which thread has rung. */
        if (*(uint64_t *)(q->dbrec + 32) != gw_mlx5_sq_db_be((uint32_t)q->ci, QPN(i))) b->wrong++;
    }
    if (taken != posted) b->wrong++;
    for (uint8_t s : b->seen) b->wrong += s != 1;
    MUST(cudaFreeHost(b->host));
    MUST(cudaFree(b->dev));
}

/* ---- measurements -------------------------------------------------------------------------------------- */

struct stamps {
    uint64_t *start, *stop;
    uint32_t *failed;
};
static struct stamps st;
static uint32_t bad;

static double span(uint32_t blocks)
{
    uint64_t from = *std::min_element(st.start, st.start + blocks),
             to = *std::max_element(st.stop, st.stop + blocks);

    return (double)(to - from);
}

static double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

struct shape {
    const char *what;
    uint32_t qps, blocks, warp, owner, wqebbs, posts;
    double target;
    int rate; /* the target is a rate in millions a second, to be reached; else ns, not to be exceeded */
};

/* Where the run-th run of one block goes, so that a median is over several multiprocessors. */
static uint32_t place_of(uint32_t blocks, int run)
{
    return blocks == 1 ? 19 * (uint32_t)run % QPS : 0;
}

/* ns for one WQE: the time from the first block's begin to the last one's end, by all WQEs. */
static double once(const struct shape *s, uint32_t len, int run, bool check)
{
    uint64_t all = (uint64_t)s->blocks * (s->warp ? 32 : 1) * s->posts;
    struct run_args a = {};
    struct bench b;
    double ns;

    begin(&b, s->qps, s->wqebbs, s->owner, check ? all : 0);
    a.qps = b.handles;
    a.one_qp = s->qps == 1;
    a.place = place_of(s->blocks, run);
    a.posts = s->posts;
    a.len = len;
    a.limit_ns = 4000000000u;
    a.start = st.start;
    a.stop = st.stop;
    a.failed = st.failed;
    *st.failed = 0;
    if (s->warp)
        by_warp<<<a.place + s->blocks, 32>>>(a);
    else
        by_thread<<<a.place + s->blocks, 1>>>(a);
    MUST(cudaDeviceSynchronize());
    ns = span(s->blocks) / (double)all;
    for (int i = 0; i < 2000; i++) { /* the last WQEs, which are not signalled */
        uint64_t taken = 0;

        for (auto &q : b.q) taken += q.ci;
        if (taken == all) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    end(&b, all);
    if (b.wrong || *st.failed) {
        printf("WRONG: %s: %u found by the stand-in, %u threads failed\n", s->what, b.wrong.load(),
               *st.failed);
        bad++;
    }
    return ns;
}

static double limit_submits(uint32_t blocks, uint32_t threads, uint32_t units)
{
    const size_t apart = 4096 + 65536;
    std::vector<double> v;
    uint8_t *area;

    MUST(cudaHostAlloc((void **)&area, apart * blocks, cudaHostAllocMapped));
    for (int i = 0; i <= RUNS; i++) { /* the first is for nothing */
        uint32_t place = place_of(blocks, i);

        submits<<<place + blocks, threads>>>(area, apart, place, units, 5000, st.start, st.stop);
        MUST(cudaDeviceSynchronize());
        if (i) v.push_back(span(blocks) / 5000 / threads);
    }
    MUST(cudaFreeHost(area));
    return median(v);
}

static double limit_writes(void)
{
    std::vector<double> v;
    uint8_t *queues;

    MUST(cudaHostAlloc((void **)&queues, QPS * 262144u, cudaHostAllocMapped));
    for (int i = 0; i <= RUNS; i++) {
        bus_writes<<<QPS, 32>>>(queues, 262144, 4096, 4000, st.start, st.stop);
        MUST(cudaDeviceSynchronize());
        if (i) v.push_back(span(QPS) / (QPS * 32.0 * 4000));
    }
    MUST(cudaFreeHost(queues));
    return median(v);
}

static const struct shape shapes[] = {
    /* what, queue pairs, blocks, warp, owner, WQEBBs, posts of a thread, target, rate */
    {"thread, 1 WQE a doorbell, owner (ns)", 1, 1, 0, 1, 4096, 20480, 0, 0},
    {"thread, 1 WQE a doorbell, shared (ns)", 1, 1, 0, 0, 4096, 20480, 1800, 0},
    {"warp, 32 WQEs a doorbell, owner (ns/WQE)", 1, 1, 1, 1, 4096, 10240, 45, 0},
    {"warp, 32 WQEs a doorbell, shared (ns/WQE)", 1, 1, 1, 0, 4096, 10240, 65, 0},
    {"132 QPs, 1 WQE a doorbell, owner (M/s)", QPS, QPS, 0, 1, 4096, 10240, 80, 1},
    {"132 QPs, 1 WQE a doorbell, shared (M/s)", QPS, QPS, 0, 0, 4096, 10240, 50, 1},
    {"132 QPs, warp batches, owner (M/s)", QPS, QPS, 1, 1, 4096, 4096, 550, 1},
    {"132 QPs, warp batches, shared (M/s)", QPS, QPS, 1, 0, 4096, 4096, 550, 1},
    {"1 QP, 132 blocks of a thread (M/s)", 1, QPS, 0, 0, 32768, 4096, 15, 1},
    {"1 QP, 132 blocks of a warp (M/s)", 1, QPS, 1, 0, 32768, 1024, 100, 1},
};

static void report(const struct shape *s, double ns, double limit, double target)
{
    double v = s->rate ? 1000 / ns : ns, l = s->rate ? 1000 / limit : limit;
    bool hit = s->rate ? v >= target : v <= target;

    printf("%-44s %9.1f %9.1f %7.2f %9.1f  %s\n", s->what, v, l, v / l, target, hit ? "yes" : "MISSES");
}

static void machine(void)
{
    struct cudaDeviceProp p;
    int driver = 0, runtime = 0;
    char line[160] = "";
    FILE *f = fopen("/proc/driver/nvidia/version", "r");

    MUST(cudaGetDeviceProperties(&p, (int)device));
    MUST(cudaDriverGetVersion(&driver));
    MUST(cudaRuntimeGetVersion(&runtime));
    if (f && fgets(line, sizeof(line), f)) line[strcspn(line, "\n")] = 0;
    if (f) fclose(f);
    printf("gpu: %s, %d multiprocessors; CUDA driver %d, runtime %d; %s\ncpu: %u threads, %u of them sinks\n",
           p.name, p.multiProcessorCount, driver, runtime, line, std::thread::hardware_concurrency(),
           sinks_wanted);
}

/* The cost of a post against the payload that it announces: lines of a CSV file. Sizes in turn, so that what
 * changes with time changes all. */
static int sweep(void)
{
    static const struct shape s = {"payload", 1, 1, 0, 1, 4096, 8192, 0, 0};
    std::vector<double> v[15];

    for (int run = 1; run <= RUNS; run++)
        for (uint32_t k = 0; k < 15; k++) v[k].push_back(once(&s, 64u << k, run, false));
    for (uint32_t k = 0; k < 15; k++) printf("gpu,%u,%.1f\n", 64u << k, median(v[k]));
    return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
    double submit, batch, crowded, writes;
    const char *rows = "";
    bool payload = false;
    int runs = RUNS;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--device") && i + 1 < argc)
            device = (uint32_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--sinks") && i + 1 < argc)
            sinks_wanted = (uint32_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--short"))
            runs = 1;
        else if (!strcmp(argv[i], "--rows") && i + 1 < argc)
            rows = argv[++i];
        else if (!strcmp(argv[i], "--payload"))
            payload = true;
        else
            return fprintf(stderr,
                           "gpu_post_bench [--device N] [--sinks N] [--short] [--rows TEXT] [--payload]\n"),
                   2;
    }
    MUST(cudaSetDevice((int)device));
    if (!payload) machine();
    MUST(cudaHostAlloc((void **)&st.start, 4096, cudaHostAllocMapped));
    MUST(cudaHostAlloc((void **)&st.stop, 4096, cudaHostAllocMapped));
    MUST(cudaHostAlloc((void **)&st.failed, 4096, cudaHostAllocMapped));
    if (payload) return sweep();
    submit = limit_submits(1, 1, 3);
    batch = limit_submits(1, 32, 3);
    crowded = limit_submits(QPS, 1, 3);
    writes = limit_writes();
    printf("limits: two releases to the system alone %.0f ns; with a WQE %.0f ns, by %u blocks at once %.0f "
           "ns, with "
           "32 WQEs by a warp %.0f ns; WQEs over the bus %.0f M/s; two releases alone by %u blocks at once "
           "%.0f ns\n\n",
           limit_submits(1, 1, 0), submit, QPS, crowded, 32 * batch, 1000 / writes, QPS,
           limit_submits(QPS, 1, 0));
    printf("%-44s %9s %9s %7s %9s  %s\n", "", "measured", "limit", "ratio", "target", "reached");
    for (const struct shape &s : shapes) {
        double limit = !s.rate                ? (s.warp ? batch : submit)
                       : s.warp || s.qps == 1 ? writes
                                              : crowded / s.blocks;
        std::vector<double> v;

        if (!strstr(s.what, rows)) continue;
        once(&s, 64, 0, true);
        for (int i = 1; i <= runs; i++) v.push_back(once(&s, 64, i, false));
        report(&s, median(v), limit, s.target ? s.target : 1.1 * submit);
        fflush(stdout);
    }
    printf("%s\n", bad ? "WQEs were lost, repeated or spoilt" : "every WQE of every run was accounted for");
    return bad ? 1 : 0;
}
