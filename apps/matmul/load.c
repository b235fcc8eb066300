/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of a server of matrix products: threads with many connections each, by poll(2). All connections of
 * a type and size send the same few requests, which are made before the clock starts. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/options.h>

#include "load.h"
#include "pattern.h"

#define KINDS     2u /* different requests */
#define DEPTH_MAX 64u
#define PIECE     65536u   /* of one send: over RDMA it is also a piece of the peer's buffer */
#define SILENT_S  30.0     /* after that, clients give a silent server up */
#define SLICE_MS  200      /* how often a thread looks whether to stop */
#define TIMES_MAX 1000000u /* latencies that a thread keeps */

/* A request, as it goes out, and what its answer is checked with. */
struct load_kind {
    uint8_t *bytes; /* struct mm_request, A, B */
    size_t size;
    double *y; /* C r must be this */
};

struct load_conn {
    int fd;
    uint32_t depth;         /* requests under way */
    uint64_t sent, got;     /* requests that were begun, answers that have come */
    size_t out, in;         /* bytes of the request that goes out, of the answer that comes in */
    struct mm_request head; /* of the request that goes out */
    struct mm_answer answer;
    uint8_t *c;
    double began[DEPTH_MAX];
};

struct load_thread {
    const struct mm_load_opts *o;
    const struct load_kind *kinds;
    const double *probe;
    pthread_barrier_t *start;
    pthread_t thread;
    uint32_t count, failed;
    struct load_conn *conns;
    struct pollfd *fds;
    double *times;
    uint64_t answered, verified, wrong, busy;
    double begin, end;
    char why[160];
};

static double load_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- types -------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {[MM_FP32] = "fp32", [MM_TF32] = "TF32", [MM_FP16] = "fp16"};

const char *mm_type_name(uint32_t type)
{
    return type >= MM_FP32 && type <= MM_FP16 ? type_names[type] : "?";
}

int mm_type_parse(const char *call, const char *name, uint32_t *type)
{
    for (*type = MM_FP32; *type <= MM_FP16; ++*type)
        if (!strcasecmp(name, type_names[*type])) return 0;
    return gw_usage_error(call, "--type %s: must be one of these: fp32 TF32 fp16", name);
}

/* ---- requests ----------------------------------------------------------------------------------------- */

static bool load_kind_make(struct load_kind *k, const struct mm_load_opts *o, const double *probe,
                           uint32_t seed)
{
    struct mm_request head = {MM_REQUEST_MAGIC,          MM_VERSION, (uint16_t)o->type, o->n, 0, 0,
                              mm_in_bytes(o->type, o->n)};
    double *b_r = malloc(o->n * sizeof(double));
    uint8_t *a;

    k->size = sizeof(head) + head.length;
    k->bytes = malloc(k->size);
    k->y = malloc(o->n * sizeof(double));
    if (!b_r || !k->bytes || !k->y) {
        free(b_r);
        return false;
    }
    memcpy(k->bytes, &head, sizeof(head));
    a = k->bytes + sizeof(head);
    for (uint32_t i = 0; i < o->n; i++) {
        b_r[i] = 0;
        for (uint32_t j = 0; j < o->n; j++) {
            int x = mm_pattern(seed + 1, i * o->n + j);

            mm_put(a, o->type, i * o->n + j, mm_pattern(seed, i * o->n + j));
            mm_put(a + head.length / 2, o->type, i * o->n + j, x);
            b_r[i] += x * probe[j];
        }
    }
    for (uint32_t i = 0; i < o->n; i++) {
        k->y[i] = 0;
        for (uint32_t j = 0; j < o->n; j++) k->y[i] += mm_pattern(seed, i * o->n + j) * b_r[j];
    }
    free(b_r);
    return true;
}

static bool load_is_right(const struct load_thread *t, const struct load_kind *k, const uint8_t *c)
{
    uint32_t n = t->o->n;

    for (uint32_t i = 0; i < n; i++) {
        const float *row = (const float *)c + (size_t)i * n;
        double sum = 0;

        for (uint32_t j = 0; j < n; j++) sum += row[j] * t->probe[j];
        if (sum != k->y[i]) return false;
    }
    return true;
}

/* ---- connections -------------------------------------------------------------------------------------- */

static void load_failed(struct load_thread *t, struct load_conn *c, const char *what, int err)
{
    if (!t->why[0])
        snprintf(t->why, sizeof(t->why), "%s%s%s", what, err ? ": " : "", err ? strerror(err) : "");
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    t->failed++;
}

static void load_connect(struct load_thread *t, struct load_conn *c)
{
    int one = 1;

    c->fd = socket(t->o->addr.ss_family, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&t->o->addr, t->o->addr_len)) {
        load_failed(t, c, "connect", errno);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->c = malloc(mm_out_bytes(t->o->n));
    if (!c->c || fcntl(c->fd, F_SETFL, O_NONBLOCK)) load_failed(t, c, "connect", errno);
}

