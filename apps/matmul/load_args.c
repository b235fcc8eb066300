/* SPDX-License-Identifier: Apache-2.0 */
/* The command that runs clients against a server: its options and what it prints. Plain C, too. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/options.h>

#include "load.h"
#include "protocol.h"

static const char usage[] =
    "usage: gpuwire %s HOST:PORT [OPTION...]\n"
    "\n"
    "Clients that ask a server for matrix products, check the answers, and measure. [ADDRESS]:PORT for "
    "IPv6.\n"
    "\n"
    "      --size N          rows and columns: 16 ... 4096, a multiple of 16 (256)\n"
    "      --type TYPE       fp32, TF32 or fp16 (fp32)\n"
    "      --connections N   at a time (26)\n"
    "      --threads N       that these share (the processors, 8 at most)\n"
    "      --depth N         requests under way on each connection: 1 ... 64 (1)\n"
    "      --seconds S       how long (3)\n"
    "      --warm S          before these, which does not count (0)\n"
    "      --requests N      on each connection, instead\n"
    "      --verify N        check every Nth answer; 0: none (1)\n"
    "      --csv             one line: type,n,connections,requests/s,GFLOP/s,p50,p99,failed,wrong,busy,cpu\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code 0: all answers came and were right; 1: not so; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum { SIZE = 256, TYPE, CONNECTIONS, THREADS, DEPTH, SECONDS, WARM, REQUESTS, VERIFY, CSV };

static const struct option options[] = {
    {"size", 1, 0, SIZE},       {"type", 1, 0, TYPE},         {"connections", 1, 0, CONNECTIONS},
    {"threads", 1, 0, THREADS}, {"depth", 1, 0, DEPTH},       {"seconds", 1, 0, SECONDS},
    {"verify", 1, 0, VERIFY},   {"requests", 1, 0, REQUESTS}, {"csv", 0, 0, CSV},
    {"warm", 1, 0, WARM},       {"help", 0, 0, 'h'},          {0, 0, 0, 0},
};

/* An option that is a number: where it belongs. */
static int load_number(const char *call, int option, struct mm_load_opts *o)
{
    switch (option) {
    case SIZE: return gw_option_u32(call, "--size", optarg, MM_N_MIN, MM_N_MAX, &o->n);
    case CONNECTIONS: return gw_option_u32(call, "--connections", optarg, 1, 65536, &o->connections);
    case THREADS: return gw_option_u32(call, "--threads", optarg, 1, 256, &o->threads);
    case DEPTH: return gw_option_u32(call, "--depth", optarg, 1, 64, &o->depth);
    case SECONDS: return gw_option_real(call, "--seconds", optarg, 1e-3, 1e6, &o->seconds);
    case WARM: return gw_option_real(call, "--warm", optarg, 0, 1e6, &o->warm);
    case REQUESTS:
        o->seconds = 0;
        return gw_option_number(call, "--requests", optarg, 1, 1000000000, &o->requests);
    default: return gw_option_u32(call, "--verify", optarg, 0, 1000000000, &o->verify);
    }
}

/* -1: go on, else the exit code. */
static int load_parse(const char *call, int argc, char **argv, struct mm_load_opts *o, bool *csv)
{
    int c, err = 0;

    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (c) {
        case 'h': printf(usage, call); return GW_EXIT_OK;
        case ':':
        case '?': return gw_option_wrong(call, argv, c);
        case CSV: *csv = true; break;
        case TYPE: err = mm_type_parse(call, optarg, &o->type); break;
        default: err = load_number(call, c, o);
        }
    }
    if (err) return err;
    if (argc - optind != 1) return gw_usage_error(call, "expected one HOST:PORT");
    if (o->seconds <= 0) o->warm = 0;
    if (o->n % MM_N_STEP) return gw_usage_error(call, "--size %u: must be a multiple of %u", o->n, MM_N_STEP);
    o->server = argv[optind];
    err = gw_option_address(call, o->server, 0, &o->addr, &o->addr_len);
    return err ? err : -1;
}

static void load_print(const struct mm_load_opts *o, const struct mm_load_result *r, bool csv)
{
    double rate = r->seconds > 0 ? (double)r->answered / r->seconds : 0;

    if (csv) {
        printf("%s,%u,%u,%.1f,%.2f,%.1f,%.1f,%u,%llu,%llu,%.2f\n", mm_type_name(o->type), o->n,
               o->connections, rate, mm_load_gflops(o, r), r->p50, r->p99, r->failed,
               (unsigned long long)r->wrong, (unsigned long long)r->busy, r->cpu / r->seconds);
        return;
    }
    printf("%u x %u, %s, %u connections, %u under way on each: %llu products in %.2f s\n", o->n, o->n,
           mm_type_name(o->type), o->connections, o->depth, (unsigned long long)r->answered, r->seconds);
    printf("  %.0f requests/s   %.2f GFLOP/s   %.2f Gbit/s to the server, %.2f back\n", rate,
           mm_load_gflops(o, r), rate * 8e-9 * (double)mm_in_bytes(o->type, o->n),
           rate * 8e-9 * (double)mm_out_bytes(o->n));
    printf("  latency: p50 %.0f us   p99 %.0f us   longest %.0f us   clients' processors: %.2f\n", r->p50,
           r->p99, r->most, r->cpu / r->seconds);
    printf("  verified: %llu, wrong: %llu, busy: %llu, failed connections: %u%s%s\n",
           (unsigned long long)r->verified, (unsigned long long)r->wrong, (unsigned long long)r->busy,
           r->failed, r->why[0] ? ": " : "", r->why);
}

int mm_load_main(const char *call, int argc, char **argv, int (*stopped)(void))
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct mm_load_opts o = {.n = 256,
                             .type = MM_FP32,
                             .connections = 26,
                             .depth = 1,
                             .seconds = 3,
                             .verify = 1,
                             .stopped = stopped};
    struct mm_load_result r;
    bool csv = false;
    int done;

    o.threads = cpus < 1 ? 1 : cpus > 8 ? 8 : (uint32_t)cpus;
    done = load_parse(call, argc, argv, &o, &csv);
    if (done >= 0) return done;
    if (!mm_load_run(&o, &r)) return gw_fail(call, "%s: %s", o.server, r.why);
    load_print(&o, &r, csv);
    if (stopped()) return GW_EXIT_INTERRUPTED;
    return r.failed || r.wrong || !r.answered;
}
