/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of two processes, each with a NIC: WRITEs and READs between all kinds of memory, driven from either
 * side, every byte looked at; they are copies, not packets, where both see the GPU; regions that go and a
 * process that is killed in the midst. With a GPU's driver, or with the fake one that the build links it to
 * (libcuda.so.1 is whichever is there).
 * test_gpu_ipc [same|other|alone|bench]; other: of the fake GPUs each side sees one of its own
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#define BYTES (1u << 20)
#define LIMIT 60000000000u

typedef unsigned long long cu_ptr;
int cuInit(unsigned flags);
int cuDeviceGet(int *dev, int ordinal);
int cuDevicePrimaryCtxRetain(void **ctx, int dev);
int cuCtxSetCurrent(void *ctx);
int cuMemAlloc_v2(cu_ptr *p, size_t size);
int cuMemFree_v2(cu_ptr p);
int cuMemcpyHtoD_v2(cu_ptr to, const void *from, size_t n);
int cuMemcpyDtoH_v2(void *to, cu_ptr from, size_t n);

#define TRY(cond)                                                                                            \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "pid %d, line %d: %s: %s\n", (int)getpid(), __LINE__, #cond, gw_last_error());   \
            return __LINE__;                                                                                 \
        }                                                                                                    \
    } while (0)

enum kind { GPU, HOST, KINDS };
enum mode { PUT, PUT_IMM, GET, MODES };
enum { RECVS = 64 }; /* for all that a side puts with immediate data */

struct card { /* what a side tells the other */
    char ep[GW_ENDPOINT_TEXT];
    uint64_t addr[KINDS];
    uint32_t rkey[KINDS];
};

static struct side {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr[KINDS];
    uint8_t *host, *want;
    cu_ptr gpu;
    struct card peer;
    int fd;
} s;

/* ---- a side ------------------------------------------------------------------------------------------- */

static int open_side(int fd)
{
    struct gw_cq_attr ca = {.cqe = 256, .flags = GW_CQ_SLEEP};
    struct gw_qp_attr qa = {.max_send_wr = 64, .max_recv_wr = RECVS};
    void *ctx;
    int dev;

    s.fd = fd;
    s.host = aligned_alloc(4096, BYTES);
    s.want = malloc(BYTES);
    TRY(s.host && s.want);
    TRY(!cuInit(0) && !cuDeviceGet(&dev, 0) && !cuDevicePrimaryCtxRetain(&ctx, dev) && !cuCtxSetCurrent(ctx));
    TRY(!cuMemAlloc_v2(&s.gpu, BYTES));
    TRY(!gw_device_open("softnic", NULL, &s.dev) && !gw_pd_create(s.dev, &s.pd) &&
        !gw_cq_create(s.dev, &ca, &s.cq));
    qa.send_cq = qa.recv_cq = s.cq;
    TRY(!gw_qp_create(s.pd, &qa, &s.qp));
    TRY(!gw_mr_register(s.pd, (void *)(uintptr_t)s.gpu, BYTES, 0, &s.mr[GPU]));
    TRY(!gw_mr_register(s.pd, s.host, BYTES, 0, &s.mr[HOST]));
    return 0;
}

static int meet(void)
{
    struct gw_connect_opts opts = {.timeout = 16, .retry_cnt = 7};
    struct gw_endpoint ep;
    struct card mine = {0};
    char ok;

    gw_qp_endpoint(s.qp, &ep);
    gw_endpoint_format(&ep, mine.ep);
    for (int k = 0; k < KINDS; k++) {
        mine.addr[k] = s.mr[k]->addr;
        mine.rkey[k] = s.mr[k]->rkey;
    }
    TRY(write(s.fd, &mine, sizeof(mine)) == sizeof(mine));
    TRY(recv(s.fd, &s.peer, sizeof(s.peer), MSG_WAITALL) == sizeof(s.peer));
    TRY(!gw_recv_empty(gw_qp_handle(s.qp), RECVS, 0));
    TRY(!gw_endpoint_parse(s.peer.ep, &ep) && !gw_qp_connect(s.qp, &ep, &opts));
    TRY(write(s.fd, "c", 1) == 1 && recv(s.fd, &ok, 1, MSG_WAITALL) == 1);
    return 0;
}

