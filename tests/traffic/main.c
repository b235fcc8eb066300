/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds, and what was seen in them. See --help, and traffic.h for what it is. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "traffic.h"

enum { DRAIN_MS = 120000 };

int complain(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fputs("traffic: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    return -1;
}

uint64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- a round ------------------------------------------------------------------------------------------- */

static int take_event(struct side *s)
{
    struct pollfd p = {s->channel->fd, POLLIN, 0};
    struct ibv_cq *cq;
    void *ctx;

    s->waits++;
    if (poll(&p, 1, 20) != 1) return 0; /* the control connection wants to be looked at too */
    if (ibv_get_cq_event(s->channel, &cq, &ctx)) return complain("no event after all: %s", strerror(errno));
    ibv_ack_cq_events(cq, 1);
    return 0;
}

static int look(struct side *s, enum phase phase, bool *did)
{
    if (take_receives(s, did) || finish_sends(s, did)) return -1;
    for (uint32_t i = 0; phase != PHASE_SERVE && i < s->opt.plan.links; i++)
        if (initiate(s, &s->links[i], phase == PHASE_CLOSE, did)) return -1;
    return 0;
}

int progress(struct side *s, enum phase phase, bool *did)
{
    if (look(s, phase, did)) return -1;
    if (*did || !s->events || phase == PHASE_SERVE) return 0;
    if (ibv_req_notify_cq(s->send_cq, 0) || ibv_req_notify_cq(s->recv_cq, 0))
        return complain("a queue cannot be armed");
    /* Completions that came before it was armed raise no event. */
    if (look(s, phase, did)) return -1;
    return *did ? 0 : take_event(s);
}

static bool closed(const struct side *s)
{
    for (uint32_t i = 0; i < s->opt.plan.links; i++) {
        const struct outgoing *o = &s->links[i].out;

        if (o->peeking || o->next != o->done || o->next % 4) return false;
    }
    return true;
}

static int drain(struct side *s)
{
    uint64_t limit = now_ms() + DRAIN_MS;

    while (!closed(s)) {
        bool did = false;

        if (progress(s, PHASE_CLOSE, &did)) return -1;
        if (now_ms() > limit)
            return complain("requests are still under way %d s after the last one", DRAIN_MS / 1000);
    }
    return 0;
}

/* All that the peer sent is acknowledged, so what it announced is in the receive queue, or will be at once.
 */
static int take_the_rest(struct side *s, const uint64_t *ends)
{
    uint64_t limit = now_ms() + DRAIN_MS;

    for (uint32_t i = 0; i < s->opt.plan.links; i++) {
        struct link *l = &s->links[i];
        bool did = false;

        while (link_is_reliable(l->type) && !has_all_received(l, ends[i])) {
            if (take_receives(s, &did)) return -1;
            if (now_ms() > limit) break; /* the check that follows says which */
        }
    }
    return 0;
}

static int check_link(struct link *l, uint64_t end)
{
    if (link_is_reliable(l->type)) return check_trailing(l, end);
    return end < 100 || l->in.received ? 0
                                       : complain("link %u (%s): of %llu messages none came", l->index,
                                                  link_names[l->type], (unsigned long long)end);
}

static int compare_ends(struct side *s)
{
    uint32_t n = s->opt.plan.links;
    uint64_t *mine = calloc(n, sizeof(*mine)), *peers = calloc(n, sizeof(*peers));
    int err = mine && peers ? 0 : complain("out of memory");

    for (uint32_t i = 0; !err && i < n; i++) mine[i] = s->links[i].out.next;
    if (!err) err = control_exchange(s, mine, peers, n * sizeof(*mine));
    if (!err) err = take_the_rest(s, peers);
    for (uint32_t i = 0; !err && i < n; i++) err = check_link(&s->links[i], peers[i]);
    if (!err) err = control_exchange(s, "ok", mine, 2);
    free(mine);
    free(peers);
    return err;
}

static int run_round(struct side *s)
{
    uint64_t end;
    int err = round_begin(s);

    end = now_ms() + s->opt.plan.round_ms;
    while (!err && now_ms() < end) {
        bool did = false;

        err = progress(s, PHASE_SEND, &did);
    }
    if (!err) err = drain(s);
    if (!err) err = compare_ends(s);
    return err ? err : round_end(s);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static long rss_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long size, pages = 0;

    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * 4;
}

static int run(struct side *s)
{
    uint64_t start = now_ms();
    long first = 0, last = 0;
    char stop = 0, peers = 0;
    int err = device_open(s);

    if (!err) err = control_open(s);
    while (!err && !stop && !peers) {
        err = run_round(s);
        last = rss_kib();
        if (++s->round == 5) first = last; /* the first ones fill caches and pools */
        stop = now_ms() - start > s->opt.plan.seconds * 1000u;
        if (!err) err = control_exchange(s, &stop, &peers, 1);
    }
    if (!err && s->round >= 10 && last > first + 16384)
        err = complain("memory grew from %ld to %ld KiB in %u rounds", first, last, s->round - 5);
    device_close(s);
    if (err) return complain("failed in round %u; seed %llu", s->round, (unsigned long long)s->opt.plan.seed);
    printf("%u rounds, %u links, %llu waits; resident %ld KiB after five rounds, %ld at the end\n", s->round,
           s->opt.plan.links, (unsigned long long)s->waits, first, last);
    for (int k = 0; k < OP_KINDS; k++) printf("%s %llu  ", op_names[k], (unsigned long long)s->count[k]);
    printf("\n%llu bytes asked for, %llu messages received, %llu gaps and steps back in unreliable ones; "
           "every byte right\n",
           (unsigned long long)s->bytes, (unsigned long long)s->received,
           (unsigned long long)s->out_of_order);
    return 0;
}

static void usage(FILE *to)
{
    fputs("usage: traffic [options] [HOST]      (without HOST: waits for the other side)\n"
          "  -p, --port N    TCP port of the control connection (18600)\n"
          "  --device NAME   RDMA device (the first)\n"
          "  --gid-index N   (0)\n"
          "  --no-fences     this side fences no request\n"
          "the rest is the client's choice:\n"
          "  --seconds N     how long (5)\n"
          "  --round-ms N    a round's length; each makes all objects again (1000)\n"
          "  --links N       queue pairs (64)\n"
          "  --types LIST    of rc,srq,xrc,uc,ud (rc)\n"
          "  --seed N        of everything (the time)\n",
          to);
}

static int parse_types(const char *list, uint32_t *mask)
{
    char copy[64], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", list);
    *mask = 0;
    for (char *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        int i = 0;

        while (i < LINK_TYPES && strcmp(t, link_names[i])) i++;
        if (i == LINK_TYPES) return complain("--types: there is no type '%s'", t);
        *mask |= 1u << i;
    }
    return *mask ? 0 : complain("--types names none");
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"port", 1, 0, 'p'},
        {"device", 1, 0, 'd'},
        {"gid-index", 1, 0, 'g'},
        {"seconds", 1, 0, 's'},
        {"round-ms", 1, 0, 'r'},
        {"links", 1, 0, 'l'},
        {"types", 1, 0, 't'},
        {"seed", 1, 0, 'S'},
        {"no-fences", 0, 0, 'F'},
        {"help", 0, 0, 'h'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "hp:", longs, NULL)) != -1) {
        switch (c) {
        case 'p': o->port = atoi(optarg); break;
        case 'd': o->device = optarg; break;
        case 'g': o->gid_index = atoi(optarg); break;
        case 'F': o->no_fences = true; break;
        case 's': o->plan.seconds = (uint32_t)atoi(optarg); break;
        case 'r': o->plan.round_ms = (uint32_t)atoi(optarg); break;
        case 'l': o->plan.links = (uint32_t)atoi(optarg); break;
        case 't':
            if (parse_types(optarg, &o->plan.types)) return -1;
            break;
        case 'S': o->plan.seed = strtoull(optarg, NULL, 0); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); return -1;
        }
    }
    if (o->plan.links < 1 || o->plan.links > 4096 || o->plan.round_ms < 1)
        return complain("--links: 1 to 4096; --round-ms: at least 1");
    o->host = optind < argc ? argv[optind] : NULL;
    return 0;
}

int main(int argc, char **argv)
{
    struct side s = {
        .opt = {.port = 18600,
                .plan = {.seed = now_ms(), .links = 64, .types = 1, .seconds = 5, .round_ms = 1000}},
        .control = -1};

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (parse_options(argc, argv, &s.opt)) return 2;
    s.server = !s.opt.host;
    return run(&s) ? 1 : 0;
}
