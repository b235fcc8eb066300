/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two GPUs: WRITE, READ, SEND and atomics from memory of one to memory of the other, every byte looked at on
 * both sides, and what they cost. Exit code 77: there are not two GPUs.
 *
 *     test_gpu_two one     in one process, with one NIC
 *     test_gpu_two nics    in one process, with two NICs
 *     test_gpu_two apart   in two processes, each of which uses its own GPU
 *     test_gpu_two both    in two processes that use both GPUs
 *     test_gpu_two hidden  in two processes, each of which sees its own GPU alone
 *
 * mapped-apart, mapped-both, mapped-hidden: with memory of cuMemMap.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/local/gpu_side.h"

static struct side a, b; /* on GPU 0, which drives first; on GPU 1, if it is in this process */
static const char *word = "one", *how = "one"; /* as it was said; without "mapped-" */

enum { TOO_FEW, APART, NEAR }; /* near: they reach each other's memory; else all goes through the host's */

static int look(void)
{
    int n = 0, can = 0, dev[2];

    if (cuInit(0) || cuDeviceGetCount(&n) || n < 2) return TOO_FEW;
    if (cuDeviceGet(&dev[0], 0) || cuDeviceGet(&dev[1], 1) || cuDeviceCanAccessPeer(&can, dev[0], dev[1]))
        return TOO_FEW;
    return can ? NEAR : APART;
}

/* A child looks: what has asked the driver must not fork, and sees what it saw then. */
static int gpus(void)
{
    int status = 0;
    pid_t pid = fork();

    if (!pid) _exit(look());
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : TOO_FEW;
}

/* ---- what is done -------------------------------------------------------------------------------------- */

static int bytes(struct side *s)
{
    static const uint32_t part[][2] = {{64, 8},       {1001, 3},        {4097, 3000},
                                       {8192, 32768}, {100001, 300001}, {0, SIDE_BYTES}};

    for (int mode = PUT; mode <= SEND; mode++)
        for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
            TRY(!side_one(s, (enum mode)mode, GPU, GPU, part[i][0], part[i][1]));
    TRY(!side_one(s, PUT, HOST, GPU, 5, 700001) && !side_one(s, GET, HOST, GPU, 5, 700001));
    return 0;
}

/* The old value comes here, and the new one stands there. All around it, on both sides, nothing has
 * changed. */
static int atomic(struct side *s, enum mode mode, uint32_t at)
{
    uint8_t *here = malloc(SIDE_BYTES), *before = malloc(SIDE_BYTES);
    struct ibv_wc wc;
    uint64_t old, now;

    TRY(here && before && !side_tell(s, (struct order){.what = 'f', .kind = GPU, .seed = 20}));
    TRY(!side_fill(s, HOST, 20) && !side_fill(s, GPU, 10) && !side_image(s, GPU, before));
    memcpy(&old, s->host + at, sizeof(old));
    TRY(!side_fill(s, HOST, 20)); /* it is what the second operand is taken from */
    TRY(!side_request(s, mode, GPU, GPU, at, 8, &wc) && wc.status == IBV_WC_SUCCESS);
    TRY(!side_image(s, GPU, here) && !memcmp(here + at, &old, 8));
    memcpy(here + at, before + at, 8);
    TRY(!memcmp(here, before, SIDE_BYTES));
    /* A READ fetches the bytes that stand there, and they are put back, so that the rest can be compared with
     * the fill. */
    TRY(!side_request(s, GET, GPU, GPU, at, 8, &wc) && wc.status == IBV_WC_SUCCESS &&
        !side_image(s, GPU, here));
    memcpy(&now, here + at, sizeof(now));
    TRY(now == (mode == FETCH_ADD ? old + SIDE_ADD : SIDE_SWAP));
    memcpy(s->host + at, &old, sizeof(old));
    TRY(!side_request(s, PUT, HOST, GPU, at, 8, &wc) && wc.status == IBV_WC_SUCCESS);
    TRY(!side_tell(s, (struct order){'h', GPU, 20, 20, 0, SIDE_BYTES}));
    free(here);
    free(before);
    return 0;
}

static int atomics(struct side *s)
{
    for (uint32_t at = 0; at < 4096; at += 1360)
        TRY(!atomic(s, FETCH_ADD, at) && !atomic(s, CMP_SWAP, at + 8));
    return 0;
}

