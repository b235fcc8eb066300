/* SPDX-License-Identifier: Apache-2.0 */
/* The options of gpuwire perf; where perftest has one for the same thing, its letter. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

const char *const perf_test_name[PERF_TESTS] = {"post", "bw", "lat", "msgrate"};
const char *const perf_op_name[PERF_OPS] = {"put",      "put_imm",   "get",      "send",       "signal",
                                            "datagram", "fetch_add", "cmp_swap", "masked_add", "masked_swap"};
const char *const perf_by_name[3] = {"thread", "warp", "block"};
static const char *const buffers_name[] = {"auto", "host", "mapped", "gpu"};

static const char usage[] =
    "usage: gpuwire perf bw|lat|msgrate [OPTION...]         wait for a client\n"
    "       gpuwire perf bw|lat|msgrate [OPTION...] HOST    measure with who waits at HOST\n"
    "       gpuwire perf bw|lat|msgrate --loopback [OPTION...]   both in this process\n"
    "       gpuwire perf post [OPTION...]                   posting alone: CPU threads stand for the NIC\n"
    "       gpuwire perf sock lat|bw|connects …             sockets: see `gpuwire perf sock --help`\n"
    "\n"
    "  --exec auto|cpu|gpu   where the posting kernels run (default: auto, the GPU when there is one); --gpu "
    "N: which\n"
    "  -o, --op OP           put, put_imm, get, send, fetch_add, cmp_swap, masked_add, masked_swap; lat: "
    "signal, "
    "datagram\n"
    "                        too (default: put)\n"
    "  -s, --size BYTES      of an operation, as in 65536, 64k, 1m (default: bw 64k, others 8)\n"
    "  -a, --all             all powers of two from 2 to 8m, or to -s\n"
    "  -n, --iters N         operations of each queue pair (default: bw 5000, lat 1000, post and msgrate "
    "100000)\n"
    "  -D, --duration S      for S seconds instead\n"
    "  -q, --qp N            queue pairs (default: 1)\n"
    "  -t, --tx-depth N      requests that a queue pair holds (default: 128)\n"
    "  -l, --post_list N     posts for each doorbell (default: 1)\n"
    "  -Q, --cq-mod N        a signalled request every N posts, beside the library's own choice\n"
    "      --blocks N        blocks of the posting kernel (default: as many as queue pairs)\n"
    "      --threads N       threads of a block (default: 1; 32 with --by warp or block)\n"
    "      --warps N         the same, in warps of 32\n"
    "      --by thread|warp|block   who posts with one reservation and one doorbell (default: thread)\n"
    "      --shared          queue pairs as for several posters even where each has one\n"
    "      --rate N          operations a second at most, of all together\n"
    "  -b, --bidirectional   both sides post, puts or gets, and both are counted; the other side with one "
    "thread for each\n"
    "                        queue pair\n"
    "  -I, --inline_size N   payloads of up to N bytes go into the request (put, put_imm, send; single "
    "threads)\n"
    "  -e, --events          lat: who waits for send and put_imm sleeps until the NIC says so (CPU threads)\n"
    "      --buffers auto|host|mapped|gpu   where the payload lies; each side for itself\n"
    "      --queues host|gpu where the queues lie; gpu where the device offers that\n"
    "      --verify          look at every byte, and count those that are wrong; lat: in the kernel, before "
    "it "
    "answers\n"
    "  -d, --ib-dev NAME     an RDMA device, or softnic (default: GPUWIRE_DEVICE, else what gpuwire "
    "chooses)\n"
    "  -p, --port N          of rdma_cm (default: 18515)\n"
    "  -m, --mtu BYTES       path MTU; -u, --qp-timeout N: 4.096 us * 2^N; -x, --gid-index N, -i, --ib-port "
    "N: refuse to "
    "use another\n"
    "      --csv, --json     instead of a table\n"
    "  -F, -R, -N, -z, --report_gbits   taken and without effect, for perftest's sake; -c RC too\n"
    "  -h, --help            this text\n"
    "\n"
    "All but --exec, --gpu, --buffers, -d and -p the waiting side hears from the client. Exit code 0: "
    "measured; 1: failed,\n"
    "or --verify found wrong bytes; 2: wrong usage; 130: ended by Ctrl-C, with what was measured so far. "
    "docs/perf.md.\n";

enum {
    EXEC = 256,
    GPU,
    BLOCKS,
    THREADS,
    WARPS,
    BY,
    SHARED,
    RATE,
    BUFFERS,
    QUEUES,
    VERIFY,
    CSV,
    JSON,
    LOOPBACK
};

static const struct option options[] = {
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"op", 1, NULL, 'o'},
    {"size", 1, NULL, 's'},
    {"all", 0, NULL, 'a'},
    {"iters", 1, NULL, 'n'},
    {"duration", 1, NULL, 'D'},
    {"qp", 1, NULL, 'q'},
    {"tx-depth", 1, NULL, 't'},
    {"post_list", 1, NULL, 'l'},
    {"cq-mod", 1, NULL, 'Q'},
    {"blocks", 1, NULL, BLOCKS},
    {"threads", 1, NULL, THREADS},
    {"warps", 1, NULL, WARPS},
    {"by", 1, NULL, BY},
    {"shared", 0, NULL, SHARED},
    {"rate", 1, NULL, RATE},
    {"buffers", 1, NULL, BUFFERS},
    {"queues", 1, NULL, QUEUES},
    {"verify", 0, NULL, VERIFY},
    {"ib-dev", 1, NULL, 'd'},
    {"port", 1, NULL, 'p'},
    {"mtu", 1, NULL, 'm'},
    {"qp-timeout", 1, NULL, 'u'},
    {"gid-index", 1, NULL, 'x'},
    {"csv", 0, NULL, CSV},
    {"json", 0, NULL, JSON},
    {"loopback", 0, NULL, LOOPBACK},
    {"CPU-freq", 0, NULL, 'F'},
    {"rdma_cm", 0, NULL, 'R'},
    {"report_gbits", 0, NULL, 'F'},
    {"noPeak", 0, NULL, 'N'},
    {"com_rdma_cm", 0, NULL, 'z'},
    {"ib-port", 1, NULL, 'i'},
    {"connection", 1, NULL, 'c'},
    {"help", 0, NULL, 'h'},
    {"bidirectional", 0, NULL, 'b'},
    {"inline_size", 1, NULL, 'I'},
    {"events", 0, NULL, 'e'},
    {0},
};

const char *perf_command(const struct perf_opts *o)
{
    static const char *const command[PERF_TESTS] = {"perf post", "perf bw", "perf lat", "perf msgrate"};

    return o->sock ? "perf sock" : command[o->test];
}

/* One of a list of words: its place. */
int perf_option_word(const char *command, const char *option, const char *said, const char *const *list,
                     int n, int *out)
{
    char all[120] = "";

    for (int i = 0; i < n; i++) {
        if (!strcmp(said, list[i])) {
            *out = i;
            return 0;
        }
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", list[i]);
    }
    return gw_usage_error(command, "%s%s%s: must be one of %s", option, *option ? " " : "", said, all);
}

