/* SPDX-License-Identifier: Apache-2.0 */
/* The command that runs clients against a server: its options and what it prints. Plain C, too. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"
#include "protocol.h"

static const char usage[] =
    "usage: %s HOST:PORT [OPTION...]\n"
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

static int load_wrong(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int load_wrong(const char *who, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: ", who);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; --help says more\n");
    va_end(args);
    return 2;
}

/* A whole number from min to max, or UINT64_MAX after a line that says what was expected. */
static uint64_t load_number(const char *who, const char *what, uint64_t min, uint64_t max)
{
    char *end;
    unsigned long long x;

    errno = 0;
    x = strtoull(optarg, &end, 10);
    if (!errno && *optarg >= '0' && *optarg <= '9' && !*end && x >= min && x <= max) return x;
    load_wrong(who, "--%s %s: expected a whole number from %llu to %llu", what, optarg,
               (unsigned long long)min, (unsigned long long)max);
    return UINT64_MAX;
}

/* Splits HOST:PORT in place. */
static bool load_address(char *text, struct mm_load_opts *o)
{
    char *colon = strrchr(text, ':'), *close = strchr(text, ']');

    if (!colon || colon == text || !colon[1]) return false;
    *colon = 0;
    o->host = text;
    o->port = colon + 1;
    if (*text != '[') return true;
    if (!close || close + 1 != colon) return false;
    *close = 0;
    o->host = text + 1;
    return true;
}

/* One option that is a number; where it belongs. */
static bool load_option(const char *who, int option, struct mm_load_opts *o)
{
    static const struct {
        uint64_t min, max;
    } range[] = {[0] = {MM_N_MIN, MM_N_MAX},          [CONNECTIONS - SIZE] = {1, 65536},
                 [THREADS - SIZE] = {1, 256},         [DEPTH - SIZE] = {1, 64},
                 [REQUESTS - SIZE] = {1, 1000000000}, [VERIFY - SIZE] = {0, 1000000000}};
    uint64_t x;
    uint32_t i = 0;

    while (options[i].val != option) i++;
    x = load_number(who, options[i].name, range[option - SIZE].min, range[option - SIZE].max);
    if (x == UINT64_MAX) return false;
    switch (option) {
    case SIZE: o->n = (uint32_t)x; break;
    case CONNECTIONS: o->connections = (uint32_t)x; break;
    case THREADS: o->threads = (uint32_t)x; break;
    case DEPTH: o->depth = (uint32_t)x; break;
    case REQUESTS:
        o->requests = x;
        o->seconds = 0;
        break;
    default: o->verify = (uint32_t)x; break;
    }
    return true;
}

/* -1: go on, else the exit code. */
static int load_parse(const char *who, int argc, char **argv, struct mm_load_opts *o, bool *csv)
{
    double seconds;
    char *end;
    int c;

    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (c) {
        case 'h': printf(usage, who); return 0;
        case ':': return load_wrong(who, "%s needs a value", argv[optind - 1]);
        case '?': return load_wrong(who, "%s: no such option", argv[optind - 1]);
        case CSV: *csv = true; break;
        case TYPE:
            o->type = mm_type_parse(optarg);
            if (!o->type) return load_wrong(who, "--type %s: expected fp32, TF32 or fp16", optarg);
            break;
        case SECONDS:
        case WARM:
            seconds = strtod(optarg, &end);
            if (*end || end == optarg || !(seconds >= (c == WARM ? 0 : 1e-3) && seconds <= 1e6))
                return load_wrong(who, "%s: expected a number of seconds", optarg);
            *(c == WARM ? &o->warm : &o->seconds) = seconds;
            break;
        default:
            if (!load_option(who, c, o)) return 2;
        }
    }
    if (argc - optind != 1 || !load_address(argv[optind], o))
        return load_wrong(who, "expected one HOST:PORT");
    if (o->seconds <= 0) o->warm = 0;
    if (o->n % MM_N_STEP) return load_wrong(who, "--size %u: expected a multiple of %u", o->n, MM_N_STEP);
    return -1;
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

int mm_load_main(const char *who, int argc, char **argv, volatile int *stop)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct mm_load_opts o = {
        .n = 256, .type = MM_FP32, .connections = 26, .depth = 1, .seconds = 3, .verify = 1, .stop = stop};
    struct mm_load_result r;
    bool csv = false;
    int done;

    o.threads = cpus < 1 ? 1 : cpus > 8 ? 8 : (uint32_t)cpus;
    done = load_parse(who, argc, argv, &o, &csv);
    if (done >= 0) return done;
    if (!mm_load_run(&o, &r)) {
        fprintf(stderr, "%s: %s: %s\n", who, o.host, r.why);
        return 1;
    }
    load_print(&o, &r, csv);
    if (stop && *stop) return 130;
    return r.failed || r.wrong || !r.answered;
}
