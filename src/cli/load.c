/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire load: many clients at once, every answer checked. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>

#include "src/cli/enlarge.h"
#include "src/cli/latency.h"
#include "src/cli/options.h"
#include "src/cli/progress.h"

static const char usage[] =
    "usage: gpuwire load MODEL [OPTION...]\n"
    "\n"
    "Loads a `gpuwire serve` with many clients at once, each with several requests in flight, and reports "
    "latencies and\n"
    "rate. Each request carries other numbers; with --verify-echo every answer must be its request (for "
    "model identity).\n"
    "\n"
    "  --server HOST:PORT  where `gpuwire serve` listens (default 127.0.0.1:8000)\n"
    "  --clients N         sessions at once, a thread each (default 1)\n"
    "  --requests N        of all clients together (default 1000)\n"
    "  --slots N           requests that a client keeps in flight (default: as many as the server gives)\n"
    "  --verify-echo       compare every answer with its request, bit for bit\n"
    "  -h, --help          this text\n"
    "\n"
    "Exit code 0: all answered, and rightly; 1: not; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum { SERVER = 256, CLIENTS, REQUESTS, SLOTS, VERIFY };

static const struct option options[] = {
    {"server", 1, NULL, SERVER},
    {"clients", 1, NULL, CLIENTS},
    {"requests", 1, NULL, REQUESTS},
    {"slots", 1, NULL, SLOTS},
    {"verify-echo", 0, NULL, VERIFY},
    {"help", 0, NULL, 'h'},
    {0},
};

struct load {
    struct gw_client_opts opts;
    uint64_t clients, requests;
    int verify;
    atomic_ullong next, answered, wrong;
};

struct client {
    struct load *load;
    pthread_t thread;
    struct gw_latency latency;
    int error;
    char why[256];
};

/* A request's numbers follow from its id: cheap to make, and to check without keeping them. */
static void fill(float *x, size_t count, uint64_t id)
{
    uint64_t state = id * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(state >> 40) / (float)(1u << 24);
    }
}

static int is_echo(const float *y, size_t count, uint64_t id)
{
    uint64_t state = id * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (y[i] != (float)(state >> 40) / (float)(1u << 24)) return 0;
    }
    return 1;
}

static int send_next(struct load *l, struct gw_client *c, uint32_t slot)
{
    uint64_t id = atomic_fetch_add(&l->next, 1);
    if (id >= l->requests) return 0;
    fill(gw_client_slot_input(c, slot), gw_client_input(c)->bytes / sizeof(float), id);
    int error = gw_client_submit(c, slot, id);
    return error ? error : 1;
}

static int drive(struct client *me, struct gw_client *c)
{
    struct load *l = me->load;
    struct gw_client_reply reply;
    uint32_t in_flight = 0;
    int sent = 0;
    for (uint32_t slot = 0; slot < gw_client_slots(c) && (sent = send_next(l, c, slot)) > 0; slot++)
        in_flight++;
    while (sent >= 0 && in_flight) {
        int error = gw_next_answer(c, &reply);
        if (error) return error;
        in_flight--;
        atomic_fetch_add(&l->answered, 1);
        if (l->verify && !is_echo(reply.output, gw_client_output(c)->bytes / sizeof(float), reply.id))
            atomic_fetch_add(&l->wrong, 1);
        error = gw_latency_add(&me->latency, &reply.times);
        if (error) return error;
        sent = send_next(l, c, reply.slot);
        if (sent > 0) in_flight++;
    }
    return sent < 0 ? sent : 0;
}

static void *run_client(void *arg)
{
    struct client *me = arg;
    struct gw_client *c = NULL;
    me->error = gw_client_open(&me->load->opts, &c);
    if (!me->error && me->load->verify && gw_client_input(c)->bytes != gw_client_output(c)->bytes)
        me->error =
            gw_error(-EINVAL, "--verify-echo: model %s does not answer with its input", me->load->opts.model);
    if (!me->error) me->error = drive(me, c);
    if (me->error) snprintf(me->why, sizeof(me->why), "%s", gw_last_error());
    gw_client_close(c);
    return NULL;
}