int perf_option_size(const char *command, const char *said, uint64_t *out)
{
    static const char units[] = "kmg";
    char *end;
    const char *unit;

    errno = 0;
    unsigned long long v = strtoull(said, &end, 10);
    unit = *end && !end[1] ? strchr(units, *end | 0x20) : NULL;
    if (unit && v <= PERF_MAX_SIZE) v <<= 10 * (unit - units + 1), end++;
    if (said[0] < '0' || said[0] > '9' || errno || *end || !v || v > PERF_MAX_SIZE)
        return gw_usage_error(command, "-s %s: must be a size from 1 to 1g, as in 65536 or 64k", said);
    *out = v;
    return 0;
}

static int read_word(struct perf_opts *o, int c, const char *said)
{
    static const char *const execs[] = {"auto", "cpu", "gpu"}, *const queues[] = {"host", "gpu"},
                             *const types[] = {"RC"}; /* kernels' queue pairs are reliable connections */
    const char *cmd = perf_command(o);
    int v = 0, err;

    switch (c) {
    case EXEC: err = perf_option_word(cmd, "--exec", said, execs, 3, &v), o->exec = execs[v]; return err;
    case 'o':
        err = perf_option_word(cmd, "--op", said, perf_op_name, PERF_OPS, &v), o->op = (enum perf_op)v;
        return err;
    case BY:
        err = perf_option_word(cmd, "--by", said, perf_by_name, 3, &v), o->by = (enum perf_by)v;
        return err;
    case BUFFERS:
        err = perf_option_word(cmd, "--buffers", said, buffers_name, 4, &v),
        o->buffers = (enum perf_buffers)v;
        return err;
    case QUEUES:
        err = perf_option_word(cmd, "--queues", said, queues, 2, &v),
        o->queues = v ? GW_QUEUES_GPU : GW_QUEUES_HOST;
        return err;
    default: return perf_option_word(cmd, "-c", said, types, 1, &v);
    }
}

