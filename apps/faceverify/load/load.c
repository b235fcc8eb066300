/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire app faceverify load: makes the requests, starts the threads, and tells what they saw. */
#include "apps/faceverify/load/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/options.h>
#include <gpuwire/signals.h>

#include "apps/faceverify/commands.h"
#include "apps/faceverify/enrol/read.h"
#include "apps/faceverify/now.h"

static const char load_call[] = "app faceverify load";

struct load_options {
    const char *server, *faces;
    uint64_t connections, pipeline, threads, persons, views, seed, unknown;
    double rate, seconds, warm, patience;
    bool json, check, tolerate, rdma;
};

static void load_usage(FILE *f)
{
    fprintf(
        f,
        "usage: gpuwire app faceverify load HOST:PORT [OPTION...]\n\n"
        "Sends requests to a faceverify server, checks every verdict, and prints how many it answers and\n"
        "how fast. The faces are drawn; enrol the same ones first: `gpuwire app faceverify enrol --drawn`.\n"
        "With --faces they are a folder's: enrol that.\n\n"
        "  --connections N       connections (16)\n"
        "  --pipeline M          requests under way on each, at most (8)\n"
        "  --rate R              requests/s, at times that do not depend on the server; max: as many as it\n"
        "                        answers (max)\n"
        "  --seconds S           how long it counts (5)\n"
        "  --warm S              how long it runs before it counts (0.5)\n"
        "  --threads N           threads (one for each processor, but no more than connections)\n"
        "  --faces FOLDER        send the pictures FOLDER/NAME/*.png and *.jpg\n"
        "  --persons N           people in the crowd (32)\n"
        "  --views N             pictures of each; the first three are the enrolled ones (8)\n"
        "  --seed N              another crowd (1)\n"
        "  --unknown N           of 1000 requests, those with a name that is not enrolled (0)\n"
        "  --no-check            take the server's word for the distance\n"
        "  --tolerate            connections that end and requests without a reply are no failure\n"
        "  --patience S          to connect, and for the last replies (10)\n"
        "  --rdma                over RDMA, by librdmacm's rsockets\n"
        "  --json                print one line of JSON; times in µs\n"
        "  -h, --help            this text\n");
}

enum {
    O_CONNECTIONS = 256,
    O_PIPELINE,
    O_RATE,
    O_SECONDS,
    O_WARM,
    O_THREADS,
    O_PERSONS,
    O_VIEWS,
    O_SEED,
    O_UNKNOWN,
    O_NO_CHECK,
    O_TOLERATE,
    O_PATIENCE,
    O_FACES,
    O_RDMA,
    O_JSON
};

static const struct option long_options[] = {
    {"connections", 1, NULL, O_CONNECTIONS},
    {"pipeline", 1, NULL, O_PIPELINE},
    {"rate", 1, NULL, O_RATE},
    {"seconds", 1, NULL, O_SECONDS},
    {"warm", 1, NULL, O_WARM},
    {"threads", 1, NULL, O_THREADS},
    {"persons", 1, NULL, O_PERSONS},
    {"views", 1, NULL, O_VIEWS},
    {"seed", 1, NULL, O_SEED},
    {"unknown", 1, NULL, O_UNKNOWN},
    {"no-check", 0, NULL, O_NO_CHECK},
    {"tolerate", 0, NULL, O_TOLERATE},
    {"patience", 1, NULL, O_PATIENCE},
    {"rdma", 0, NULL, O_RDMA},
    {"json", 0, NULL, O_JSON},
    {"faces", 1, NULL, O_FACES},
    {"help", 0, NULL, 'h'},
    {0},
};

static int load_option(int option, char **argv, struct load_options *o)
{
    switch (option) {
    case O_CONNECTIONS:
        return gw_option_number(load_call, "--connections", optarg, 1, 65536, &o->connections);
    case O_PIPELINE: return gw_option_number(load_call, "--pipeline", optarg, 1, 4096, &o->pipeline);
    case O_RATE:
        o->rate = 0;
        return strcmp(optarg, "max") ? gw_option_real(load_call, "--rate", optarg, .001, 1e9, &o->rate) : 0;
    case O_SECONDS: return gw_option_real(load_call, "--seconds", optarg, .01, 1e6, &o->seconds);
    case O_WARM: return gw_option_real(load_call, "--warm", optarg, 0, 1e6, &o->warm);
    case O_THREADS: return gw_option_number(load_call, "--threads", optarg, 1, 1024, &o->threads);
    case O_PERSONS: return gw_option_number(load_call, "--persons", optarg, 2, FACE_MAX_VIEWS, &o->persons);
    case O_VIEWS: return gw_option_number(load_call, "--views", optarg, 1, 1000, &o->views);
    case O_SEED: return gw_option_number(load_call, "--seed", optarg, 0, UINT64_MAX, &o->seed);
    case O_UNKNOWN: return gw_option_number(load_call, "--unknown", optarg, 0, 1000, &o->unknown);
    case O_NO_CHECK: o->check = false; return 0;
    case O_TOLERATE: o->tolerate = true; return 0;
    case O_PATIENCE: return gw_option_real(load_call, "--patience", optarg, .1, 3600, &o->patience);
    case O_RDMA: o->rdma = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_FACES: o->faces = optarg; return 0;
    default: return gw_option_wrong(load_call, argv, option);
    }
}

/* -1: go on; else the exit code. */
static int load_arguments(int argc, char **argv, struct load_options *o, struct face_load *load)
{
    int option;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h') {
            load_usage(stdout);
            return GW_EXIT_OK;
        }
        int err = load_option(option, argv, o);
        if (err) return err;
    }
    if (argc - optind != 1)
        return gw_usage_error(load_call, argc == optind ? "which server? HOST:PORT" : "one server only");
    o->server = argv[optind];
    int err = gw_option_address(load_call, o->server, FACE_PORT, &load->address, &load->address_len);
    return err ? err : -1;
}

