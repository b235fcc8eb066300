/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/sync.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/json.h"
#include "src/balance/control/translate.h"
#include "src/balance/control/wire.h"
#include "src/serve/listen.h"
#include "src/serve/secret.h"

#define MS        1000000ull
#define PUSH_NS   (50 * MS)
#define AGAIN_NS  (500 * MS)
#define PATIENCE  (5000 * MS)
#define LEARN_TRY 200u /* times a millisecond, for cores that have not taken the last records */
#define BATCH     1024u
#define MAGIC     0x31535747u /* "GWS1"; another one when the format changes */

enum { HELLO = 1, TABLE, FLOWS };

struct frame {
    uint32_t magic, kind, bytes, record; /* record: the size of one, which both sides must have alike */
    uint64_t number;                     /* counts from 1 on each connection */
};

struct gw_bal_sync {
    struct bal *bal;
    const struct gw_bal_global *global;
    struct gw_bal_agent *agent;
    char *key;
    int end_fd, listen_fd;
    pthread_t sender, receiver;
    int sends, receives;
    _Atomic uint64_t sent, received, unknown, lost, connected;
};

static int ended(const struct gw_bal_sync *s, uint64_t wait_ns)
{
    return gw_wait_fds(&s->end_fd, 1, gw_deadline(wait_ns)) > 0;
}

/* ---- sending ---- */

struct sending {
    struct gw_bal_sync *s;
    int fd;
    uint64_t number, version; /* of the table that went last */
    json_t *table;
};

static int send_frame(struct sending *o, uint32_t kind, const void *data, size_t bytes)
{
    struct frame f = {MAGIC, kind, (uint32_t)bytes, sizeof(struct bal_record), ++o->number};
    int error = gw_bal_write_all(o->fd, &f, sizeof(f), gw_deadline(PATIENCE));
    return error ? error : gw_bal_write_all(o->fd, data, bytes, gw_deadline(PATIENCE));
}

/* Under the agent's lock. */
static void copy_table(void *ctx, const struct gw_bal_model *m, uint64_t version)
{
    struct sending *o = ctx;
    if (version == o->version) return;
    o->table = gw_bal_model_json(m);
    o->version = version;
}

static int send_table(struct sending *o)
{
    gw_bal_agent_model(o->s->agent, copy_table, o);
    if (!o->table) return 0;
    char *text = json_dumps(o->table, JSON_COMPACT);
    json_decref(o->table);
    o->table = NULL;
    int error = text ? send_frame(o, TABLE, text, strlen(text)) : -ENOMEM;
    free(text);
    return error;
}

static int send_flows(struct sending *o)
{
    struct bal_record batch[BATCH];
    struct bal_attr attr;
    gw_bal_translate_attr(o->s->global, &attr);
    for (uint32_t core = 0; core < attr.cores; core++) {
        size_t n;
        while ((n = bal_feed_take(o->s->bal, core, batch, BATCH))) {
            int error = send_frame(o, FLOWS, batch, n * sizeof(batch[0]));
            if (error) return error;
            o->s->sent += n;
        }
    }
    return 0;
}

static int connect_to(const struct gw_bal_global *g)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(g->standby_port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(g->standby_port)};
    int is_six = g->standby.family == 6,
        fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&four.sin_addr, g->standby.bytes, 4);
    memcpy(&six.sin6_addr, g->standby.bytes, 16);
    if (fd < 0) return -1;
    /* The kernel's patience with a standby that is off is minutes; this thread must be able to end. */
    struct timeval patience = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (!connect(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
                 is_six ? sizeof(six) : sizeof(four)))
        return fd;
    close(fd);
    return -1;
}

static void send_all(struct gw_bal_sync *s, int fd)
{
    struct sending o = {.s = s, .fd = fd};
    int error = send_frame(&o, HELLO, s->key, strlen(s->key));
    bal_feed(s->bal, true);
    s->connected = 1;
    do {
        if (!error) error = send_table(&o);
        if (!error) error = send_flows(&o);
    } while (!error && !ended(s, PUSH_NS));
    s->connected = 0;
    bal_feed(s->bal, false);
}

static void *run_sender(void *arg)
{
    struct gw_bal_sync *s = arg;
    do {
        int fd = connect_to(s->global);
        if (fd < 0) continue;
        send_all(s, fd);
        close(fd);
    } while (!ended(s, AGAIN_NS));
    return NULL;
}