static int parse(int argc, char **argv, struct load *l)
{
    int option, wrong = 0;
    uint64_t n = 0;
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (option) {
        case SERVER: l->opts.server = optarg; break;
        case CLIENTS: wrong = gw_option_number("load", "--clients", optarg, 1, 1024, &l->clients); break;
        case REQUESTS:
            wrong = gw_option_number("load", "--requests", optarg, 1, UINT64_C(1) << 40, &l->requests);
            break;
        case SLOTS:
            wrong = gw_option_number("load", "--slots", optarg, 1, 256, &n);
            l->opts.slots = (uint32_t)n;
            break;
        case VERIFY: l->verify = 1; break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("load", argv, option);
        }
    }
    if (wrong) return wrong;
    if (optind >= argc) return gw_usage_error("load", "which model?");
    l->opts.model = argv[optind++];
    if (optind < argc) return gw_usage_error("load", "%s: not an option", argv[optind]);
    return -1;
}

static void merge(struct gw_samples *to, const struct gw_samples *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (gw_samples_add(to, from->value[i])) return;
}

static void report(struct load *l, struct client *client, uint64_t ns)
{
    struct gw_latency all = {0};
    for (uint64_t i = 0; i < l->clients; i++) {
        merge(&all.total, &client[i].latency.total);
        merge(&all.net_in, &client[i].latency.net_in);
        merge(&all.wait, &client[i].latency.wait);
        merge(&all.model, &client[i].latency.model);
        merge(&all.post, &client[i].latency.post);
        merge(&all.net_out, &client[i].latency.net_out);
    }
    printf("%llu of %llu requests answered, %llu clients, %.1f requests/s\n", (unsigned long long)l->answered,
           (unsigned long long)l->requests, (unsigned long long)l->clients,
           (double)l->answered * 1e9 / (double)ns);
    gw_latency_print(&all, stdout);
    if (l->verify) printf("answers that are not their request: %llu\n", (unsigned long long)l->wrong);
    gw_latency_free(&all);
}

/* Each reason once: clients of one server mostly fail for the same. */
static void tell_errors(const struct load *l, const struct client *client, uint64_t started)
{
    if (started < l->clients)
        fprintf(stderr, "gpuwire load: cannot start a thread for client %llu\n", (unsigned long long)started);
    for (uint64_t i = 0; i < started; i++) {
        uint64_t same = 0, first = 0;
        if (!client[i].error) continue;
        while (!client[first].error || strcmp(client[first].why, client[i].why)) first++;
        if (first < i) continue;
        for (uint64_t k = i; k < started; k++)
            same += client[k].error && !strcmp(client[k].why, client[i].why);
        fprintf(stderr, "gpuwire load: %llu of %llu clients: %s\n", (unsigned long long)same,
                (unsigned long long)l->clients, client[i].why);
    }
}

int gw_cli_load(int argc, char **argv)
{
    struct load l = {
        .opts = {.server = "127.0.0.1:8000", .give_up = gw_interrupted}, .clients = 1, .requests = 1000};
    int done = parse(argc, argv, &l);
    if (done >= 0) return done;
    struct client *client = calloc(l.clients, sizeof(*client));
    if (!client) return gw_failed("load");

    gw_catch_signals();
    uint64_t start = gw_deadline(0), started = 0;
    for (; started < l.clients; started++) {
        client[started].load = &l;
        if (pthread_create(&client[started].thread, NULL, run_client, &client[started])) break;
    }
    int failed = started < l.clients;
    for (uint64_t i = 0; i < started; i++) {
        pthread_join(client[i].thread, NULL);
        failed |= client[i].error != 0;
    }
    uint64_t ns = gw_deadline(0) - start;
    tell_errors(&l, client, started);
    if (l.answered) report(&l, client, ns);
    for (uint64_t i = 0; i < l.clients; i++) gw_latency_free(&client[i].latency);
    free(client);
    return gw_exit_code(failed || l.wrong || l.answered != l.requests);
}