static void pattern(uint32_t seed)
{
    for (uint32_t i = 0; i < BYTES; i++) s.want[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

static int fill(enum kind k, uint32_t seed)
{
    pattern(seed);
    if (k == GPU)
        TRY(!cuMemcpyHtoD_v2(s.gpu, s.want, BYTES));
    else
        memcpy(s.host, s.want, BYTES);
    return 0;
}

static int image(enum kind k, uint8_t *to)
{
    if (k == GPU)
        TRY(!cuMemcpyDtoH_v2(to, s.gpu, BYTES));
    else
        memcpy(to, s.host, BYTES);
    return 0;
}

/* [at, at + len) holds seed's bytes, and all around it other's. */
static int holds(enum kind k, uint32_t seed, uint32_t other, uint32_t at, uint32_t len)
{
    uint8_t *got = malloc(BYTES);

    TRY(got && !image(k, got));
    pattern(seed);
    TRY(!memcmp(got + at, s.want + at, len));
    pattern(other);
    TRY(!memcmp(got, s.want, at) && !memcmp(got + at + len, s.want + at + len, BYTES - at - len));
    free(got);
    return 0;
}

/* ---- who is driven ------------------------------------------------------------------------------------- */

struct order {
    char what; /* f fill, h holds?, d deregister and keep an eye on the memory, e end */
    uint32_t kind, seed, other, at, len;
};

static int take_back(void)
{
    TRY(!gw_mr_free(s.mr[GPU]));
    s.mr[GPU] = NULL;
    TRY(!fill(GPU, 99));
    usleep(50000);
    TRY(!holds(GPU, 99, 99, 0, BYTES));
    return 0;
}

static int serve(void)
{
    struct order o;

    while (recv(s.fd, &o, sizeof(o), MSG_WAITALL) == sizeof(o) && o.what != 'e') {
        int line = o.what == 'f'   ? fill(o.kind, o.seed)
                   : o.what == 'h' ? holds(o.kind, o.seed, o.other, o.at, o.len)
                                   : take_back();

        TRY(!line && write(s.fd, "k", 1) == 1);
    }
    return 0;
}

static int tell(struct order o)
{
    char ok;

    TRY(write(s.fd, &o, sizeof(o)) == sizeof(o));
    TRY(o.what == 'e' || recv(s.fd, &ok, 1, MSG_WAITALL) == 1);
    return 0;
}

/* ---- who drives ---------------------------------------------------------------------------------------- */

/* One request and its completion; those of receives, which nobody waits for, come in between. */
static int request(enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len,
                   struct ibv_wc *wc)
{
    const struct gw_mr *mr = s.mr[here];
    struct gw_qp_handle *qp = gw_qp_handle(s.qp);
    uint64_t from = mr->addr + at, to = s.peer.addr[there] + at;
    uint32_t rkey = s.peer.rkey[there];

    if (mode == PUT_IMM)
        TRY(!gw_put_imm(qp, from, mr->lkey, to, rkey, len, 7, GW_SIGNALED, 1));
    else
        TRY(!(mode == GET ? gw_get : gw_put)(qp, from, mr->lkey, to, rkey, len, GW_SIGNALED, 1));
    do TRY(gw_wait_cq(gw_cq_handle(s.cq), 1, wc, gw_deadline(LIMIT), NULL, -1) == 1);
    while (wc->status == IBV_WC_SUCCESS && wc->wr_id != 1);
    return 0;
}

static int one(enum mode mode, enum kind here, enum kind there, uint32_t at, uint32_t len)
{
    struct ibv_wc wc;

    TRY(!fill(here, 10) && !tell((struct order){.what = 'f', .kind = there, .seed = 20}));
    TRY(!request(mode, here, there, at, len, &wc) && wc.status == IBV_WC_SUCCESS);
    TRY(!holds(here, mode == GET ? 20 : 10, 10, at, len));
    TRY(!tell((struct order){'h', there, mode == GET ? 20 : 10, 20, at, len}));
    return 0;
}

static int all_kinds(void)
{
    static const uint32_t part[][2] = {{64, 8}, {4097, 3000}, {100001, 300001}, {0, BYTES}};

    for (int i = 0; i < MODES * 4 * 4; i++)
        TRY(!one(i / 16, i & 1, i >> 1 & 1, part[i >> 2 & 3][0], part[i >> 2 & 3][1]));
    return 0;
}

/* What `gpuwire nic` says of this process. The tool lies beside the program, or in the bundle's bin. */
static long long counter(const char *name)
{
    char exe[400] = "", command[1000], word[100], *text = calloc(1, 1 << 20), *at;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
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
    at = strstr(text, word);
    long long value = at ? atoll(at + strlen(word)) : 0;
    free(text);
    return value;
}

/* Until the peer's memory is open: a while after it was first asked for. */
static int wait_open(void)
{
    uint64_t deadline = gw_deadline(LIMIT);
    long long before = counter("direct_gpu_bytes"); /* memory of the host is written to from the GPU's */
    struct ibv_wc wc;

    do {
        TRY(gw_clock_ns() < deadline);
        TRY(!request(PUT, GPU, GPU, 0, 8, &wc) && wc.status == IBV_WC_SUCCESS);
        usleep(10000);
    } while (counter("direct_gpu_bytes") == before);
    return 0;
}

static int drive(int shared)
{
    struct ibv_wc wc;
    long long before;

    TRY(!all_kinds()); /* begins with packets */
    if (shared) TRY(!wait_open() && !all_kinds());
    before = counter("direct_gpu_bytes");
    TRY(!request(PUT, GPU, GPU, 0, BYTES, &wc) && wc.status == IBV_WC_SUCCESS);
    TRY(counter("direct_gpu_bytes") - before == (shared ? BYTES : 0));
    return 0;
}

/* WRITEs without end to memory that goes. */
static int until_refused(enum ibv_wc_status want)
{
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    uint64_t deadline = gw_deadline(LIMIT);

    while (wc.status == IBV_WC_SUCCESS)
        TRY(gw_clock_ns() < deadline && !request(PUT, GPU, GPU, 0, BYTES, &wc));
    TRY(wc.status == want);
    return 0;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int measure(uint32_t len, double *us)
{
    enum { TIMES = 501 };
    double t[TIMES];
    struct ibv_wc wc;

    for (int i = 0; i < TIMES; i++) {
        uint64_t before = gw_clock_ns();

        TRY(!request(PUT, GPU, GPU, 0, len, &wc) && wc.status == IBV_WC_SUCCESS);
        t[i] = (double)(gw_clock_ns() - before) / 1e3;
    }
    qsort(t, TIMES, sizeof(*t), by_value);
    *us = t[TIMES / 2];
    return 0;
}

static int bench(void)
{
    double small, large;

    TRY(!wait_open() && !measure(8, &small) && !measure(1 << 20, &large));
    printf("bench: GPU to GPU of two processes, WRITE and its completion, median of 501: 8 B %.1f us, 1 MiB "
           "%.1f us"
           " (%.0f Gbit/s)\n",
           small, large, 8.0 * (1 << 20) / large / 1e3);
    return 0;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* This program again, before anything of CUDA or a NIC is open. */
static pid_t start(const char *gpu, int *fd)
{
    int pair[2];
    char word[12];
    pid_t pid, parent = getpid();

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return -1;
    snprintf(word, sizeof(word), "%d", pair[1]);
    pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        if (gpu) setenv("FAKE_GPU", gpu, 1);
        if (getppid() == parent)
            execl("/proc/self/exe", "test_gpu_ipc", "peer", word, gpu ? "other" : "same", NULL);
        _exit(1);
    }
    close(pair[1]);
    *fd = pair[0];
    return pid;
}

static int peer(int fd, int shared)
{
    TRY(!open_side(fd) && !meet() && !serve() && !drive(shared) && !tell((struct order){.what = 'e'}));
    return serve();
}

static int next_peer(int fd)
{
    s.fd = fd;
    TRY(!gw_qp_reset(s.qp, GW_RESET_QUIET, 0));
    return meet();
}

static int both(int shared)
{
    int fd[2];
    pid_t pid[2] = {start(shared ? NULL : "b", &fd[0]), start(shared ? NULL : "b", &fd[1])};

    TRY(pid[0] > 0 && pid[1] > 0 && !open_side(fd[0]) && !meet());
    TRY(!drive(shared) && !tell((struct order){.what = 'e'}) && !serve());
    struct order o = {.what = 'd'};
    TRY(write(s.fd, &o, sizeof(o)) == sizeof(o) && !until_refused(IBV_WC_REM_ACCESS_ERR));
    TRY(recv(s.fd, &o, 1, MSG_WAITALL) == 1 && !tell((struct order){.what = 'e'}));
    TRY(!next_peer(fd[1]));
    if (shared) TRY(!request(PUT, GPU, GPU, 0, BYTES, &(struct ibv_wc){0}));
    TRY(!kill(pid[1], SIGKILL) && !until_refused(IBV_WC_RETRY_EXC_ERR));
    TRY(waitpid(pid[0], &fd[0], 0) == pid[0] && !fd[0]);
    return 0;
}

/* One queue pair that is its own peer: copies, from the first request on. */
static int alone(void)
{
    enum { HALF = BYTES / 2, LEN = 300001, AT = 100 };
    struct gw_connect_opts opts = {.timeout = 16, .retry_cnt = 7};
    uint8_t *model[KINDS] = {malloc(BYTES), malloc(BYTES)}, *got = malloc(BYTES);
    struct gw_endpoint ep;
    struct ibv_wc wc;

    TRY(model[GPU] && model[HOST] && got && !open_side(-1));
    gw_qp_endpoint(s.qp, &ep);
    TRY(!gw_recv_empty(gw_qp_handle(s.qp), RECVS, 0) && !gw_qp_connect(s.qp, &ep, &opts));
    for (int i = 0; i < MODES * 4; i++) {
        enum kind here = i & 1, there = i >> 1 & 1;
        enum mode mode = i / 4;

        TRY(!fill(GPU, 10) && !fill(HOST, 20) && !image(GPU, model[GPU]) && !image(HOST, model[HOST]));
        s.peer.addr[there] = s.mr[there]->addr + HALF;
        s.peer.rkey[there] = s.mr[there]->rkey;
        TRY(!request(mode, here, there, AT, LEN, &wc) && wc.status == IBV_WC_SUCCESS);
        if (mode == GET)
            memcpy(model[here] + AT, model[there] + HALF + AT, LEN);
        else
            memcpy(model[there] + HALF + AT, model[here] + AT, LEN);
        for (int k = 0; k < KINDS; k++) TRY(!image(k, got) && !memcmp(got, model[k], BYTES));
    }
    TRY(counter("direct_requests") == 8 && counter("direct_gpu_bytes") == 6 * LEN);
    TRY(counter("offers_refused") == 0 && counter("offered_bytes") == 4 * LEN);
    free(model[GPU]);
    free(model[HOST]);
    free(got);
    return 0;
}

int main(int argc, char **argv)
{
    int fd, line;

    setenv("GPUWIRE_NIC", "addr=127.0.0.1", 0);
    if (argc == 4 && !strcmp(argv[1], "peer")) return peer(atoi(argv[2]), !strcmp(argv[3], "same")) ? 1 : 0;
    if (argc == 2 && !strcmp(argv[1], "bench")) {
        pid_t pid = start(NULL, &fd);

        line = open_side(fd) || meet() || bench();
        kill(pid, SIGKILL);
        return line ? 1 : 0;
    }
    line = argc == 2 && !strcmp(argv[1], "alone") ? alone() : both(argc != 2 || strcmp(argv[1], "other"));
    if (!line) printf("ok\n");
    return line ? 1 : 0;
}