/* Until copies are made as they are to be: a while after another process's memory was first asked for. */
static int warm_up(struct side *s, int can)
{
    uint64_t deadline = gw_deadline(can ? SIDE_LIMIT : 100000000u);
    long long before = side_counter("peer_bytes");
    struct ibv_wc wc;

    do {
        TRY(!side_request(s, PUT, GPU, GPU, 0, 4096, &wc) && wc.status == IBV_WC_SUCCESS);
        usleep(10000);
    } while (side_counter("peer_bytes") == before && gw_clock_ns() < deadline);
    TRY((side_counter("peer_bytes") != before) == can);
    return 0;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

/* Many at once, the last of some signalled. Bytes per ns. */
static int stream(struct side *s, enum mode mode, double *speed)
{
    enum { ROUNDS = 30, BATCH = 16 };
    uint64_t before = gw_clock_ns();
    struct ibv_wc wc;

    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 1; k <= BATCH; k++) TRY(!side_post(s, mode, GPU, GPU, 0, SIDE_BYTES, k == BATCH));
        TRY(!side_wait(s, 1, &wc) && wc.status == IBV_WC_SUCCESS);
    }
    *speed = (double)ROUNDS * BATCH * SIDE_BYTES / (double)(gw_clock_ns() - before);
    return 0;
}

static int figures(struct side *s, const char *way)
{
    static const uint32_t sizes[] = {8, 4096, 65536, SIDE_BYTES};
    double us[4], speed;

    for (int mode = PUT; mode <= GET; mode += GET - PUT) {
        for (int i = 0; i < 4; i++) TRY(!side_measure(s, (enum mode)mode, sizes[i], &us[i]));
        TRY(!stream(s, (enum mode)mode, &speed));
        printf("bench: %s, %s, %s and its completion, median of %d: 8 B %.1f us, 4 KiB %.1f us, 64 KiB %.1f "
               "us, 1 MiB %.1f us; "
               "1 MiB each, 16 at once: %.1f GB/s\n",
               word, way, mode == PUT ? "WRITE" : "READ", SIDE_TIMES, us[0], us[1], us[2], us[3], speed);
    }
    return 0;
}

static int drive(struct side *s, int can, const char *way)
{
    TRY(!bytes(s)); /* where the peer is another process this begins with packets */
    TRY(!warm_up(s, can) && !bytes(s) && !atomics(s));
    return getenv("FAKE_CUDA") ? 0 : figures(s, way); /* of memory of the host they say nothing */
}

/* ---- ways ---------------------------------------------------------------------------------------------- */

static int one_process(const char *second, int can)
{
    a.other = &b;
    b.other = &a;
    TRY(!side_open(&a, "softnic", 0, -1) && !side_open(&b, second, 1, -1) && !side_meet(&a));
    return drive(&a, can, "GPU 0 to GPU 1") || drive(&b, can, "GPU 1 to GPU 0");
}

/* A context of the other GPU, too. */
static int use(int gpu)
{
    void *ctx;
    int dev;

    TRY(!cuInit(0) && !cuDeviceGet(&dev, gpu) && !cuDevicePrimaryCtxRetain(&ctx, dev));
    return 0;
}

/* From now on this process sees that GPU alone. */
static void hide_others(const char *gpu)
{
    setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
    setenv("FAKE_GPU", gpu, 1);
}

static int peer(int fd)
{
    int hidden = !strcmp(how, "hidden"), can;

    if (hidden) hide_others("1");
    TRY(strcmp(how, "both") || !use(0));
    TRY(!side_open(&b, "softnic", !hidden, fd) && read(fd, &can, sizeof(can)) == sizeof(can));
    TRY(!side_meet(&b) && !side_serve(&b));
    TRY(!drive(&b, can, "GPU 1 to GPU 0") && !side_tell(&b, (struct order){.what = 'e'}));
    return 0;
}

static int two_processes(int can)
{
    int fd, status;
    pid_t pid = child_exec("peer", word, &fd);

    TRY(pid > 0 && write(fd, &can, sizeof(can)) == sizeof(can));
    if (!strcmp(how, "hidden")) hide_others("0");

    TRY(strcmp(how, "both") || !use(1));
    TRY(!side_open(&a, "softnic", 0, fd) && !side_meet(&a));
    TRY(!drive(&a, can, "GPU 0 to GPU 1") && !side_tell(&a, (struct order){.what = 'e'}) && !side_serve(&a));
    TRY(waitpid(pid, &status, 0) == pid && !status);
    return 0;
}

int main(int argc, char **argv)
{
    int found, line;

    if (argc > 1) word = how = argv[argc - 1];
    if (!strncmp(word, "mapped-", 7)) {
        how = word + 7;
        a.memory = b.memory = SIDE_MAPPED;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("GPUWIRE_NIC", !strcmp(how, "nics") ? "addr=127.0.0.1;addr=127.0.0.2" : "addr=127.0.0.1", 1);
    if (!strcmp(argv[0], "peer")) return argc == 3 && !peer(atoi(argv[1])) ? 0 : 1;
    found = gpus();
    if (found == TOO_FEW) {
        printf("skipped: this takes two GPUs\n");
        return 77;
    }
    if (!strcmp(how, "one") || !strcmp(how, "nics"))
        line = one_process(strcmp(how, "nics") ? "softnic" : "mlx5_1", found == NEAR);
    else
        line = two_processes(found == NEAR);
    if (!line) printf("ok\n");
    return line ? 1 : 0;
}
