/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank, which a launcher starts (launch.sh, mpirun):
 *
 *     peer [--exec cpu|gpu] [--lanes N] [--blocks N] [--staging BYTES] [--immediate] [--way N]
 *     all|faults|die RANK
 *
 * It prints `rank R of N: as it must be`. Exit code 77: there is no GPU.
 */
#include "tests/collective/peer.h"

uint32_t peer_rank;

struct peer_options {
    const char *exec, *what;
    struct gw_exec_opts opts;
    struct gw_comm_attr attr;
    uint32_t who;
};

static int options_read(int argc, char **argv, struct peer_options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        uint32_t number = (uint32_t)strtoul(value, NULL, 10);

        if (!strcmp(argv[i], "--immediate")) {
            o->attr.immediate = 1;
            continue;
        }
        if (!strcmp(argv[i], "all") || !strcmp(argv[i], "faults")) {
            o->what = argv[i];
            continue;
        }
        i++;
        if (!strcmp(argv[i - 1], "--exec"))
            o->exec = value;
        else if (!strcmp(argv[i - 1], "--lanes"))
            o->opts.lanes = number;
        else if (!strcmp(argv[i - 1], "--blocks"))
            o->attr.blocks = number;
        else if (!strcmp(argv[i - 1], "--staging"))
            o->attr.staging = number;
        else if (!strcmp(argv[i - 1], "--way"))
            o->attr.way = number;
        else if (!strcmp(argv[i - 1], "die"))
            o->what = "die", o->who = number;
        else
            return 2;
    }
    return 0;
}

static int peer_open(struct peer *p, struct peer_options *o)
{
    TRY(gw_ranks_join(NULL, LIMIT, &p->ranks) == 0);
    p->rank = peer_rank = gw_ranks_rank(p->ranks);
    p->size = gw_ranks_size(p->ranks);
    if (!strcmp(o->exec, "gpu")) { /* one GPU each */
        o->opts.device = gw_ranks_local_rank(p->ranks);
        if (gw_exec_create(o->exec, &o->opts, &p->exec)) {
            printf("skipped: this takes two GPUs: rank %u has none\n", p->rank);
            exit(77);
        }
    }
    if (!p->exec) TRY(gw_exec_create(o->exec, &o->opts, &p->exec) == 0);
    TRY(gw_device_open(NULL, p->exec, &p->dev) == 0);
    TRY(gw_comm_create(p->ranks, p->dev, &o->attr, LIMIT, &p->comm) == 0);
    TRY(gw_comm_rank(p->comm) == p->rank && gw_comm_size(p->comm) == p->size);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MOST + 4096, &p->send) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MOST + 4096, &p->recv) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_HOST, MOST + 4096, &p->want) == 0);
    return 0;
}

static int peer_close(struct peer *p)
{
    TRY(gw_comm_destroy(p->comm) == 0);
    gw_mem_free(&p->send);
    gw_mem_free(&p->recv);
    gw_mem_free(&p->want);
    TRY(gw_device_close(p->dev) == 0);
    TRY(gw_exec_destroy(p->exec) == 0);
    TRY(gw_ranks_leave(p->ranks, LIMIT) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    struct peer_options o = {.exec = "cpu", .what = "all", .opts = {.lanes = 1}};
    struct peer p = {0};
    int err = options_read(argc, argv, &o);

    if (err) {
        fprintf(stderr, "usage: %s [--exec cpu|gpu] [--lanes N] … all|faults|die RANK\n", argv[0]);
        return err;
    }
    if (!strcmp(o.exec, "gpu") && !gw_exec_gpu_available(NULL, 0)) return 77;
    err = peer_open(&p, &o);
    if (!err && !strcmp(o.what, "all")) err = check_all(&p);
    if (!err && !strcmp(o.what, "all")) err = check_kernels(&p);
    if (!err && !strcmp(o.what, "all")) err = check_moe(&p);
    if (!err && !strcmp(o.what, "faults")) err = check_faults(&p);
    if (!err && !strcmp(o.what, "die")) err = check_death(&p, o.who);
    if (!err) err = peer_close(&p);
    if (!err) printf("rank %u of %u: as it must be\n", p.rank, p.size);
    return err != 0;
}
