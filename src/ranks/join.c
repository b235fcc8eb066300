/* SPDX-License-Identifier: Apache-2.0 */
/* gw_ranks_join and gw_ranks_leave: how a process meets rank 0, and parts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/ranks.h>

#include "src/ranks/client.h"
#include "src/ranks/settings.h"

#define AGAIN_NS 50000000L /* between two rounds of attempts */

/* A secret for a program whose launcher carries it. */
static int secret_make(char secret[GW_RANKS_SECRET])
{
    uint8_t random[24];

    if (getrandom(random, sizeof(random), 0) != sizeof(random)) return gw_error_errno(-errno, "getrandom");
    for (size_t i = 0; i < sizeof(random); i++) sprintf(secret + 2 * i, "%02x", random[i]);
    return 0;
}

/* Reads "SECRET PORT HOST…", which rank 0 wrote. */
static int shared_parse(const char *text, struct gw_ranks_settings *s)
{
    unsigned port;
    int used = 0;

    if (sscanf(text, "%63s %5u %n", s->secret, &port, &used) != 2 || !used || !port || port > 65535)
        return gw_error(-EPROTO, "PMIx: rank 0 has published something else");
    s->port = (uint16_t)port;
    snprintf(s->hosts, sizeof(s->hosts), "%s", text + used);
    return 0;
}

/* By PMIx: rank and size are the launcher's, and so is the way by which rank 0's address comes. */
static int join_pmix(struct gw_ranks_settings *s, struct gw_ranks_pmix **out, uint64_t deadline_ns)
{
    char text[GW_RANKS_HOSTS + GW_RANKS_SECRET + 8];
    struct gw_ranks_place place;
    bool one_host;
    int err = gw_ranks_pmix_join(&place, out);

    if (err) return err;
    s->rank = place.rank;
    s->size = place.size;
    if (!s->size || s->size > GW_RANKS_MAX) return gw_error(-EINVAL, "%u ranks are too many", s->size);
    if (s->size == 1) return 0;
    one_host = place.local_size == place.size;
    if (!s->rank) {
        err = secret_make(s->secret);
        if (err) return err;
        s->listener = gw_ranks_listen(one_host ? "127.0.0.1" : NULL, 0, &s->port);
        if (s->listener < 0) return s->listener;
        if (one_host)
            strcpy(s->hosts, "127.0.0.1");
        else
            gw_ranks_own(s->hosts);
        snprintf(text, sizeof(text), "%s %u %s", s->secret, s->port, s->hosts);
    }
    err = gw_ranks_pmix_share(*out, text, sizeof(text), deadline_ns);
    if (err || !s->rank) return err;
    return shared_parse(text, s);
}

/* Rank 0: starts the server, and is its first client by a socket pair. */
static int join_first(struct gw_ranks *r, struct gw_ranks_settings *s)
{
    struct gw_ranks_server_attr attr = {.size = s->size, .listener = s->listener, .secret = s->secret};
    uint16_t bound;
    int pair[2], err;

    if (s->size > 1 && s->listener < 0) {
        attr.listener = gw_ranks_listen(s->hosts, s->port, &bound);
        if (attr.listener < 0) return attr.listener;
    }
    s->listener = -1; /* the server's from here on */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        err = -errno;
        if (attr.listener >= 0) close(attr.listener);
        return gw_error_errno(err, "rendezvous: socket");
    }
    r->fd = pair[0];
    attr.own = pair[1];
    return gw_ranks_server_start(&attr, &r->server);
}

/* Others: dial until rank 0 answers. */
static int join_other(struct gw_ranks *r, const struct gw_ranks_settings *s, uint64_t deadline_ns)
{
    const struct timespec again = {.tv_nsec = AGAIN_NS};
    int err = -EAGAIN, why = -ETIMEDOUT;

    while (err == -EAGAIN) {
        r->fd = gw_ranks_dial(s->hosts, s->port, deadline_ns);
        if (r->fd >= 0) {
            gw_ranks_tune(r->fd);
            why = -ETIMEDOUT;
            err = gw_ranks_client_hello(r, s->secret, deadline_ns);
            if (!err) return 0;
            close(r->fd);
            r->fd = -1;
        } else {
            why = r->fd;
        }
        if (err == -EAGAIN && gw_ranks_now() >= deadline_ns) {
            if (why == -ENOENT) return gw_error(why, "rendezvous: no host %s", s->hosts);
            return gw_error(-ETIMEDOUT, "rank 0 at %s port %u does not answer: %s", s->hosts, s->port,
                            strerror(-why));
        }
        if (err == -EAGAIN) nanosleep(&again, NULL);
    }
    return err;
}

static int join_connect(struct gw_ranks *r, struct gw_ranks_settings *s, uint64_t deadline_ns)
{
    int err = s->rank ? join_other(r, s, deadline_ns) : join_first(r, s);

    if (!err && !s->rank) err = gw_ranks_client_hello(r, s->secret, deadline_ns);
    if (err == -EAGAIN) err = gw_error(-ETIMEDOUT, "rendezvous: the deadline has passed");
    if (!err) err = gw_ranks_client_start(r, deadline_ns);
    return err;
}

int gw_ranks_join(const struct gw_ranks_attr *attr, uint64_t deadline_ns, struct gw_ranks **out)
{
    struct gw_ranks_settings s;
    struct gw_ranks_pmix *pmix = NULL;
    struct gw_ranks *r = NULL;
    int err = gw_ranks_settings(attr, &s);

    if (!err && s.how == GW_RANKS_PMIX) err = join_pmix(&s, &pmix, deadline_ns);
    if (!err && !(r = gw_ranks_client_new(s.rank, s.size))) err = gw_error(-ENOMEM, "ranks: no memory");
    if (!err) {
        r->how = s.how;
        r->pmix = pmix;
        err = join_connect(r, &s, deadline_ns);
    }
    if (s.listener >= 0) close(s.listener);
    if (!err) {
        *out = r;
        return 0;
    }
    if (r) {
        struct gw_ranks_server *server = r->server;

        gw_ranks_client_free(r, 0);
        gw_ranks_server_stop(server, 0);
    }
    gw_ranks_pmix_leave(pmix);
    return err;
}

int gw_ranks_leave(struct gw_ranks *ranks, uint64_t deadline_ns)
{
    static const struct gw_ranks_head leave = {.magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_LEAVE};
    struct gw_ranks_server *server;
    struct gw_ranks_pmix *pmix;
    int err;

    if (!ranks) return 0;
    server = ranks->server;
    pmix = ranks->pmix;
    pthread_mutex_lock(&ranks->lock);
    ranks->leaving = true;
    pthread_mutex_unlock(&ranks->lock);
    gw_ranks_client_send(ranks, &leave, NULL,
                         deadline_ns); /* where it fails, the connection is gone already */
    gw_ranks_client_free(ranks, deadline_ns);
    err = gw_ranks_server_stop(server, deadline_ns);
    gw_ranks_pmix_leave(pmix);
    return err ? gw_error(err, "some ranks had not left yet, and see rank 0 die now") : 0;
}