static int perf_args_read_number(struct perf_opts *o, int c, const char *said)
{
    const char *cmd = perf_command(o);
    int err;

    switch (c) {
    case 'n': return gw_option_number(cmd, "-n", said, 1, UINT64_C(1) << 48, &o->iters);
    case 'D': return gw_option_number(cmd, "-D", said, 1, 1000000, &o->seconds);
    case 'q': return gw_option_number(cmd, "-q", said, 1, 1024, &o->qps);
    case 't': return gw_option_number(cmd, "-t", said, 1, 32768, &o->depth);
    case 'l': return gw_option_number(cmd, "-l", said, 1, 32768, &o->batch);
    case 'Q': return gw_option_number(cmd, "-Q", said, 1, 32768, &o->signal);
    case 'p': return gw_option_number(cmd, "-p", said, 1, 65535, &o->port);
    case 'I': return gw_option_number(cmd, "-I", said, 0, 1024, &o->inl);
    case 'u': return gw_option_number(cmd, "-u", said, 1, 31, &o->timeout);
    case 'm':
        err = gw_option_number(cmd, "-m", said, 256, 4096, &o->mtu);
        return !err && o->mtu & (o->mtu - 1)
                   ? gw_usage_error(cmd, "-m %s: must be 256, 512, 1024, 2048 or 4096", said)
                   : err;
    case 'x': err = gw_option_number(cmd, "-x", said, 0, 65535, &o->gid), o->gid++; return err;
    case 'i': return gw_option_number(cmd, "-i", said, 1, 255, &o->ib_port);
    case GPU: return gw_option_number(cmd, "--gpu", said, 0, 255, &o->gpu);
    case BLOCKS: return gw_option_number(cmd, "--blocks", said, 1, 1024, &o->blocks);
    case THREADS: return gw_option_number(cmd, "--threads", said, 1, 1024, &o->threads);
    case WARPS:
        err = gw_option_number(cmd, "--warps", said, 1, 32, &o->threads), o->threads *= 32;
        return err;
    default: return gw_option_number(cmd, "--rate", said, 1, UINT64_C(1) << 40, &o->rate);
    }
}

static int perf_args_take(struct perf_opts *o, int c, char **argv)
{
    switch (c) {
    case 's': return perf_option_size(perf_command(o), optarg, &o->size);
    case 'a': o->all = true; return 0;
    case 'b': o->both = true; return 0;
    case 'e': o->events = true; return 0;
    case SHARED: o->shared = true; return 0;
    case VERIFY: o->verify = true; return 0;
    case CSV: o->output = PERF_CSV; return 0;
    case JSON: o->output = PERF_JSON; return 0;
    case LOOPBACK: o->loopback = true; return 0;
    case 'd': o->device = optarg; return 0;
    case 'F':
    case 'N':
    case 'z':
    case 'R': return 0;
    case EXEC:
    case 'o':
    case BY:
    case BUFFERS:
    case QUEUES:
    case 'c': return read_word(o, c, optarg);
    case '?':
    case ':': return gw_option_wrong(perf_command(o), argv, c);
    default: return perf_args_read_number(o, c, optarg);
    }
}

static void perf_args_set_defaults(struct perf_opts *o)
{
    static const uint64_t iters[PERF_TESTS] = {100000, 5000, 1000, 100000};

    if (!o->size) o->size = o->all ? 8u << 20 : o->test == PERF_TEST_BW ? 65536 : 8;
    if (o->op >= PERF_FETCH_ADD) o->size = 8, o->all = false;
    if (!o->iters && !o->seconds) o->iters = iters[o->test];
    if (!o->blocks) o->blocks = o->qps;
    if (!o->threads) o->threads = o->by == PERF_BY_THREAD ? 1 : 32;
}

/* Options of perftest's that go with some measurements alone. */
static int check_habits(const struct perf_opts *o)
{
    const char *cmd = perf_command(o);
    bool posts = o->op == PERF_PUT || o->op == PERF_PUT_IMM || o->op == PERF_SEND;

    if (o->both && (o->test == PERF_TEST_LAT || o->test == PERF_TEST_POST ||
                    (o->op != PERF_PUT && o->op != PERF_GET) || o->verify))
        return gw_usage_error(cmd, "-b: it goes with bw and msgrate, with put and get, and without --verify");
    if (o->events && (o->test != PERF_TEST_LAT || (o->op != PERF_SEND && o->op != PERF_PUT_IMM)))
        return gw_usage_error(
            cmd,
            "-e: it goes with lat, and with send and put_imm: the others wait for nothing that a NIC tells");
    if (o->inl && (o->test == PERF_TEST_POST || !posts || o->by))
        return gw_usage_error(
            cmd, "-I: it goes with bw, msgrate and lat, with put, put_imm and send, by single threads");
    return 0;
}

