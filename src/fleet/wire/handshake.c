/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO and PROVE in both directions, before a connection is open. The listener proves itself only to a
 * dialler that has. */
#include "src/fleet/wire/handshake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/fleet/wire/proof.h"

void fleet_handshake_begin(struct fleet_conn *c)
{
    const struct fleet_conn_opts *o = &c->side->opts;
    struct fleet_hello *h = &c->ours;
    *h = (struct fleet_hello){.version = FLEET_WIRE_VERSION, .role = o->role};
    memcpy(h->id, o->id, FLEET_ID);
    strcpy(h->fleet, o->fleet);
    strcpy(h->name, o->name);
    int err = fleet_proof_nonce(h->nonce);
    if (!err) err = fleet_link_put(c, FLEET_HELLO, 0, h, sizeof(*h));
    if (err) fleet_link_fail(c, err, "no HELLO can be sent");
}

/* Why this HELLO is refused, or NULL. */
static const char *handshake_fault(const struct fleet_conn *c, const struct fleet_hello *h, int *err)
{
    const struct fleet_conn_opts *o = &c->side->opts;
    static const uint8_t none[sizeof(h->reserved)];
    *err = -EPROTO;
    if (memcmp(h->reserved, none, sizeof(none))) return "its HELLO has bytes set that mean nothing";
    if (!fleet_text_ok(h->fleet, sizeof(h->fleet)) || !fleet_text_ok(h->name, sizeof(h->name)))
        return "its HELLO has a name that is no text";
    if (!memcmp(h->nonce, c->ours.nonce, sizeof(h->nonce))) return "it sends back what we sent";
    *err = -EACCES;
    if (h->role > 31 || !(o->peers >> h->role & 1)) return "no peer of this kind may connect here";
    return strcmp(h->fleet, o->fleet) ? "it belongs to another fleet: both need the same fleet's name" : NULL;
}

static int handshake_make(const struct fleet_conn *c, bool of_dialler, struct fleet_proof *out)
{
    const struct fleet_hello *dialler = c->dialled ? &c->ours : &c->theirs;
    const struct fleet_hello *listener = c->dialled ? &c->theirs : &c->ours;
    return fleet_proof_make(c->side->opts.token, of_dialler, dialler, listener, out);
}

static void handshake_prove(struct fleet_conn *c)
{
    struct fleet_proof p;
    int err = handshake_make(c, c->dialled, &p);
    if (!err) err = fleet_link_put(c, FLEET_PROVE, 0, &p, sizeof(p));
    if (err) fleet_link_fail(c, err, "no proof can be sent");
}

static void handshake_hello(struct fleet_conn *c, const struct fleet_frame *frame, const void *body)
{
    const struct fleet_hello *h = body;
    int err;
    if (frame->bytes >= sizeof(h->version) && h->version != FLEET_WIRE_VERSION) {
        char why[FLEET_WHY];
        snprintf(why, sizeof(why), "it speaks version %u of the protocol, we speak %d", h->version,
                 FLEET_WIRE_VERSION);
        fleet_link_refuse(c, -EPROTONOSUPPORT, why);
        return;
    }
    if (frame->bytes != sizeof(*h)) {
        fleet_link_refuse(c, -EPROTO, "its HELLO has another length");
        return;
    }
    c->theirs = *h;
    const char *fault = handshake_fault(c, h, &err);
    if (fault) {
        fleet_link_refuse(c, err, fault);
        return;
    }
    c->state = FLEET_LINK_PROVES;
    if (c->dialled) handshake_prove(c);
}

/* True: the proof is right. */
static bool handshake_proof(struct fleet_conn *c, const struct fleet_frame *frame, const void *body)
{
    const struct fleet_proof *theirs = body;
    struct fleet_proof right;
    int err = handshake_make(c, !c->dialled, &right);
    if (err)
        fleet_link_fail(c, err, "its proof cannot be checked");
    else if (frame->bytes != sizeof(*theirs))
        fleet_link_refuse(c, -EPROTO, "its proof has another length");
    else if (!fleet_proof_equal(theirs, &right))
        fleet_link_refuse(c, -EACCES,
                          "it does not prove that it has the fleet's token: both need the same token");
    else if (!c->dialled)
        handshake_prove(c);
    return c->state == FLEET_LINK_PROVES;
}

bool fleet_handshake_frame(struct fleet_conn *c, const struct fleet_frame *frame, const void *body)
{
    if (frame->kind == FLEET_PROVE && c->state == FLEET_LINK_PROVES) return handshake_proof(c, frame, body);
    if (frame->kind == FLEET_HELLO && c->state == FLEET_LINK_GREETS)
        handshake_hello(c, frame, body);
    else
        fleet_link_refuse(c, -EPROTO, "it does not begin with HELLO and PROVE");
    return false;
}
