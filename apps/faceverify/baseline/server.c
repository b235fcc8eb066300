/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baselines' network part: as many threads as processors, each with its own epoll, its own listener at
 * the same port, and its own pipelined connections to all memcacheds. A request takes one recv and one send;
 * what memcached is asked, and what it answers, goes in lots.
 *
 *     PROGRAM MEMCACHED-LIST PORT [THREADS [THRESHOLD]]
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "apps/faceverify/baseline/baseline.h"
#include "apps/faceverify/memcache.h"

enum { JOBS = 512, CONNS = 2048, EVENTS = 256, LINK_IN = 1 << 20, LINK_OUT = JOBS * (MC_ASK_MAX + 2) };
#define LIMIT_NS 200000000u
#define PAUSE_NS 100000000u

struct conn {
    int fd;                    /* -1: free */
    uint32_t uses, waits, job; /* job: being received; JOBS: none */
    bool ending, paused;       /* no more comes; no job is free */
    uint32_t out;              /* bytes of replies that are to be sent at the end of the round */
    struct face_reply replies[64];
};

struct link {
    int fd;
    uint64_t retry_ns;
    uint32_t first, owed, out, at, have;
    uint32_t owes[JOBS];
    uint8_t *in, *to;
};

struct worker {
    pthread_t thread;
    int epoll, listener;
    uint32_t free[JOBS], frees, opaque, paused;
    uint64_t now;
    struct job job[JOBS];
    struct conn conn[CONNS];
    struct link link[MC_SERVERS_MAX];
    uint32_t dirty[CONNS], dirties; /* connections that have replies */
    struct judge *judge;
};

static struct mc_servers servers;
static struct mc_ring ring;
static uint16_t port;
static float threshold = FACE_THRESHOLD;

/* What epoll's events belong to. */
enum { LISTENER = UINT32_MAX, LINK = 1 << 30 };

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void watch(struct worker *w, int fd, uint32_t what, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.u32 = what};

    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) && errno == EEXIST)
        epoll_ctl(w->epoll, EPOLL_CTL_MOD, fd, &e);
}

/* ---- clients ------------------------------------------------------------------------------------------- */

static void job_free(struct worker *w, uint32_t j)
{
    w->free[w->frees++] = j;
}

static void conn_close(struct worker *w, uint32_t i)
{
    struct conn *c = &w->conn[i];

    if (c->fd < 0) return;
    close(c->fd);
    if (c->job < JOBS) job_free(w, c->job);
    if (c->paused) w->paused--;
    c->fd = -1;
    c->uses++;
}