/* What does not go together. */
static int perf_args_check(struct perf_opts *o)
{
    const char *cmd = perf_command(o);
    uint64_t posters = o->blocks * (o->by == PERF_BY_THREAD ? o->threads
                                    : o->by == PERF_BY_WARP ? (o->threads + 31) / 32
                                                            : 1);

    if (check_habits(o)) return GW_EXIT_USAGE;
    if (o->batch > o->depth)
        return gw_usage_error(cmd, "-l %llu: more posts for a doorbell than the queue holds (-t %llu)",
                              (unsigned long long)o->batch, (unsigned long long)o->depth);
    if (o->seconds && o->iters) return gw_usage_error(cmd, "-n and -D: one of them");
    if (o->test == PERF_TEST_POST && (o->host || o->loopback))
        return gw_usage_error(cmd, "it measures posting alone and has no peer");
    if (o->host && o->loopback) return gw_usage_error(cmd, "--loopback has no HOST");
    if (o->test == PERF_TEST_LAT &&
        (o->qps > 1 || o->blocks > 1 || o->threads > 1 || o->by || o->rate || o->batch > 1))
        return gw_usage_error(cmd, "one thread and one queue pair measure it; -q, -l, --blocks, --threads, "
                                   "--by and --rate go with bw and msgrate");
    if (o->test == PERF_TEST_LAT && o->verify &&
        (o->op < PERF_PUT_IMM || o->op == PERF_GET || o->op > PERF_DATAGRAM))
        return gw_usage_error(
            cmd, "--verify: of lat it goes with put_imm, send, signal and datagram, which say when "
                 "all has come");
    if (o->test != PERF_TEST_LAT && (o->op == PERF_SIGNAL || o->op == PERF_DATAGRAM))
        return gw_usage_error(cmd, "-o %s: it goes with lat", perf_op_name[o->op]);
    if (o->test == PERF_TEST_POST && o->op >= PERF_MASKED_ADD)
        return gw_usage_error(cmd, "-o %s: the stand-in for the NIC takes none", perf_op_name[o->op]);
    if (posters % o->qps)
        return gw_usage_error(cmd, "%llu posters cannot share %llu queue pairs evenly",
                              (unsigned long long)posters, (unsigned long long)o->qps);
    if (o->op == PERF_SEND && o->by)
        return gw_usage_error(cmd, "-o send: sends are posted by single threads; leave --by out");
    if (o->test == PERF_TEST_POST && o->queues == GW_QUEUES_GPU)
        return gw_usage_error(cmd, "--queues gpu: what stands for the NIC reads queues in host memory");
    if (o->test == PERF_TEST_POST && o->op == PERF_SEND)
        return gw_usage_error(cmd, "-o send: the stand-in for the NIC takes no sends");
    if (o->by && (o->by == PERF_BY_WARP ? 32 : o->threads) > o->depth)
        return gw_usage_error(cmd, "-t %llu: the queue must hold what is posted at once",
                              (unsigned long long)o->depth);
    return -1;
}

int perf_parse(int argc, char **argv, struct perf_opts *o)
{
    int c, err = 0, test = 0;

    *o = (struct perf_opts){.exec = "auto", .qps = 1, .depth = 128, .batch = 1, .port = 18515};
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return GW_EXIT_OK;
    }
    if (argc < 2) return gw_usage_error("perf", "what is to be measured? post, bw, lat, msgrate or sock");
    while (test < PERF_TESTS && strcmp(argv[1], perf_test_name[test]) != 0) test++;
    if (test == PERF_TESTS)
        return gw_usage_error("perf", "%s: must be one of post, bw, lat, msgrate, sock", argv[1]);
    o->test = (enum perf_test)test;
    optind = 1;
    opterr = 0;
    argc--, argv++;
    while (!err &&
           (c = getopt_long(argc, argv, ":s:an:D:q:t:l:Q:o:d:p:m:u:x:i:beI:FNRzc:h", options, NULL)) >= 0) {
        if (c == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        err = perf_args_take(o, c, argv);
    }
    if (err) return err;
    if (optind < argc) o->host = argv[optind++];
    if (optind < argc) return gw_usage_error(perf_command(o), "%s: not understood", argv[optind]);
    perf_args_set_defaults(o);
    return perf_args_check(o);
}
