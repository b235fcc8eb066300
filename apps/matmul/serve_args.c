/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire app matmul` and of its command serve. */
#include <stdio.h>

#include <gpuwire/options.h>

#include "main.h"

static const char usage[] =
    "usage: gpuwire app matmul [OPTION...]                  a server, clients of several kinds, and a table\n"
    "       gpuwire app matmul serve [OPTION...]            a server\n"
    "       gpuwire app matmul load HOST:PORT [OPTION...]   clients on CPU threads; load --help says more\n"
    "       gpuwire app matmul ask HOST:PORT [OPTION...]    clients that are kernels; ask --help says more\n"
    "\n"
    "A server of matrix products whose kernels use the network themselves.\n"
    "\n"
    "      --listen [HOST:]PORT   serve: where (127.0.0.1, any free port)\n"
    "      --design NAME     independent: each block serves and computes (default); daemon: some blocks "
    "serve,\n"
    "                        and the others compute\n"
    "      --exec auto|cpu|gpu   where the kernels run (auto: the GPU when there is one); --gpu N: which\n"
    "      --blocks N        of the kernel (as many as run at a time)\n"
    "      --io-blocks N     daemon: that serve (a quarter)\n"
    "      --lanes N         threads of a block, on CPU threads (1)\n"
    "      --rdma            over RDMA alone; --both: over TCP and RDMA, at one port\n"
    "      --proxies N       TCP: threads that move bytes between the host and the kernels (GPU: 1 to 8, "
    "else 1)\n"
    "      --connections N   at a time (1024)\n"
    "      --largest N       the largest matrices that are served (4096)\n"
    "      --memory MB       for matrices (GPU: 4096, CPU: 256)\n"
    "      --buffer KB       of each connection, in each direction (GPU 256, CPU 64; up to 64 connections "
    "1024)\n"
    "      --body S          how long a request may take to come, and an answer to go, besides 0.1 us a byte "
    "(10)\n"
    "      --idle S          how long a client may be silent between requests (300)\n"
    "      --room S          how long a request waits for memory before the answer `busy` (2)\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code 0: done; 1: failed; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum {
    LISTEN = 256,
    DESIGN,
    EXEC,
    GPU,
    BLOCKS,
    IO_BLOCKS,
    LANES,
    RDMA,
    BOTH,
    PROXIES,
    CONNECTIONS,
    LARGEST,
    MEMORY,
    BUFFER,
    BODY,
    IDLE,
    ROOM
};

static const struct option options[] = {
    {"listen", 1, 0, LISTEN},
    {"design", 1, 0, DESIGN},
    {"exec", 1, 0, EXEC},
    {"gpu", 1, 0, GPU},
    {"blocks", 1, 0, BLOCKS},
    {"io-blocks", 1, 0, IO_BLOCKS},
    {"lanes", 1, 0, LANES},
    {"rdma", 0, 0, RDMA},
    {"both", 0, 0, BOTH},
    {"proxies", 1, 0, PROXIES},
    {"connections", 1, 0, CONNECTIONS},
    {"largest", 1, 0, LARGEST},
    {"memory", 1, 0, MEMORY},
    {"buffer", 1, 0, BUFFER},
    {"body", 1, 0, BODY},
    {"idle", 1, 0, IDLE},
    {"room", 1, 0, ROOM},
    {"help", 0, 0, 'h'},
    {0, 0, 0, 0},
};

/* An option that is a number: where it belongs. */
static int serve_number(const char *call, int option, struct mm_server_opts *o)
{
    switch (option) {
    case GPU: return gw_option_u32(call, "--gpu", optarg, 0, 255, &o->gpu);
    case BLOCKS: return gw_option_u32(call, "--blocks", optarg, 1, 4096, &o->blocks);
    case IO_BLOCKS: return gw_option_u32(call, "--io-blocks", optarg, 1, 4095, &o->io_blocks);
    case LANES: return gw_option_u32(call, "--lanes", optarg, 1, 1024, &o->lanes);
    case PROXIES: return gw_option_u32(call, "--proxies", optarg, 1, MM_NETS_MAX, &o->proxies);
    case CONNECTIONS: return gw_option_u32(call, "--connections", optarg, 1, 32768, &o->connections);
    case LARGEST: return gw_option_u32(call, "--largest", optarg, MM_N_MIN, MM_N_MAX, &o->largest);
    case MEMORY: return gw_option_u32(call, "--memory", optarg, 1, 1 << 20, &o->memory_mb);
    case BUFFER: return gw_option_u32(call, "--buffer", optarg, 4, 262144, &o->buffer_kb);
    case BODY: return gw_option_u32(call, "--body", optarg, 1, 86400, &o->body_s);
    case IDLE: return gw_option_u32(call, "--idle", optarg, 1, 86400, &o->idle_s);
    default: return gw_option_u32(call, "--room", optarg, 1, 86400, &o->room_s);
    }
}

static int serve_option(const char *call, int option, char **argv, struct mm_server_opts *o)
{
    uint32_t word = 0;
    int err;

    switch (option) {
    case '?':
    case ':': return gw_option_wrong(call, argv, option);
    case LISTEN: return gw_option_listen(call, optarg, 0, &o->addr, &o->addr_len);
    case RDMA: o->rdma = GW_RDMA_ONLY; return 0;
    case BOTH: o->rdma = GW_RDMA_TRY; return 0;
    case DESIGN:
        err = gw_option_word(call, "--design", optarg, "independent daemon", &word);
        o->daemon = word;
        return err;
    case EXEC: o->exec = optarg; return gw_option_word(call, "--exec", optarg, "auto cpu gpu", NULL);
    default: return serve_number(call, option, o);
    }
}

int mm_serve_parse(int argc, char **argv, bool demo, struct mm_server_opts *o)
{
    const char *call = demo ? "app matmul" : "app matmul serve";
    int c, err;

    memset(o, 0, sizeof(*o));
    o->exec = "auto";
    err = gw_option_listen(call, "0", 0, &o->addr, &o->addr_len);
    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        if (c == 'h') return printf("%s", usage), GW_EXIT_OK;
        if (c == LISTEN && demo) return gw_usage_error(call, "--listen belongs to serve");
        err = serve_option(call, c, argv, o);
    }
    if (!err && optind < argc) err = gw_usage_error(call, "%s: no such command or argument", argv[optind]);
    return err ? err : -1;
}
