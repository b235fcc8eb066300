/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ranks in one process, as blocks of one kernel: what the code does on a GPU needs no second one. The
 * software NIC moves the data. It prints what an operation takes: pair [--exec cpu|gpu] [--lanes N]
 * [--ranks N]
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "tests/collective/pair_kernel.h"
#include "tests/collective/peer.h"

#define FLOATS 300000u /* of a vector at most */

uint32_t peer_rank = 0;

struct one {
    struct gw_ranks *ranks;
    struct gw_comm *comm;
    struct gw_mem send, recv;
    struct gw_device *dev;
    uint32_t rank, size, id[2];
    int listener, err;
    char rendezvous[32];
    pthread_t thread;
};

struct all {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_mem result, ns;
    struct one one[PAIR_RANKS];
    uint32_t size, threads;
};

static int one_open(struct one *o)
{
    struct gw_ranks_attr attr = {.how = GW_RANKS_PLAIN,
                                 .rank = o->rank,
                                 .size = o->size,
                                 .rendezvous = o->rendezvous,
                                 .listener = o->rank ? 0 : 1 + (uint32_t)o->listener};
    struct gw_comm_attr shape = {.blocks = 2};

    TRY(gw_ranks_join(&attr, LIMIT, &o->ranks) == 0);
    TRY(gw_comm_create(o->ranks, o->dev, &shape, LIMIT, &o->comm) == 0);
    TRY(gw_comm_register(o->comm, o->send.dev, o->send.size, LIMIT, &o->id[0]) == 0);
    TRY(gw_comm_register(o->comm, o->recv.dev, o->recv.size, LIMIT, &o->id[1]) == 0);
    return 0;
}

static void *one_main(void *arg)
{
    struct one *o = arg;

    o->err = one_open(o);
    return NULL;
}

static int all_open(struct all *a, const char *exec, const struct gw_exec_opts *opts)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    TRY(fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !listen(fd, 64));
    TRY(!getsockname(fd, (struct sockaddr *)&at, &n));
    TRY(gw_exec_create(exec, opts, &a->exec) == 0 && gw_device_open(NULL, a->exec, &a->dev) == 0);
    a->threads = gw_exec_kind(a->exec) == GW_EXEC_GPU ? 256 : gw_exec_lanes(a->exec);
    TRY(gw_mem_alloc(a->exec, GW_MEM_HOST, 4096, &a->result) == 0);
    TRY(gw_mem_alloc(a->exec, GW_MEM_HOST, sizeof(uint64_t), &a->ns) == 0);
    for (uint32_t r = 0; r < a->size; r++) {
        struct one *o = &a->one[r];

        *o = (struct one){.dev = a->dev, .rank = r, .size = a->size, .listener = fd};
        snprintf(o->rendezvous, sizeof(o->rendezvous), "127.0.0.1:%u", ntohs(at.sin_port));
        TRY(gw_mem_alloc(a->exec, GW_MEM_DEVICE, FLOATS * 4 * a->size, &o->send) == 0);
        TRY(gw_mem_alloc(a->exec, GW_MEM_DEVICE, FLOATS * 4 * a->size, &o->recv) == 0);
    }
    for (uint32_t r = 0; r < a->size; r++)
        TRY(!pthread_create(&a->one[r].thread, NULL, one_main, &a->one[r]));
    for (uint32_t r = 0; r < a->size; r++) pthread_join(a->one[r].thread, NULL);
    for (uint32_t r = 0; r < a->size; r++) TRY(a->one[r].err == 0);
    return 0;
}

static int all_close(struct all *a)
{
    for (uint32_t r = a->size; r-- > 0;) { /* rank 0 leaves last */
        struct one *o = &a->one[r];

        TRY(gw_comm_unregister(o->comm, o->id[0]) == 0 && gw_comm_unregister(o->comm, o->id[1]) == 0);
        TRY(gw_comm_destroy(o->comm) == 0);
        TRY(gw_ranks_leave(o->ranks, LIMIT) == 0);
        gw_mem_free(&o->send);
        gw_mem_free(&o->recv);
    }
    gw_mem_free(&a->result);
    gw_mem_free(&a->ns);
    TRY(gw_device_close(a->dev) == 0 && gw_exec_destroy(a->exec) == 0);
    return 0;
}

/* Whole numbers, whose sums are exact. */
static float float_of(uint32_t rank, uint64_t i)
{
    return (float)((i * 31 + rank * 7) % 1000);
}