/* ---- receiving ---- */

#define NOT_HERE 0xffffu

struct receiving {
    struct gw_bal_sync *s;
    struct gw_bal_model theirs;
    uint16_t service[GW_BAL_SERVICES], worker[GW_BAL_WORKERS]; /* their number to ours */
    uint64_t version;                                          /* of our model that these are made from */
    struct bal_record *batch;
    size_t n, learnt;
    int again;
};

static void map_workers(struct receiving *r, const struct gw_bal_service *mine,
                        const struct gw_bal_service *their)
{
    for (const struct gw_bal_worker *t = their->workers; t; t = t->next)
        for (const struct gw_bal_worker *w = mine->workers; w; w = w->next)
            if (gw_bal_addr_same(&w->addr, &t->addr) && gw_bal_port_of(mine, w) == gw_bal_port_of(their, t))
                r->worker[t->id] = (uint16_t)w->id;
}

static void map_numbers(struct receiving *r, const struct gw_bal_model *ours)
{
    memset(r->service, 0xff, sizeof(r->service));
    memset(r->worker, 0xff, sizeof(r->worker));
    for (const struct gw_bal_service *t = r->theirs.services; t; t = t->next)
        for (const struct gw_bal_service *s = ours->services; s; s = s->next) {
            if (s->protocol != t->protocol || s->port != t->port || !gw_bal_addr_same(&s->addr, &t->addr))
                continue;
            r->service[t->id] = (uint16_t)s->id;
            map_workers(r, s, t);
        }
}

/* Under the agent's lock, which serializes it with publications: goes on where it stopped, until the cores
 * are full. */
static void learn(void *ctx, const struct gw_bal_model *ours, uint64_t version)
{
    struct receiving *r = ctx;
    if (version != r->version) map_numbers(r, ours);
    r->version = version;
    for (r->again = 0; r->learnt < r->n; r->learnt++) {
        struct bal_record record = r->batch[r->learnt];
        record.service = record.service < GW_BAL_SERVICES ? r->service[record.service] : NOT_HERE;
        record.worker = record.worker < GW_BAL_WORKERS ? r->worker[record.worker] : NOT_HERE;
        int error =
            record.service == NOT_HERE || record.worker == NOT_HERE ? -EINVAL : bal_learn(r->s->bal, &record);
        r->again = error == -EAGAIN;
        if (r->again) return;
        if (error)
            r->s->unknown++;
        else
            r->s->received++;
    }
}

static int take_flows(struct receiving *r, void *data, size_t bytes)
{
    if (bytes % sizeof(struct bal_record)) return -EPROTO;
    r->batch = data;
    r->n = bytes / sizeof(struct bal_record);
    r->learnt = 0;
    for (unsigned i = 0; i < LEARN_TRY; i++) {
        gw_bal_agent_model(r->s->agent, learn, r);
        if (!r->again) return 0;
        if (ended(r->s, MS)) return -ECANCELED;
    }
    r->s->lost += r->n - r->learnt;
    return 0;
}

static int take_table(struct receiving *r, const char *text, size_t bytes)
{
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    gw_bal_model_free(&r->theirs);
    r->theirs = (struct gw_bal_model){0};
    r->version = UINT64_MAX;
    int error = j ? gw_bal_model_from(j, &r->theirs) : -EPROTO;
    json_decref(j);
    return error;
}

static int take_hello(const struct gw_bal_sync *s, const char *key, size_t bytes)
{
    char *bearer = NULL;
    if (asprintf(&bearer, "Bearer %.*s", (int)bytes, key) < 0) return -ENOMEM;
    int ok = gw_secret_allows(s->key, bearer);
    gw_secret_forget(bearer);
    return ok ? 0 : -EACCES;
}

