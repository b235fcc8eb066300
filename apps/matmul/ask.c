/* SPDX-License-Identifier: Apache-2.0 */
/* The command `ask`: clients that are kernels. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/verbs.h>

#include "ask.h"
#include "load.h"
#include "main.h"

#define THREADS  256u
#define LIMIT_NS 30000000000u

static const char usage[] = "usage: gpuwire app matmul ask HOST:PORT [OPTION...]\n"
                            "\n"
                            "Kernels that ask a server for matrix products, and check every answer.\n"
                            "\n"
                            "      --size N          rows and columns: 16 ... 4096, a multiple of 16 (256)\n"
                            "      --type TYPE       fp32, TF32 or fp16 (fp32)\n"
                            "      --blocks N        of the kernel, each with a connection (2)\n"
                            "      --requests N      of each block (100)\n"
                            "      --exec auto|cpu|gpu   where the kernel runs; --gpu N: which\n"
                            "      --lanes N         threads of a block, on CPU threads (1)\n"
                            "      --rdma            over RDMA\n"
                            "  -h, --help            this text\n";

enum { SIZE = 256, TYPE, BLOCKS, REQUESTS, EXEC, GPU, LANES, RDMA };

static const struct option options[] = {
    {"size", 1, 0, SIZE}, {"type", 1, 0, TYPE}, {"blocks", 1, 0, BLOCKS}, {"requests", 1, 0, REQUESTS},
    {"exec", 1, 0, EXEC}, {"gpu", 1, 0, GPU},   {"lanes", 1, 0, LANES},   {"rdma", 0, 0, RDMA},
    {"help", 0, 0, 'h'},  {0, 0, 0, 0},
};

static const char ask_call[] = "app matmul ask";

struct asking {
    const char *exec, *server;
    uint32_t blocks;
    struct gw_exec_opts opts;
    struct mm_ask_args args;
};

/* An option that is a number: where it belongs. */
static int ask_number(int option, struct asking *k)
{
    switch (option) {
    case SIZE: return gw_option_u32(ask_call, "--size", optarg, MM_N_MIN, MM_N_MAX, &k->args.n);
    case BLOCKS: return gw_option_u32(ask_call, "--blocks", optarg, 1, 4096, &k->blocks);
    case REQUESTS: return gw_option_u32(ask_call, "--requests", optarg, 1, 1u << 30, &k->args.requests);
    case GPU: return gw_option_u32(ask_call, "--gpu", optarg, 0, 255, &k->opts.device);
    default: return gw_option_u32(ask_call, "--lanes", optarg, 1, 1024, &k->opts.lanes);
    }
}

static int ask_parse(int argc, char **argv, struct asking *k)
{
    int c, err = 0;

    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (c) {
        case 'h': return printf("%s", usage), GW_EXIT_OK;
        case ':':
        case '?': return gw_option_wrong(ask_call, argv, c);
        case RDMA: k->args.rdma = GW_RDMA_ONLY; break;
        case EXEC:
            k->exec = optarg;
            err = gw_option_word(ask_call, "--exec", optarg, "auto cpu gpu", NULL);
            break;
        case TYPE: err = mm_type_parse(ask_call, optarg, &k->args.type); break;
        default: err = ask_number(c, k);
        }
    }
    if (err) return err;
    if (argc - optind != 1) return gw_usage_error(ask_call, "expected one HOST:PORT");
    if (k->args.n % MM_N_STEP) return gw_usage_error(ask_call, "--size: must be a multiple of %d", MM_N_STEP);
    k->server = argv[optind];
    err = gw_option_address(ask_call, k->server, 0, &k->args.addr, &k->args.addr_len);
    return err ? err : -1;
}

/* What the kernel's blocks report, in a line. */
static int ask_report(const struct asking *k, const struct mm_ask_result *r)
{
    uint64_t answered = 0, busy = 0, wrong = 0, longest = 0, slowest = 0;
    int err = 0;

    for (uint32_t i = 0; i < k->blocks; i++) {
        answered += r[i].answered;
        busy += r[i].busy;
        wrong += r[i].wrong;
        if (r[i].ns > longest) longest = r[i].ns;
        if (r[i].slowest_ns > slowest) slowest = r[i].slowest_ns;
        if (r[i].err) err = r[i].err;
    }
    printf(
        "%u x %u, %s, %u blocks: %llu products in %.2f s, %.0f a second; slowest %.0f us; wrong: %llu, busy: "
        "%llu\n",
        k->args.n, k->args.n, mm_type_name(k->args.type), k->blocks, (unsigned long long)answered,
        (double)longest / 1e9, longest ? (double)answered * 1e9 / (double)longest : 0, (double)slowest / 1e3,
        (unsigned long long)wrong, (unsigned long long)busy);
    if (err) return gw_error_errno(err, "%s: a kernel's connection", k->server);
    return wrong ? gw_error(-EBADMSG, "answers are wrong") : 0;
}

static int ask_run(struct asking *k, struct gw_exec *exec, struct gw_sockets *set)
{
    struct gw_mem memory = {0}, shared = {0};
    uint32_t *stop;
    int err;

    k->args.net = gw_sockets_net(set);
    k->args.limit_ns = LIMIT_NS;
    k->args.stride = mm_ask_bytes(k->args.type, k->args.n);
    err = gw_mem_alloc(exec, GW_MEM_DEVICE, k->blocks * k->args.stride, &memory);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_HOST, 64 + k->blocks * sizeof(struct mm_ask_result), &shared);
    if (!err) {
        stop = shared.host;
        k->args.memory = memory.dev;
        k->args.stop = shared.dev;
        k->args.results = (struct mm_ask_result *)((uint8_t *)shared.dev + 64);
        err = gw_launch(exec, &mm_ask, k->blocks, THREADS, &k->args);
        while (!err && (err = gw_exec_sync(exec, gw_deadline(100000000u))) == -ETIMEDOUT) {
            if (gw_interrupted()) gw_st_release_u32(stop, 1);
            err = 0;
            continue;
        }
        if (!err) err = ask_report(k, (const struct mm_ask_result *)((uint8_t *)shared.host + 64));
    }
    gw_mem_free(&memory);
    gw_mem_free(&shared);
    return err;
}

int mm_ask_main(int argc, char **argv)
{
    struct asking k = {.exec = "auto", .blocks = 2, .args = {.n = 256, .type = MM_FP32, .requests = 100}};
    struct gw_sockets_attr attr = {.rbuf = 1 << 20, .wbuf = 1 << 20};
    struct gw_sockets *set = NULL;
    struct gw_device *dev = NULL;
    struct gw_exec *exec = NULL;
    int done = ask_parse(argc, argv, &k), err;

    if (done >= 0) return done;
    k.opts.blocks = k.blocks;
    err = gw_exec_create(k.exec, &k.opts, &exec);
    if (!err && k.args.rdma) err = gw_device_open(NULL, exec, &dev);
    attr.count = k.blocks + 1;
    attr.exec = exec;
    if (!err) err = gw_sockets_create(dev, &attr, &set);
    if (!err) err = ask_run(&k, exec, set);
    if (err) gw_fail(ask_call, "%s", gw_last_error());
    gw_sockets_destroy(set);
    if (dev) gw_device_close(dev);
    gw_exec_destroy(exec);
    return gw_exit_code(err);
}