static float float_wanted(const struct all *a, const struct gw_coll *c, uint32_t rank, uint64_t i)
{
    uint64_t from = i / c->count, at = i % c->count;
    float sum = 0;

    if (c->kind == GW_COLL_BROADCAST) return float_of(c->root, i);
    if (c->kind == GW_COLL_ALLGATHER) return float_of((uint32_t)from, at);
    if (c->kind == GW_COLL_ALLTOALL) return float_of((uint32_t)from, rank * c->count + at);
    for (uint32_t k = 0; k < a->size; k++)
        sum += float_of(k, c->kind == GW_COLL_ALLREDUCE ? i : rank * c->count + i);
    return sum;
}

static int all_fill(struct all *a, float *v)
{
    for (uint32_t r = 0; r < a->size; r++) {
        for (uint64_t i = 0; i < (uint64_t)FLOATS * a->size; i++) v[i] = float_of(r, i);
        TRY(gw_copy_in(a->exec, a->one[r].send.dev, v, (uint64_t)FLOATS * a->size * 4) == 0);
    }
    return 0;
}

static int all_run(struct all *a, struct gw_coll c, uint32_t rounds, float *got)
{
    struct pair_args args = {.blocks = a->size > 2 ? 1 : 2, .rounds = rounds};

    args.ns = a->ns.dev;
    args.result = a->result.dev;
    for (uint32_t r = 0; r < a->size; r++) {
        args.comm[r] = gw_comm_handle(a->one[r].comm);
        args.coll[r] = c;
        args.coll[r].send = a->one[r].send.dev;
        args.coll[r].recv = a->one[r].recv.dev;
    }
    TRY(gw_launch(a->exec, &pair_rounds, a->size * args.blocks, a->threads, &args) == 0);
    TRY(gw_exec_sync(a->exec, gw_deadline(2 * LIMIT_NS)) == 0);
    for (uint32_t b = 0; b < a->size * args.blocks; b++) TRY(((int32_t *)a->result.host)[b] == 0);
    for (uint32_t r = 0; r < a->size; r++) {
        uint64_t n = gw_coll_extent_(&c, a->size, 1);

        TRY(gw_copy_out(a->exec, got, a->one[r].recv.dev, n * 4) == 0);
        for (uint64_t i = 0; i < n; i++) TRY(got[i] == float_wanted(a, &c, r, i));
    }
    return 0;
}

static int all_check(struct all *a, float *v)
{
    static const char *const name[] = {"",           "broadcast", "all-reduce", "reduce-scatter",
                                       "all-gather", "all-to-all"};
    static const uint64_t counts[] = {1, 2048, 8192, 100003, 262144};

    TRY(all_fill(a, v) == 0);
    for (uint32_t kind = GW_COLL_BROADCAST; kind <= GW_COLL_ALLTOALL; kind++)
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t way = GW_WAY_DIRECT; way <= GW_WAY_RING; way++) {
                struct gw_coll c = {
                    .kind = kind, .dtype = GW_DTYPE_F32, .way = way, .root = a->size - 1, .count = counts[i]};

                TRY(all_run(a, c, 3, v) == 0);
                TRY(all_run(a, c, 20, v) == 0);
                printf("measured: %u ranks, %s of %llu floats, way %u: %.1f us\n", a->size, name[kind],
                       (unsigned long long)c.count, way, (double)*(uint64_t *)a->ns.host / 20e3);
            }
    return 0;
}

int main(int argc, char **argv)
{
    struct gw_exec_opts opts = {.lanes = 1, .blocks = 4};
    struct all a = {.size = 2};
    const char *exec = "cpu";
    float *v = malloc(sizeof(*v) * FLOATS * PAIR_RANKS);
    int err;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--exec")) exec = argv[i + 1];
        if (!strcmp(argv[i], "--lanes")) opts.lanes = (uint32_t)atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--ranks")) a.size = (uint32_t)atoi(argv[i + 1]);
    }
    if (!strcmp(exec, "gpu") && !gw_exec_gpu_available(NULL, 0)) return 77;
    if (!v || a.size < 1 || a.size > PAIR_RANKS) return 2;
    err = all_open(&a, exec, &opts);
    if (!err) err = all_check(&a, v);
    if (!err) err = all_close(&a);
    free(v);
    return err != 0;
}
