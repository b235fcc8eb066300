/* SPDX-License-Identifier: Apache-2.0 */
/* The options of gpuwire cat; where netcat has one for the same thing, its letter. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/cat/cat.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire cat [OPTION...] HOST PORT        connect\n"
    "       gpuwire cat [OPTION...] -l [HOST] PORT   wait for one connection\n"
    "       gpuwire cat [OPTION...] [-l] -U PATH     the same with a UNIX socket\n"
    "\n"
    "netcat whose end is a kernel: what comes on standard input is sent, what arrives goes to standard "
    "output. At the end\n"
    "of the input the peer is told so, and what it still says is received.\n"
    "\n"
    "  -l, --listen          wait for a connection instead of making one\n"
    "  -U, --unix PATH       a UNIX socket\n"
    "      --tcp             over TCP (the default)\n"
    "      --rdma            over RDMA, to programs that use rsockets, and to gpuwire cat --rdma\n"
    "      --exec auto|cpu|gpu   where the kernel runs (default: auto, the GPU when there is one); --gpu N: "
    "which\n"
    "  -d, --ib-dev NAME     RDMA: a device, or softnic (default: GPUWIRE_DEVICE, else what gpuwire "
    "chooses)\n"
    "  -w, --wait SECONDS    give up connecting, or waiting for a connection, after that (default: "
    "never)\n"
    "  -v, --verbose         say on standard error who is connected\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code 0: both sides have said all; 1: failed; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum { EXEC = 256, GPU, TCP, RDMA };

static const struct option options[] = {
    {"listen", 0, NULL, 'l'},
    {"unix", 1, NULL, 'U'},
    {"tcp", 0, NULL, TCP},
    {"rdma", 0, NULL, RDMA},
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"ib-dev", 1, NULL, 'd'},
    {"wait", 1, NULL, 'w'},
    {"verbose", 0, NULL, 'v'},
    {"help", 0, NULL, 'h'},
    {0},
};

static int cat_args_take(struct cat_opts *o, int c, char **argv)
{
    switch (c) {
    case 'l': o->listen = true; return 0;
    case 'U': o->path = optarg; return 0;
    case 'd': o->device = optarg; return 0;
    case 'v': o->verbose = true; return 0;
    case TCP: o->rdma = false; return 0;
    case RDMA: o->rdma = true; return 0;
    case EXEC:
        o->exec = optarg;
        if (!strcmp(optarg, "auto") || !strcmp(optarg, "cpu") || !strcmp(optarg, "gpu")) return 0;
        return gw_usage_error("cat", "--exec %s: must be one of auto, cpu, gpu", optarg);
    case GPU: return gw_option_number("cat", "--gpu", optarg, 0, 1023, &o->gpu);
    case 'w': return gw_option_number("cat", "-w", optarg, 1, 1000000, &o->wait_s);
    default: return gw_option_wrong("cat", argv, c);
    }
}

/* The words after the options. */
static int take_rest(struct cat_opts *o, int n, char **rest)
{
    uint64_t port;

    if (o->path && o->rdma) return gw_usage_error("cat", "-U and --rdma: a UNIX socket has no RDMA");
    if (o->path)
        return n ? gw_usage_error("cat", "%s: not understood; -U has neither host nor port", rest[0]) : -1;
    if (!n) return gw_usage_error("cat", o->listen ? "a port is missing" : "a host and a port are missing");
    if (n == 1 && !o->listen) return gw_usage_error("cat", "%s: a port must follow the host", rest[0]);
    if (n > 2) return gw_usage_error("cat", "%s: not understood", rest[2]);
    o->host = n == 2 ? rest[0] : NULL;
    o->port = rest[n - 1];
    return gw_option_number("cat", "PORT", o->port, o->listen ? 0 : 1, 65535, &port) ? GW_EXIT_USAGE : -1;
}

int cat_parse(int argc, char **argv, struct cat_opts *o)
{
    int c, err = 0;

    *o = (struct cat_opts){.exec = "auto"};
    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":lU:d:w:vh", options, NULL)) >= 0) {
        if (c == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        err = cat_args_take(o, c, argv);
    }
    return err ? err : take_rest(o, argc - optind, argv + optind);
}
