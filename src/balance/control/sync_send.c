/* SPDX-License-Identifier: Apache-2.0 */
/* The active balancer's half: tells the standby of flows, and sees whether it answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/balance/control/json.h"
#include "src/balance/control/agent.h"
#include "src/balance/control/sync_impl.h"
#include "src/balance/control/translate.h"

#define PUSH_NS  (50 * MS)
#define AGAIN_NS (500 * MS)
#define BATCH    1024u

struct sending {
    struct gw_bal_sync *s;
    struct gw_bal_tls tls;
    uint64_t number, version; /* of the frame and of the table that went last */
    uint64_t sent_ns, heard_ns;
    json_t *table;
};

/* ---- answers ---- */

/* An answer's number only grows, and names a frame that was sent. */
static int sync_send_take_answer(struct sending *o)
{
    struct gw_bal_sync_frame f;
    int err = gw_bal_tls_read(&o->tls, &f, sizeof(f), GW_BAL_SYNC_PATIENCE);
    if (err) return err;
    if (f.magic != GW_BAL_SYNC_MAGIC || f.kind != GW_BAL_SYNC_ANSWER || f.bytes || !f.number ||
        f.number > o->number)
        return -EPROTO;
    o->s->heard_ns = o->heard_ns = gw_deadline(0);
    return 0;
}

static void sync_said(struct gw_bal_sync *s, uint32_t standby, const char *why)
{
    char text[GW_BAL_ADDR];
    fprintf(stderr, "gpuwire balance: standby %s port %u: %s\n", gw_bal_addr_text(&s->global->standby, text),
            s->global->standby_port, why);
    s->standby = standby;
}

static int sync_send_take_answers(struct sending *o)
{
    int err = 0;
    while (!err && gw_bal_tls_ready(&o->tls)) {
        err = sync_send_take_answer(o);
        if (!err && !o->s->standby) sync_said(o->s, 1, "it is connected, and answers");
    }
    if (err) return err;
    return gw_deadline(0) - o->heard_ns > GW_BAL_SYNC_PATIENCE ? -ETIMEDOUT : 0;
}

/* ---- frames ---- */

static int send_frame(struct sending *o, uint32_t kind, const void *data, size_t bytes)
{
    struct gw_bal_sync_frame f = {GW_BAL_SYNC_MAGIC, kind, (uint32_t)bytes, sizeof(struct bal_record),
                                  ++o->number};
    o->sent_ns = gw_deadline(0);
    int err = gw_bal_tls_write(&o->tls, &f, sizeof(f), GW_BAL_SYNC_PATIENCE);
    if (!err) err = gw_bal_tls_write(&o->tls, data, bytes, GW_BAL_SYNC_PATIENCE);
    return err ? err : sync_send_take_answers(o);
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
    int err = text ? send_frame(o, GW_BAL_SYNC_TABLE, text, strlen(text)) : -ENOMEM;
    free(text);
    return err;
}

static int send_flows(struct sending *o)
{
    struct bal_record batch[BATCH];
    struct bal_attr attr;
    gw_bal_translate_attr(o->s->global, &attr);
    for (uint32_t core = 0; core < attr.cores; core++) {
        size_t n;
        while ((n = bal_feed_take(o->s->bal, core, batch, BATCH))) {
            int err = send_frame(o, GW_BAL_SYNC_FLOWS, batch, n * sizeof(batch[0]));
            if (err) return err;
            o->s->sent += n;
        }
    }
    return 0;
}

/* A standby that is connected and says nothing must be noticed, so it is asked even when nothing happens. */
static int ask_standby(struct sending *o)
{
    if (o->number && gw_deadline(0) - o->sent_ns < GW_BAL_SYNC_BEAT) return sync_send_take_answers(o);
    return send_frame(o, GW_BAL_SYNC_ASK, NULL, 0);
}

/* ---- the connection ---- */

static int connect_standby(const struct gw_bal_global *g)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(g->standby_port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(g->standby_port)};
    bool is_six = g->standby.family == 6;
    int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&four.sin_addr, g->standby.bytes, 4);
    memcpy(&six.sin6_addr, g->standby.bytes, 16);
    if (fd < 0) return -errno;
    /* The kernel's patience with a standby that is off is minutes; this thread must be able to end. */
    struct timeval patience = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (!connect(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
                 is_six ? sizeof(six) : sizeof(four)))
        return fd;
    int err = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    close(fd);
    return err;
}

/* Until the connection fails, and why. */
static int sync_send_all(struct sending *o)
{
    int err = 0;
    o->heard_ns = gw_deadline(0);
    bal_feed(o->s->bal, true);
    do {
        err = send_table(o);
        if (!err) err = send_flows(o);
        if (!err) err = ask_standby(o);
    } while (!err && !gw_bal_sync_ended(o->s, PUSH_NS));
    bal_feed(o->s->bal, false);
    return err;
}

static int speak(struct gw_bal_sync *s)
{
    struct sending o = {.s = s};
    int fd = connect_standby(s->global);
    int err = fd < 0 ? fd : gw_bal_tls_open(&s->key, fd, s->end_fd, 0, &o.tls);
    if (err) return err;
    err = gw_bal_tls_shake(&o.tls, gw_deadline(GW_BAL_SYNC_PATIENCE));
    if (!err) err = sync_send_all(&o);
    gw_bal_tls_close(&o.tls);
    return err;
}

static const char *why_ended(int err)
{
    switch (err) {
    case -EACCES: return "it does not prove the key; sync_key_file must be the same at both";
    case -EPROTO: return "it runs another version of gpuwire";
    case -ETIMEDOUT: return "it does not answer; it learns of no connection until it does";
    case -ECONNRESET: return "it closed the connection; is its sync_key_file the same?";
    default: return strerror(-err);
    }
}

void *gw_bal_sync_send(void *arg)
{
    struct gw_bal_sync *s = arg;
    int said = 0; /* the reason that was printed last */
    do {
        int err = speak(s);
        if (err == -ECANCELED || !err) continue;
        if (s->standby || err != said) sync_said(s, 0, why_ended(err));
        said = err;
    } while (!gw_bal_sync_ended(s, AGAIN_NS));
    s->standby = 0;
    return NULL;
}
