/* SPDX-License-Identifier: Apache-2.0 */
/* The options of gpuwire perf sock: those of the other forms where they mean the same. */
#include <getopt.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"
#include "src/cli/perf/sock_kernels.h"

static const char usage[] =
    "usage: gpuwire perf sock lat|bw|connects [OPTION...]         wait for a client\n"
    "       gpuwire perf sock lat|bw|connects [OPTION...] HOST    measure with who waits at HOST\n"
    "       gpuwire perf sock lat|bw|connects --loopback [OPTION...]   both in this process\n"
    "\n"
    "What kernels get out of sockets: half of a round trip, bytes a second, connections a second (each with "
    "a question\n"
    "and an answer).\n"
    "\n"
    "      --tcp, --rdma     what carries the streams, on both sides (default: --tcp)\n"
    "      --exec auto|cpu|gpu   where the kernels run (default: auto, the GPU when there is one); --gpu N: "
    "which\n"
    "  -s, --size BYTES      of a message, as in 65536, 64k, 1m (default: bw 64k, lat 8)\n"
    "  -a, --all             all powers of two from 2 to 1m, or to -s\n"
    "  -n, --iters N         messages of each connection; connects: connections of each block (default: bw "
    "5000, lat 1000,\n"
    "                        connects 500)\n"
    "  -q, --connections N   at a time, a block of the kernel each (default: 1); the waiting side: at most "
    "(default: 16)\n"
    "      --threads N       of a block, who make each call together (default: 1; 256 on a GPU)\n"
    "  -B, --buffer BYTES    of each socket's two buffers (default: 128k)\n"
    "      --busy            the sockets' helper never sleeps\n"
    "      --verify          look at every byte, and count those that are wrong\n"
    "  -d, --ib-dev NAME     --rdma: a device, or softnic (default: GPUWIRE_DEVICE, else what gpuwire "
    "chooses)\n"
    "  -p, --port N          (default: 18515)\n"
    "      --csv, --json     instead of a table\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code 0: measured; 1: failed, or --verify found wrong bytes; 2: wrong usage; 130: ended by Ctrl-C. "
    "docs/perf.md.\n";

enum { EXEC = 256, GPU, TCP, RDMA, THREADS, BUSY, VERIFY, CSV, JSON, LOOPBACK };

static const struct option options[] = {
    {"tcp", 0, NULL, TCP},
    {"rdma", 0, NULL, RDMA},
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"size", 1, NULL, 's'},
    {"all", 0, NULL, 'a'},
    {"iters", 1, NULL, 'n'},
    {"connections", 1, NULL, 'q'},
    {"threads", 1, NULL, THREADS},
    {"buffer", 1, NULL, 'B'},
    {"busy", 0, NULL, BUSY},
    {"verify", 0, NULL, VERIFY},
    {"ib-dev", 1, NULL, 'd'},
    {"port", 1, NULL, 'p'},
    {"csv", 0, NULL, CSV},
    {"json", 0, NULL, JSON},
    {"loopback", 0, NULL, LOOPBACK},
    {"help", 0, NULL, 'h'},
    {0},
};

static const char cmd[] = "perf sock";

static int sock_args_take(struct perf_opts *o, int c, char **argv)
{
    static const char *const execs[] = {"auto", "cpu", "gpu"};
    int v = 0, err;

    switch (c) {
    case TCP: o->sock = "tcp"; return 0;
    case RDMA: o->sock = "rdma"; return 0;
    case EXEC: err = perf_option_word(cmd, "--exec", optarg, execs, 3, &v), o->exec = execs[v]; return err;
    case GPU: return gw_option_number(cmd, "--gpu", optarg, 0, 255, &o->gpu);
    case 's': return perf_option_size(cmd, optarg, &o->size);
    case 'a': o->all = true; return 0;
    case 'n': return gw_option_number(cmd, "-n", optarg, 1, UINT64_C(1) << 31, &o->iters);
    case 'q': return gw_option_number(cmd, "-q", optarg, 1, 4096, &o->qps);
    case THREADS: return gw_option_number(cmd, "--threads", optarg, 1, 1024, &o->threads);
    case 'B': return perf_option_size(cmd, optarg, &o->buffer);
    case BUSY: o->busy = true; return 0;
    case VERIFY: o->verify = true; return 0;
    case 'd': o->device = optarg; return 0;
    case 'p': return gw_option_number(cmd, "-p", optarg, 1, 65535, &o->port);
    case CSV: o->output = PERF_CSV; return 0;
    case JSON: o->output = PERF_JSON; return 0;
    case LOOPBACK: o->loopback = true; return 0;
    default: return gw_option_wrong(cmd, argv, c);
    }
}

static int sock_args_finish(struct perf_opts *o)
{
    if (o->host && o->loopback) return gw_usage_error(cmd, "--loopback has no HOST");
    if (o->connects && (o->all || o->size || o->verify))
        return gw_usage_error(cmd, "connects: -s, -a and --verify go with lat and bw");
    if (!o->iters) o->iters = o->connects ? 500 : o->test == PERF_TEST_LAT ? 1000 : 5000;
    if (!o->size) o->size = o->connects ? 1 : o->all ? 1 << 20 : o->test == PERF_TEST_LAT ? 8 : 65536;
    if (o->test == PERF_TEST_LAT && o->size > SOCK_SPAN)
        return gw_usage_error(cmd, "-s %llu: a message that comes back has 1m at most",
                              (unsigned long long)o->size);
    if (o->loopback && o->port == 18515) o->port = 0; /* any */
    if (!o->qps) o->qps = o->host || o->loopback ? 1 : 16;
    return -1;
}

int perf_sock_parse(int argc, char **argv, struct perf_opts *o)
{
    static const char *const tests[] = {"lat", "bw", "connects"};
    int c, err = 0, test = 0;

    *o = (struct perf_opts){.exec = "auto", .port = 18515, .sock = "tcp"};
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return GW_EXIT_OK;
    }
    if (argc < 2) return gw_usage_error(cmd, "what is to be measured? lat, bw or connects");
    if (perf_option_word(cmd, "", argv[1], tests, 3, &test)) return GW_EXIT_USAGE;
    o->test = test ? PERF_TEST_BW : PERF_TEST_LAT;
    o->connects = test == 2;
    optind = 1;
    opterr = 0;
    argc--, argv++;
    while (!err && (c = getopt_long(argc, argv, ":s:an:q:B:d:p:h", options, NULL)) >= 0) {
        if (c == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        err = sock_args_take(o, c, argv);
    }
    if (err) return err;
    if (optind < argc) o->host = argv[optind++];
    if (optind < argc) return gw_usage_error(cmd, "%s: not understood", argv[optind]);
    return sock_args_finish(o);
}