/* May it begin another request? */
static bool load_wants_more(const struct load_thread *t, const struct load_conn *c, double now)
{
    if (c->depth >= t->o->depth) return false;
    return t->o->seconds > 0 ? now < t->end : c->sent < t->o->requests;
}

/* Where the next bytes of the request come from that goes out, and how many there are. */
static const uint8_t *load_next(const struct load_thread *t, const struct load_conn *c, size_t *left)
{
    const struct load_kind *k = &t->kinds[c->sent % KINDS];

    *left = (c->out < sizeof(c->head) ? sizeof(c->head) : k->size) - c->out;
    if (*left > 4 * PIECE) *left = 4 * PIECE;
    return c->out < sizeof(c->head) ? (const uint8_t *)&c->head + c->out : k->bytes + c->out;
}

/* Sends what the socket takes. */
static void load_send(struct load_thread *t, struct load_conn *c, double now)
{
    while (c->fd >= 0 && (c->out || load_wants_more(t, c, now))) {
        const uint8_t *from;
        size_t left;
        ssize_t n;

        if (!c->out) memcpy(&c->head, t->kinds[c->sent % KINDS].bytes, sizeof(c->head));
        c->head.id = c->sent;
        from = load_next(t, c, &left);
        n = send(c->fd, from, left, MSG_NOSIGNAL | (c->out < sizeof(c->head) ? MSG_MORE : 0));
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) load_failed(t, c, "send", errno);
        if (n < 0) return;
        if (!c->out) { /* a request counts from its first byte on */
            c->began[c->sent % DEPTH_MAX] = now;
            c->depth++;
        }
        c->out += (size_t)n;
        if (c->out < t->kinds[c->sent % KINDS].size) continue;
        c->out = 0;
        c->sent++;
    }
}

static void load_answered(struct load_thread *t, struct load_conn *c, double now)
{
    const struct mm_answer *a = &c->answer;

    c->got++;
    c->depth--;
    c->in = 0;
    if (now < t->begin) return; /* all connections are not under way yet */
    if (t->answered < TIMES_MAX) t->times[t->answered] = now - c->began[(c->got - 1) % DEPTH_MAX];
    if (a->status == MM_BUSY) {
        t->busy++;
    } else {
        t->answered++;
        if (t->o->verify && t->answered % t->o->verify == 0) {
            t->verified++;
            if (!load_is_right(t, &t->kinds[(c->got - 1) % KINDS], c->c)) t->wrong++;
        }
    }
}

static bool load_answer_is_sound(const struct load_thread *t, const struct load_conn *c)
{
    const struct mm_answer *a = &c->answer;

    return a->magic == MM_ANSWER_MAGIC && a->id == c->got && a->n == t->o->n &&
           ((a->status == MM_OK && a->length == mm_out_bytes(a->n)) || (a->status == MM_BUSY && !a->length));
}

/* Receives what is there. */
static void load_receive(struct load_thread *t, struct load_conn *c, double now)
{
    while (c->fd >= 0 && c->depth) {
        size_t head = sizeof(c->answer), left = c->in < head ? head - c->in : head + c->answer.length - c->in;
        uint8_t *to = c->in < head ? (uint8_t *)&c->answer + c->in : c->c + c->in - head;
        ssize_t n = recv(c->fd, to, left, 0);
        char what[64];

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            load_failed(t, c, n < 0 ? "receive" : "the server has closed the connection", n < 0 ? errno : 0);
            return;
        }
        c->in += (size_t)n;
        if (c->in == head && !load_answer_is_sound(t, c)) {
            snprintf(what, sizeof(what), "the server's answer is status %u", c->answer.status);
            load_failed(t, c, c->answer.magic == MM_ANSWER_MAGIC ? what : "no answer of a product server", 0);
        } else if (c->in >= head && c->in == head + c->answer.length) {
            load_answered(t, c, now);
        }
    }
}

/* ---- threads ------------------------------------------------------------------------------------------ */

static bool load_watch(struct load_thread *t, double now)
{
    bool any = false;

    for (uint32_t i = 0; i < t->count; i++) {
        struct load_conn *c = &t->conns[i];
        bool out = c->out || load_wants_more(t, c, now);

        t->fds[i] = (struct pollfd){.fd = c->depth || out ? c->fd : -1,
                                    .events = (short)(out ? POLLIN | POLLOUT : POLLIN)};
        any |= t->fds[i].fd >= 0;
    }
    return any;
}

