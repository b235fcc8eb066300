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
#include "src/balance/control/sync_impl.h"
#include "src/balance/control/translate.h"
#include "src/balance/control/wire.h"
#include "src/serve/listen.h"
#include "src/serve/secret.h"

#define PUSH_NS  (50 * MS)
#define AGAIN_NS (500 * MS)
#define BATCH    1024u

/* ---- sending ---- */

struct sending {
    struct gw_bal_sync *s;
    int fd;
    uint64_t number, version; /* of the table that went last */
    json_t *table;
};

static int send_frame(struct sending *o, uint32_t kind, const void *data, size_t bytes)
{
    struct gw_bal_sync_frame f = {GW_BAL_SYNC_MAGIC, kind, (uint32_t)bytes, sizeof(struct bal_record),
                                  ++o->number};
    int error = gw_bal_write_all(o->fd, &f, sizeof(f), gw_deadline(GW_BAL_SYNC_PATIENCE));
    return error ? error : gw_bal_write_all(o->fd, data, bytes, gw_deadline(GW_BAL_SYNC_PATIENCE));
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
    int error = text ? send_frame(o, GW_BAL_SYNC_TABLE, text, strlen(text)) : -ENOMEM;
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
            int error = send_frame(o, GW_BAL_SYNC_FLOWS, batch, n * sizeof(batch[0]));
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
    int error = send_frame(&o, GW_BAL_SYNC_HELLO, s->key, strlen(s->key));
    bal_feed(s->bal, true);
    s->connected = 1;
    do {
        if (!error) error = send_table(&o);
        if (!error) error = send_flows(&o);
    } while (!error && !gw_bal_sync_ended(s, PUSH_NS));
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
    } while (!gw_bal_sync_ended(s, AGAIN_NS));
    return NULL;
}

/* ---- receiving: sync_receive.c ---- */

static void *run_receiver(void *arg)
{
    struct gw_bal_sync *s = arg;
    const int fds[2] = {s->end_fd, s->listen_fd};
    while (!(gw_wait_fds(fds, 2, GW_NEVER) & 1)) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) continue;
        gw_listen_watch(fd); /* an active one that vanishes closes nothing */
        gw_bal_sync_receive(s, fd);
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
