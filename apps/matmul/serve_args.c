/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire app matmul` and of its command serve. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

static int serve_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int serve_wrong(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "gpuwire app matmul: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "; --help says more\n");
    va_end(args);
    return MM_EXIT_USAGE;
}

/* A whole number from min to max: 0, or an exit code. */
static int serve_number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    unsigned long long x;

    errno = 0;
    x = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || x < min || x > max)
        return serve_wrong("%s %s: expected a whole number from %llu to %llu", what, text,
                           (unsigned long long)min, (unsigned long long)max);
    *out = x;
    return 0;
}

/* HOST:PORT, [HOST]:PORT or PORT, split in place. */
static int serve_address_parse(char *text, struct mm_server_opts *o)
{
    char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    uint64_t x;
    int done = serve_number("--listen: port", port, 0, 65535, &x);

    if (done) return done;
    o->port = (uint16_t)x;
    if (!colon) return 0;
    *colon = 0;
    if (*text == '[' && colon[-1] == ']') {
        colon[-1] = 0;
        text++;
    }
    if (!*text) return serve_wrong("--listen: expected [HOST:]PORT");
    o->host = text;
    return 0;
}

static int serve_word(int option, struct mm_server_opts *o)
{
    switch (option) {
    case LISTEN: return serve_address_parse(optarg, o);
    case RDMA: o->rdma = GW_RDMA_ONLY; return 0;
    case BOTH: o->rdma = GW_RDMA_TRY; return 0;
    case DESIGN:
        o->daemon = !strcmp(optarg, "daemon");
        if (o->daemon || !strcmp(optarg, "independent")) return 0;
        return serve_wrong("--design %s: expected independent or daemon", optarg);
    default:
        o->exec = optarg;
        if (!strcmp(optarg, "auto") || !strcmp(optarg, "cpu") || !strcmp(optarg, "gpu")) return 0;
        return serve_wrong("--exec %s: expected auto, cpu or gpu", optarg);
    }
}

static int serve_amount(int option, const char *name, struct mm_server_opts *o)
{
    static const struct {
        uint64_t min, max;
    } range[] = {[0] = {0, 255},
                 [BLOCKS - GPU] = {1, 4096},
                 [IO_BLOCKS - GPU] = {1, 4095},
                 [LANES - GPU] = {1, 1024},
                 [PROXIES - GPU] = {1, MM_NETS_MAX},
                 [CONNECTIONS - GPU] = {1, 32768},
                 [LARGEST - GPU] = {MM_N_MIN, MM_N_MAX},
                 [MEMORY - GPU] = {1, 1 << 20},
                 [BUFFER - GPU] = {4, 262144},
                 [BODY - GPU] = {1, 86400},
                 [IDLE - GPU] = {1, 86400},
                 [ROOM - GPU] = {1, 86400}};
    uint64_t x = 0;
    int done = serve_number(name, optarg, range[option - GPU].min, range[option - GPU].max, &x);

    switch (option) {
    case GPU: o->gpu = (uint32_t)x; break;
    case BLOCKS: o->blocks = (uint32_t)x; break;
    case IO_BLOCKS: o->io_blocks = (uint32_t)x; break;
    case LANES: o->lanes = (uint32_t)x; break;
    case PROXIES: o->proxies = (uint32_t)x; break;
    case CONNECTIONS: o->connections = (uint32_t)x; break;
    case LARGEST: o->largest = (uint32_t)x; break;
    case MEMORY: o->memory = x << 20; break;
    case BUFFER: o->buffer = x << 10; break;
    case BODY: o->body_ns = x * 1000000000u; break;
    case IDLE: o->idle_ns = x * 1000000000u; break;
    default: o->room_ns = x * 1000000000u; break;
    }
    return done;
}

int mm_serve_parse(int argc, char **argv, bool demo, struct mm_server_opts *o)
{
    int c, done = 0, index = 0;

    memset(o, 0, sizeof(*o));
    o->exec = "auto";
    optind = 1;
    opterr = 0;
    while (!done && (c = getopt_long(argc, argv, ":h", options, &index)) >= 0) {
        if (c == 'h') return printf("%s", usage), MM_EXIT_OK;
        if (c == ':') return serve_wrong("%s needs a value", argv[optind - 1]);
        if (c == '?') return serve_wrong("%s: no such option", argv[optind - 1]);
        if (c == LISTEN && demo) return serve_wrong("--listen belongs to serve");
        done = c == LISTEN || c == DESIGN || c == EXEC || c == RDMA || c == BOTH
                   ? serve_word(c, o)
                   : serve_amount(c, argv[optind - 1 - (optarg == argv[optind - 1])], o);
    }
    if (done) return done;
    if (optind < argc) return serve_wrong("%s: no such command or argument", argv[optind]);
    return -1;
}
