/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a user's password into the token that etcd wants to see with each call. */
#include "src/fleet/etcd/login.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "etcd.pb-c.h"
#include "src/fleet/etcd/calls.h"
#include "src/fleet/etcd/health.h"

#define AGAIN_NS 2000000000u /* after a refusal: the user may be made while we run */

/* The token becomes the value of a key without a name. */
static bool login_read(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                       struct fleet_etcd_answer *a)
{
    const Etcd__AuthenticateResponse *r =
        etcd__authenticate_response__unpack(&arena->allocator, bytes, message);
    if (!r || !*r->token || strlen(r->token) >= FLEET_ETCD_MAX_TOKEN) return false;
    for (const char *c = r->token; *c; c++)
        if (*c <= ' ' || *c > '~') return false;
    struct fleet_etcd_kv *kv = gw_grpc_arena_take(arena, sizeof(*kv));
    struct fleet_etcd_result *result = gw_grpc_arena_take(arena, sizeof(*result));
    if (!kv || !result) return false;
    *kv = (struct fleet_etcd_kv){.value = fleet_etcd_text(r->token)};
    *result = (struct fleet_etcd_result){.kv = kv, .kvs = 1};
    a->result = result;
    a->results = 1;
    return true;
}

static void login_done(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_etcd *e = ctx;
    e->login = NULL;
    fleet_etcd_kick(e);
    if (!err) {
        const struct fleet_etcd_bytes *token = &a->result->kv->value;
        e->token = strndup(token->data, token->bytes);
        return;
    }
    snprintf(e->why, sizeof(e->why), "%s", gw_last_error());
    if (err == -EACCES) e->pause = gw_deadline(AGAIN_NS);
}

int fleet_etcd_login(struct fleet_etcd *e)
{
    if (!e->user || e->token) return 0;
    if (e->login || gw_deadline(0) < e->pause) return -EAGAIN;
    Etcd__AuthenticateRequest q = ETCD__AUTHENTICATE_REQUEST__INIT;
    q.name = e->user;
    q.password = e->password;
    const struct fleet_etcd_ask ask = {"/etcdserverpb.Auth/Authenticate", login_read, &q.base};
    const struct fleet_etcd_how how = {.done = login_done, .ctx = e};
    if (fleet_etcd_ask(e, &ask, &how, &e->login)) return -EAGAIN;
    /* Before all that waits for it. */
    TAILQ_REMOVE(&e->waiting, e->login, entry);
    TAILQ_INSERT_HEAD(&e->waiting, e->login, entry);
    return -EAGAIN;
}