static void *load_thread_run(void *arg)
{
    struct load_thread *t = arg;
    double now, heard;

    for (uint32_t i = 0; i < t->count; i++) load_connect(t, &t->conns[i]);
    pthread_barrier_wait(t->start);
    now = heard = load_now();
    t->begin = now + t->o->warm;
    t->end = t->begin + t->o->seconds;
    while (load_watch(t, now) && !(t->o->stopped())) {
        if (poll(t->fds, t->count, SLICE_MS) > 0) heard = load_now();
        now = load_now();
        for (uint32_t i = 0; i < t->count; i++) {
            struct load_conn *c = &t->conns[i];

            if (t->fds[i].fd < 0 || c->fd < 0) continue;
            if (now - heard > SILENT_S) load_failed(t, c, "the server is silent", ETIMEDOUT);
            if (t->fds[i].revents & (POLLIN | POLLERR | POLLHUP)) load_receive(t, c, load_now());
            if (t->fds[i].revents & (POLLIN | POLLOUT)) load_send(t, c, load_now());
        }
    }
    t->end = load_now();
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->conns[i].fd >= 0) close(t->conns[i].fd);
        free(t->conns[i].c);
    }
    return NULL;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

static int load_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double load_cpu(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void load_sum(const struct load_thread *threads, uint32_t count, struct mm_load_result *r)
{
    uint64_t times = 0, at = 0;
    double *all, begin = 1e300, end = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct load_thread *t = &threads[i];

        r->answered += t->answered;
        r->verified += t->verified;
        r->wrong += t->wrong;
        r->busy += t->busy;
        r->failed += t->failed;
        r->connected += t->count - t->failed;
        if (t->why[0] && !r->why[0]) memcpy(r->why, t->why, sizeof(r->why));
        times += t->answered < TIMES_MAX ? t->answered : TIMES_MAX;
        if (t->begin < begin) begin = t->begin;
        if (t->end > end) end = t->end;
    }
    r->seconds = end - begin;
    all = malloc((times + 1) * sizeof(double));
    if (!all || !times) {
        free(all);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t n = threads[i].answered < TIMES_MAX ? threads[i].answered : TIMES_MAX;

        memcpy(all + at, threads[i].times, n * sizeof(double));
        at += n;
    }
    qsort(all, times, sizeof(double), load_by_size);
    r->p50 = 1e6 * all[times / 2];
    r->p99 = 1e6 * all[times * 99 / 100];
    r->most = 1e6 * all[times - 1];
    free(all);
}

static bool load_threads(struct load_thread *threads, uint32_t count, const struct load_thread *model)
{
    bool ok = true;
    uint32_t made = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct load_thread *t = &threads[i];

        *t = *model;
        t->count = model->o->connections / count + (i < model->o->connections % count);
        t->conns = calloc(t->count + 1, sizeof(*t->conns));
        t->fds = calloc(t->count + 1, sizeof(*t->fds));
        t->times = malloc(TIMES_MAX * sizeof(double));
        ok = ok && t->conns && t->fds && t->times;
    }
    /* A thread that does not start would leave the others at the barrier: this one takes its place there. */
    for (; ok && made < count; made++)
        if (pthread_create(&threads[made].thread, NULL, load_thread_run, &threads[made])) break;
    for (uint32_t i = made; ok && i < count; i++) load_thread_run(&threads[i]);
    for (uint32_t i = 0; i < made; i++) pthread_join(threads[i].thread, NULL);
    return ok;
}

static bool load_prepare(const struct mm_load_opts *o, struct load_kind *kinds, double **probe)
{
    *probe = malloc(o->n * sizeof(double));
    if (!*probe) return false;
    for (uint32_t i = 0; i < o->n; i++) (*probe)[i] = mm_probe(i);
    for (uint32_t i = 0; i < KINDS; i++)
        if (!load_kind_make(&kinds[i], o, *probe, 2 * i + 1)) return false;
    return true;
}

bool mm_load_run(const struct mm_load_opts *o, struct mm_load_result *r)
{
    uint32_t count = o->threads < o->connections ? o->threads : o->connections;
    struct load_thread *threads = calloc(count, sizeof(*threads));
    struct load_kind kinds[KINDS] = {{0}};
    pthread_barrier_t start;
    double *probe = NULL, cpu;
    bool ok = threads && load_prepare(o, kinds, &probe);
    struct load_thread model = {.o = o, .kinds = kinds, .start = &start};

    memset(r, 0, sizeof(*r));
    snprintf(r->why, sizeof(r->why), "%s", ok ? "" : "there is not enough memory");
    model.probe = probe;
    cpu = load_cpu();
    if (ok) {
        pthread_barrier_init(&start, NULL, count);
        ok = load_threads(threads, count, &model);
        pthread_barrier_destroy(&start);
        load_sum(threads, count, r);
    }
    r->cpu = load_cpu() - cpu;
    for (uint32_t i = 0; threads && i < count; i++) {
        free(threads[i].conns);
        free(threads[i].fds);
        free(threads[i].times);
    }
    for (uint32_t i = 0; i < KINDS; i++) {
        free(kinds[i].bytes);
        free(kinds[i].y);
    }
    free(threads);
    free(probe);
    return ok;
}

double mm_load_gflops(const struct mm_load_opts *o, const struct mm_load_result *r)
{
    return r->seconds > 0 ? 2.0 * o->n * o->n * o->n * (double)r->answered / r->seconds / 1e9 : 0;
}
