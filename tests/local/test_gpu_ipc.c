/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of two processes, each with a NIC. WRITEs and READs go between all kinds of memory, driven from
 * either side, and the test looks at every byte. They are copies, not packets, where both see the GPU.
 * Regions go, and a process is killed, while requests are under way.
 *
 *     test_gpu_ipc [same|other|alone|bench] [allocated|mapped|private]
 *
 * other: of the fake GPUs each side sees one of its own. private: cuMemMap's, and no other process can open
 * it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/local/gpu_side.h"

static struct side s;

static int all_kinds(void)
{
    static const uint32_t part[][2] = {{64, 8}, {4097, 3000}, {100001, 300001}, {0, SIDE_BYTES}};

    for (int i = 0; i < 3 * 4 * 4; i++)
        TRY(!side_one(&s, i / 16, i & 1, i >> 1 & 1, part[i >> 2 & 3][0], part[i >> 2 & 3][1]));
    return 0;
}

/* Until the peer's memory is open: a while after it was first asked for. */
static int wait_open(void)
{
    uint64_t deadline = gw_deadline(SIDE_LIMIT);
    long long before = side_counter("direct_gpu_bytes"); /* memory of the host is written to from the GPU's */
    struct ibv_wc wc;

    do {
        TRY(gw_clock_ns() < deadline);
        TRY(!side_request(&s, PUT, GPU, GPU, 0, 8, &wc) && wc.status == IBV_WC_SUCCESS);
        usleep(10000);
    } while (side_counter("direct_gpu_bytes") == before);
    return 0;
}

static int drive(int shared)
{
    struct ibv_wc wc;
    long long before;

    TRY(!all_kinds()); /* begins with packets */
    if (shared) TRY(!wait_open());
    before = side_counter("eager_sent");
    if (shared) TRY(!all_kinds());
    /* All but those between memories of the host. */
    TRY(!shared || side_counter("eager_sent") - before >= 12);
    before = side_counter("direct_gpu_bytes");
    TRY(!side_request(&s, PUT, GPU, GPU, 0, SIDE_BYTES, &wc) && wc.status == IBV_WC_SUCCESS);
    TRY(side_counter("direct_gpu_bytes") - before == (shared ? SIDE_BYTES : 0));
    return 0;
}

/* WRITEs without end to memory that goes. */
static int until_refused(enum ibv_wc_status want)
{
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    uint64_t deadline = gw_deadline(SIDE_LIMIT);

    while (wc.status == IBV_WC_SUCCESS)
        TRY(gw_clock_ns() < deadline && !side_request(&s, PUT, GPU, GPU, 0, SIDE_BYTES, &wc));
    TRY(wc.status == want);
    return 0;
}