static void conn_flush(struct worker *w, uint32_t i)
{
    struct conn *c = &w->conn[i];
    uint32_t n = c->out;

    c->out = 0;
    if (c->fd < 0 || !n) return;
    if (send(c->fd, c->replies, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n || (c->ending && !c->waits))
        conn_close(w, i);
}

static void reply(struct worker *w, uint32_t i, uint32_t j, enum face_verdict verdict, float distance)
{
    const struct face_request *r = (const struct face_request *)w->job[j].request;
    struct conn *c = &w->conn[i];
    struct face_reply *to;

    if (c->out == sizeof(c->replies)) conn_flush(w, i);
    if (c->fd < 0) return;
    if (!c->out) w->dirty[w->dirties++] = i;
    to = &c->replies[c->out / sizeof(*to)];
    *to = (struct face_reply){
        FACE_REPLY_MAGIC, FACE_WIRE_VERSION, (uint8_t)verdict, 0, r->id, distance, threshold, {0}};
    memcpy(to->ns, w->job[j].ns, sizeof(to->ns));
    to->ns[FACE_REPLIED] = w->now;
    c->out += sizeof(*to);
}

/* The job has its verdict. */
static void job_done(struct worker *w, uint32_t j, enum face_verdict verdict, float distance)
{
    struct job *job = &w->job[j];
    struct conn *c = &w->conn[job->conn];

    if (c->uses == job->uses && c->fd >= 0) {
        c->waits--;
        reply(w, job->conn, j, verdict, distance);
    }
    job_free(w, j);
}

/* ---- memcached ----------------------------------------------------------------------------------------- */

static void link_fail(struct worker *w, struct link *l)
{
    close(l->fd);
    l->fd = -1;
    l->retry_ns = w->now + PAUSE_NS;
    for (; l->owed; l->owed--, l->first = (l->first + 1) % JOBS)
        job_done(w, l->owes[l->first], FACE_UNAVAILABLE, 0);
    l->first = l->out = l->at = l->have = 0;
}

static void link_open(struct worker *w, uint32_t i)
{
    struct link *l = &w->link[i];
    int one = 1;

    l->fd = socket(servers.server[i].addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(l->fd, (struct sockaddr *)&servers.server[i].addr, servers.server[i].len)) {
        link_fail(w, l);
        return;
    }
    setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    watch(w, l->fd, LINK | i, EPOLLIN);
}

static void link_flush(struct worker *w, struct link *l)
{
    if (l->fd < 0 || !l->out) return;
    if (send(l->fd, l->to, l->out, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)l->out) link_fail(w, l);
    l->out = 0;
}

/* An answer in good form, to the oldest question. false: it is none. */
static bool link_answer(struct worker *w, struct link *l, const struct mc_answer *a)
{
    uint32_t j = l->owed ? l->owes[l->first] : JOBS;

    if (a->kind == MC_BROKEN || a->kind == MC_TOO_LONG || j == JOBS || a->opaque != w->job[j].opaque)
        return false;
    l->first = (l->first + 1) % JOBS;
    l->owed--;
    w->job[j].ns[FACE_ANSWERED] = w->now;
    if (a->kind != MC_VALUE || a->value_len != sizeof(struct face_value)) {
        job_done(w, j, a->kind == MC_MISS ? FACE_UNKNOWN : FACE_UNAVAILABLE, 0);
        return true;
    }
    memcpy(w->job[j].value, l->in + l->at + a->value, sizeof(struct face_value));
    judge_value(w->judge, j, &w->job[j]);
    return true;
}

static void link_readable(struct worker *w, struct link *l)
{
    struct mc_answer a;
    ssize_t n;

    if (l->fd < 0) return;
    n = recv(l->fd, l->in + l->have, LINK_IN - l->have, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        link_fail(w, l);
        return;
    }
    for (l->have += (uint32_t)n;; l->at += a.used) {
        mc_answer_read(MC_BINARY, l->in + l->at, l->have - l->at, sizeof(struct face_value), &a);
        if (a.kind == MC_MORE) break;
        if (link_answer(w, l, &a)) continue;
        link_fail(w, l);
        return;
    }
    memmove(l->in, l->in + l->at, l->have - l->at);
    l->have -= l->at;
    l->at = 0;
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static void ask(struct worker *w, uint32_t i, uint32_t j)
{
    struct job *job = &w->job[j];
    const struct face_request *r = (const struct face_request *)job->request;
    const char *name = (const char *)(r + 1);
    char key[FACE_KEY_MAX];
    struct link *l;
    uint32_t len;

    job->ns[FACE_RECEIVED] = w->now;
    job->ns[FACE_ASKED] = job->ns[FACE_ANSWERED] = job->ns[FACE_COMPARED] = 0;
    w->conn[i].job = JOBS;
    len = face_name_valid(name, r->name_len) ? (uint32_t)face_key(key, name, r->name_len) : 0;
    l = &w->link[len ? mc_server_of(&ring, key, len) : 0];
    if (!len || l->fd < 0) {
        reply(w, i, j, len ? FACE_UNAVAILABLE : FACE_MALFORMED, 0);
        job_free(w, j);
        return;
    }
    job->conn = i;
    job->uses = w->conn[i].uses;
    job->opaque = w->opaque++;
    job->until_ns = w->now + LIMIT_NS;
    job->ns[FACE_ASKED] = w->now;
    l->out += mc_ask(l->to + l->out, MC_BINARY, key, len, job->opaque);
    l->owes[(l->first + l->owed++) % JOBS] = j;
    w->conn[i].waits++;
    judge_request(w->judge, job);
}

static void conn_readable(struct worker *w, uint32_t i)
{
    struct conn *c = &w->conn[i];
    struct job *job;
    ssize_t n;

    if (c->fd < 0 || c->ending) return;
    if (c->job == JOBS) {
        if (!w->frees) {
            w->paused += !c->paused;
            c->paused = true;
            watch(w, c->fd, i, 0);
            return;
        }
        c->job = w->free[--w->frees];
        w->job[c->job].have = 0;
        w->job[c->job].want = face_request_bytes(1);
    }
    job = &w->job[c->job];
    n = recv(c->fd, job->request + job->have, job->want - job->have, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (!n && !job->have && c->waits) {
        c->ending = true;
        watch(w, c->fd, i, 0);
        return;
    }
    job->have += n > 0 ? (uint32_t)n : 0;
    if (n <= 0 || (job->have >= sizeof(struct face_request) &&
                   !face_request_valid((struct face_request *)job->request))) {
        conn_close(w, i);
        return;
    }
    if (job->have >= sizeof(struct face_request)) job->want = face_request_bytes(job->request[5]);
    if (job->have == job->want) ask(w, i, c->job);
}

static void accept_all(struct worker *w)
{
    uint32_t i = 0;
    int fd, one = 1;

    while ((fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        while (i < CONNS && w->conn[i].fd >= 0) i++;
        if (i == CONNS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        w->conn[i].fd = fd;
        w->conn[i].waits = w->conn[i].out = 0;
        w->conn[i].ending = w->conn[i].paused = false;
        w->conn[i].job = JOBS;
        watch(w, fd, i, EPOLLIN);
    }
}

/* ---- a round ------------------------------------------------------------------------------------------- */

static void look_at_time(struct worker *w)
{
    struct link *l;

    for (uint32_t i = 0; i < servers.count; i++) {
        l = &w->link[i];
        if (l->fd < 0 && w->now >= l->retry_ns) link_open(w, i);
        if (l->owed && w->now > w->job[l->owes[l->first]].until_ns) link_fail(w, l);
    }
}

static void decide(struct worker *w)
{
    const struct face_request *r;
    struct job *job;
    float distance;
    int j;

    while ((j = judge_next(w->judge, w->job)) >= 0) {
        job = &w->job[j];
        r = (const struct face_request *)job->request;
        distance = face_distance(job->terms);
        job->ns[FACE_COMPARED] = w->now;
        if (job->terms == UINT32_MAX ||
            !face_value_is_of(job->value, face_name_hash((const char *)(r + 1), r->name_len)))
            job_done(w, (uint32_t)j, FACE_UNAVAILABLE, 0);
        else
            job_done(w, (uint32_t)j, distance <= threshold ? FACE_MATCH : FACE_NO_MATCH, distance);
    }
}

static void go_on(struct worker *w)
{
    for (uint32_t i = 0; i < CONNS && w->paused && w->frees; i++) {
        if (w->conn[i].fd < 0 || !w->conn[i].paused) continue;
        w->conn[i].paused = false;
        w->paused--;
        watch(w, w->conn[i].fd, i, EPOLLIN);
    }
}

static void round_once(struct worker *w)
{
    struct epoll_event e[EVENTS];
    int n = epoll_wait(w->epoll, e, EVENTS, judge_waits(w->judge) ? 0 : 20);

    w->now = now_ns();
    for (int i = 0; i < n; i++) {
        if (e[i].data.u32 == LISTENER)
            accept_all(w);
        else if (e[i].data.u32 & LINK)
            link_readable(w, &w->link[e[i].data.u32 & ~(uint32_t)LINK]);
        else
            conn_readable(w, e[i].data.u32);
    }
    for (uint32_t i = 0; i < servers.count; i++) link_flush(w, &w->link[i]);
    judge_flush(w->judge);
    decide(w);
    look_at_time(w);
    while (w->dirties) conn_flush(w, w->dirty[--w->dirties]);
    if (w->paused) go_on(w);
}

static int listen_here(void)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1024)) return -1;
    return fd;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct face_value *values;
    uint8_t *requests;

    w->judge = judge_new(JOBS, &requests, &values);
    w->listener = listen_here();
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!w->judge || w->listener < 0 || w->epoll < 0) {
        perror("a thread cannot begin");
        exit(1);
    }
    watch(w, w->listener, LISTENER, EPOLLIN);
    for (uint32_t i = 0; i < CONNS; i++) w->conn[i].fd = -1;
    for (uint32_t i = 0; i < JOBS; i++) {
        w->job[i].request = requests + (uint64_t)i * FACE_REQUEST_MAX;
        w->job[i].value = values + i;
        job_free(w, i);
    }
    for (uint32_t i = 0; i < servers.count; i++) {
        w->link[i].in = malloc(LINK_IN);
        w->link[i].to = malloc(LINK_OUT);
        link_open(w, i);
    }
    for (;;) round_once(w);
}

int main(int argc, char **argv)
{
    static struct mc_point points[MC_POINTS_MAX];
    long threads = argc > 3 ? atol(argv[3]) : 0;
    struct rlimit files;

    if (argc < 3 || argc > 5)
        return fprintf(stderr, "usage: %s MEMCACHED-LIST PORT [THREADS [THRESHOLD]]\n", argv[0]), 2;
    if (mc_servers_parse("baseline", argv[1], &servers)) return 2;
    port = (uint16_t)atoi(argv[2]);
    if (threads < 1) threads = sysconf(_SC_NPROCESSORS_ONLN);
    if (argc > 4) threshold = (float)atof(argv[4]);
    mc_ring_make(&servers, MC_MODULA, points, &ring);
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct worker *all = calloc((size_t)threads, sizeof(*all));
    if (!all) return 1;
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i].thread, NULL, work, &all[i])) return 1;
    printf("listening on port %u, %ld threads, %s\n", port, threads, judge_name());
    fflush(stdout);
    for (;;) pause();
}