struct load_thread {
    struct face_load *load;
    struct face_tally *tally;
    uint32_t index;
    int err;
    char why[256];
    pthread_t thread;
};

static void *load_thread_run(void *arg)
{
    struct load_thread *t = arg;
    t->err = face_load_work(t->load, t->index, t->tally);
    if (t->err) snprintf(t->why, sizeof(t->why), "%s", gw_last_error());
    return NULL;
}

/* A server of many connections needs many descriptors. */
static void load_raise_limit(uint64_t connections)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= connections + 64) return;
    r.rlim_cur = r.rlim_max < connections + 64 ? r.rlim_max : connections + 64;
    setrlimit(RLIMIT_NOFILE, &r);
}

/* Between the barriers: when to begin. */
static void load_set_times(struct face_load *load, const struct load_options *o)
{
    load->begin_ns = face_now() + 1000000;
    load->count_ns = load->begin_ns + (uint64_t)(o->warm * 1e9);
    load->end_ns = load->count_ns + (uint64_t)(o->seconds * 1e9);
}

static int load_run(struct face_load *load, const struct load_options *o, struct face_tally *sum)
{
    struct load_thread *t = calloc(load->threads, sizeof(*t));
    struct face_tally *tally = calloc(load->threads, sizeof(*tally));
    uint32_t started = 0;
    int err = t && tally ? 0 : gw_error(-ENOMEM, "no memory for %u threads", load->threads);
    pthread_barrier_init(&load->connected, NULL, load->threads + 1);
    pthread_barrier_init(&load->set, NULL, load->threads + 1);
    for (; !err && started < load->threads; started++) {
        t[started] = (struct load_thread){.load = load, .tally = &tally[started], .index = started};
        if (pthread_create(&t[started].thread, NULL, load_thread_run, &t[started])) break;
    }
    if (!err && started < load->threads) {
        /* Those that run wait at a barrier which is never passed: there is nothing left but to end. */
        fprintf(stderr, "gpuwire app faceverify load: only %u of %u threads could be started\n", started,
                load->threads);
        _exit(GW_EXIT_FAILURE);
    }
    if (!err) {
        pthread_barrier_wait(&load->connected);
        load_set_times(load, o);
        pthread_barrier_wait(&load->set);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(t[i].thread, NULL);
        if (t[i].err && !err) err = gw_error(t[i].err, "%s: %s", o->server, t[i].why);
        face_tally_merge(sum, &tally[i]);
    }
    pthread_barrier_destroy(&load->connected);
    pthread_barrier_destroy(&load->set);
    free(t);
    free(tally);
    return err;
}

static int load_folder(const char *folder, struct face_crowd *crowd)
{
#ifdef FACE_PICTURES
    uint32_t skipped;
    int err = face_folder_read(folder, 0, crowd, &skipped);
    if (!err && crowd->persons < 2)
        err = gw_error(-EINVAL, "%s: only one person; two at least are needed", folder);
    return err;
#else
    (void)crowd;
    return gw_error(-ENOSYS, "%s: this was built without libpng and libjpeg", folder);
#endif
}

static int load_prepare(struct face_load *load, const struct load_options *o, struct face_crowd *crowd)
{
    struct face_crowd_opts opts = {o->seed, (uint32_t)o->persons, (uint32_t)o->views, o->views < 3 ? 0 : 3,
                                   1};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    load->connections = (uint32_t)o->connections;
    load->pipeline = (uint32_t)o->pipeline;
    load->threads = (uint32_t)(o->threads ? o->threads : processors > 0 ? (uint64_t)processors : 1);
    if (load->threads > load->connections) load->threads = load->connections;
    load->rate = o->rate;
    load->wire = o->rdma ? &face_wire_rdma : &face_wire_tcp;
    load->check = o->check;
    load->patience_ns = (uint64_t)(o->patience * 1e9);
    load_raise_limit(o->connections);
    int err = o->faces ? load_folder(o->faces, crowd) : face_crowd_draw(crowd, &opts);
    return err ? err : face_load_plan(crowd, (uint32_t)o->unknown, &load->ask, &load->asks);
}

static double load_seconds(const struct face_load *load)
{
    uint64_t now = face_now(), end = now < load->end_ns ? now : load->end_ns;
    return end > load->count_ns ? (double)(end - load->count_ns) / 1e9 : 1e-9;
}

int face_cmd_load(int argc, char **argv)
{
    struct load_options o = {.connections = 16,
                             .pipeline = 8,
                             .persons = 32,
                             .views = 8,
                             .seed = 1,
                             .seconds = 5,
                             .warm = .5,
                             .patience = 10,
                             .check = true};
    struct face_load load = {0};
    struct face_crowd crowd = {0};
    static struct face_tally sum;
    int err = load_arguments(argc, argv, &o, &load);
    if (err >= 0) return err;
    gw_catch_signals();
    err = load_prepare(&load, &o, &crowd);
    if (!err) err = load_run(&load, &o, &sum);
    if (!err) {
        struct face_report report = {&load, &sum, load_seconds(&load), o.server};
        (o.json ? face_load_print_json : face_load_print)(&report);
    }
    free(load.ask);
    face_crowd_free(&crowd);
    if (err) return gw_interrupted() ? GW_EXIT_INTERRUPTED : gw_fail(load_call, "%s", gw_last_error());
    bool bad = sum.wrong || sum.strange || ((sum.gone || sum.lost) && !o.tolerate);
    return gw_exit_code(bad || (!sum.replies && !gw_interrupted()));
}