static int bench(void)
{
    double small, large;

    TRY(!wait_open() && !side_measure(&s, PUT, 8, &small) && !side_measure(&s, PUT, 1 << 20, &large));
    printf("bench: GPU to GPU of two processes, WRITE and its completion, median of %d: 8 B %.1f us, 1 MiB "
           "%.1f us (%.0f Gbit/s)\n",
           SIDE_TIMES, small, large, 8.0 * (1 << 20) / large / 1e3);
    return 0;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* The peer gets these two words and the number of its socket. */
static char words[2][16] = {"same", "allocated"};

static pid_t start_peer(int *fd)
{
    char word[40];

    snprintf(word, sizeof(word), "%s %s", words[0], words[1]);
    return child_exec("peer", word, fd);
}

static int can_share(void)
{
    return strcmp(words[0], "other") && s.memory != SIDE_PRIVATE;
}

static int peer(int fd, int shared)
{
    if (!strcmp(words[0], "other")) setenv("FAKE_GPU", "b", 1);
    TRY(!side_open(&s, "softnic", 0, fd) && !side_meet(&s) && !side_serve(&s) && !drive(shared) &&
        !side_tell(&s, (struct order){.what = 'e'}));
    return side_serve(&s);
}

static int next_peer(int fd)
{
    s.fd = fd;
    TRY(!gw_qp_reset(s.qp, GW_RESET_QUIET, 0));
    return side_meet(&s);
}

static int both(int shared)
{
    int fd[2];
    pid_t pid[2] = {start_peer(&fd[0]), start_peer(&fd[1])};

    TRY(pid[0] > 0 && pid[1] > 0 && !side_open(&s, "softnic", 0, fd[0]) && !side_meet(&s));
    TRY(!drive(shared) && !side_tell(&s, (struct order){.what = 'e'}) && !side_serve(&s));
    struct order o = {.what = 'd'};
    TRY(write(s.fd, &o, sizeof(o)) == sizeof(o) && !until_refused(IBV_WC_REM_ACCESS_ERR));
    TRY(recv(s.fd, &o, 1, MSG_WAITALL) == 1 && !side_tell(&s, (struct order){.what = 'e'}));
    TRY(!next_peer(fd[1]));
    if (shared) TRY(!side_request(&s, PUT, GPU, GPU, 0, SIDE_BYTES, &(struct ibv_wc){0}));
    TRY(!kill(pid[1], SIGKILL) && !until_refused(IBV_WC_RETRY_EXC_ERR));
    TRY(waitpid(pid[0], &fd[0], 0) == pid[0] && !fd[0]);
    return 0;
}

/* One queue pair that is its own peer: copies, from the first request on. */
static int alone(void)
{
    enum { HALF = SIDE_BYTES / 2, LEN = 300001, AT = 100 };
    uint8_t *model[KINDS] = {malloc(SIDE_BYTES), malloc(SIDE_BYTES)}, *got = malloc(SIDE_BYTES);
    struct ibv_wc wc;

    s.other = &s;
    TRY(model[GPU] && model[HOST] && got && !side_open(&s, "softnic", 0, -1) && !side_meet(&s));
    TRY(!gw_recv_empty(gw_qp_handle(s.qp), 8, 0));
    for (int i = 0; i < 3 * 4; i++) {
        enum kind here = i & 1, there = i >> 1 & 1;
        enum mode mode = i / 4;

        TRY(!side_fill(&s, GPU, 10) && !side_fill(&s, HOST, 20));
        TRY(!side_image(&s, GPU, model[GPU]) && !side_image(&s, HOST, model[HOST]));
        s.peer.addr[there] = s.mr[there]->addr + HALF;
        s.peer.rkey[there] = s.mr[there]->rkey;
        TRY(!side_request(&s, mode, here, there, AT, LEN, &wc) && wc.status == IBV_WC_SUCCESS);
        if (mode == GET)
            memcpy(model[here] + AT, model[there] + HALF + AT, LEN);
        else
            memcpy(model[there] + HALF + AT, model[here] + AT, LEN);
        for (int k = 0; k < KINDS; k++) TRY(!side_image(&s, k, got) && !memcmp(got, model[k], SIDE_BYTES));
    }
    TRY(side_counter("direct_requests") == 8 && side_counter("direct_gpu_bytes") == 9 * LEN);
    TRY(side_counter("eager_taken") == 3 && side_counter("eager_refused") == 0);
    TRY(side_counter("rndv_refused") == 0 && side_counter("rndv_bytes") == LEN);
    free(model[GPU]);
    free(model[HOST]);
    free(got);
    return 0;
}

static int take_words(const char *how, const char *memory)
{
    int kind = side_memory_named(memory);

    if (kind < 0 || strlen(how) >= sizeof(words[0])) return -1;
    snprintf(words[0], sizeof(words[0]), "%s", how);
    snprintf(words[1], sizeof(words[1]), "%s", memory);
    s.memory = (enum side_memory)kind;
    return 0;
}

static int run_bench(void)
{
    int fd, line;
    pid_t pid = start_peer(&fd);

    line = side_open(&s, "softnic", 0, fd) || side_meet(&s) || bench();
    kill(pid, SIGKILL);
    return line;
}

static int run(int argc, char **argv)
{
    if (take_words(argc > 1 ? argv[1] : "same", argc > 2 ? argv[2] : "allocated")) return __LINE__;
    if (!strcmp(words[0], "bench")) return run_bench();
    return !strcmp(words[0], "alone") ? alone() : both(can_share());
}

int main(int argc, char **argv)
{
    char how[16], memory[16];
    int line;

    setenv("GPUWIRE_NIC", "addr=127.0.0.1", 0);
    if (argc == 3 && !strcmp(argv[0], "peer")) {
        if (sscanf(argv[2], "%15s %15s", how, memory) != 2 || take_words(how, memory)) return 1;
        return peer(atoi(argv[1]), can_share()) ? 1 : 0;
    }
    line = run(argc, argv);
    if (!line) printf("ok\n");
    return line ? 1 : 0;
}