/* One frame; the first must be the hello, and nothing of a stranger is kept before. */
static int take_frame(struct receiving *r, int fd, uint64_t number)
{
    struct frame f;
    /* A quiet network has nothing to tell for long. */
    while (gw_wait_fds((int[]){fd, r->s->end_fd}, 2, gw_deadline(AGAIN_NS)) == 0) continue;
    if (ended(r->s, 0)) return -ECANCELED;
    int error = gw_bal_read_all(fd, &f, sizeof(f), gw_deadline(PATIENCE));
    if (error) return error;
    uint32_t most = number == 1 ? 256 : GW_BAL_MESSAGE;
    if (f.magic != MAGIC || f.record != sizeof(struct bal_record) || f.number != number || f.bytes > most ||
        (f.kind == HELLO) != (number == 1))
        return -EPROTO;
    char *data = malloc((size_t)f.bytes + 1);
    if (!data) return -ENOMEM;
    error = gw_bal_read_all(fd, data, f.bytes, gw_deadline(PATIENCE));
    if (!error)
        error = f.kind == HELLO   ? take_hello(r->s, data, f.bytes)
                : f.kind == TABLE ? take_table(r, data, f.bytes)
                : f.kind == FLOWS ? take_flows(r, data, f.bytes)
                                  : -EPROTO;
    free(data);
    return error;
}

static void receive_all(struct gw_bal_sync *s, int fd)
{
    struct receiving *r = calloc(1, sizeof(*r));
    int error = r ? 0 : -ENOMEM;
    if (r) r->s = s;
    if (r) r->version = UINT64_MAX;
    for (uint64_t number = 1; !error; number++) {
        error = take_frame(r, fd, number);
        if (!error) s->connected = 1;
    }
    s->connected = 0;
    if (error == -EACCES)
        fprintf(stderr, "gpuwire balance: flows came with another key; sync_key_file must be the same\n");
    if (error == -EPROTO)
        fprintf(stderr, "gpuwire balance: flows came from another version of gpuwire, or a stranger\n");
    if (r) gw_bal_model_free(&r->theirs);
    free(r);
}

static void *run_receiver(void *arg)
{
    struct gw_bal_sync *s = arg;
    const int fds[2] = {s->end_fd, s->listen_fd};
    while (!(gw_wait_fds(fds, 2, GW_NEVER) & 1)) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        gw_listen_watch(fd); /* an active one that vanishes closes nothing */
        receive_all(s, fd);
        close(fd);
    }
    return NULL;
}

/* ---- both ---- */

static int begin(struct gw_bal_sync *s)
{
    char host[GW_BAL_ADDR];
    uint16_t port;
    const struct gw_bal_global *g = s->global;
    int error = gw_secret_take_token(NULL, g->sync_key_file, &s->key);
    if (error) return error;
    if (g->listen.family) {
        s->listen_fd = gw_listen_tcp("flows of the active balancer", "sync_listen",
                                     gw_bal_addr_text(&g->listen, host), g->listen_port, &port);
        if (s->listen_fd < 0) return s->listen_fd;
        s->receives = !pthread_create(&s->receiver, NULL, run_receiver, s);
    }
    if (g->standby.family) s->sends = !pthread_create(&s->sender, NULL, run_sender, s);
    return s->sends == !!g->standby.family && s->receives == !!g->listen.family
               ? 0
               : gw_error_errno(-EAGAIN, "thread");
}

int gw_bal_sync_start(struct bal *bal, const struct gw_bal_global *g, struct gw_bal_agent *agent,
                      struct gw_bal_sync **out)
{
    *out = NULL;
    if (!g->standby.family && !g->listen.family) return 0;
    struct gw_bal_sync *s = calloc(1, sizeof(*s));
    if (!s) return gw_error_errno(-ENOMEM, "standby");
    s->bal = bal;
    s->global = g;
    s->agent = agent;
    s->listen_fd = -1;
    s->end_fd = eventfd(0, EFD_CLOEXEC);
    int error = begin(s);
    if (error)
        gw_bal_sync_stop(s);
    else
        *out = s;
    return error;
}

void gw_bal_sync_stop(struct gw_bal_sync *s)
{
    uint64_t one = 1;
    if (!s) return;
    if (write(s->end_fd, &one, sizeof(one)) < 0) { /* an eventfd takes it */
    }
    if (s->sends) pthread_join(s->sender, NULL);
    if (s->receives) pthread_join(s->receiver, NULL);
    if (s->listen_fd >= 0) close(s->listen_fd);
    close(s->end_fd);
    gw_secret_forget(s->key);
    free(s);
}

void gw_bal_sync_counts(const struct gw_bal_sync *s, struct gw_bal_sync_counts *out)
{
    *out = (struct gw_bal_sync_counts){s->sent, s->received, s->unknown, s->lost, s->connected};
}
