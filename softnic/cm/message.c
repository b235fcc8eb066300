/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a connection: made, sent, and sent again as long as the answer is missing. */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

uint64_t cm_time_ns(uint32_t exponent)
{
    return UINT64_C(4096) << (exponent & 31);
}

void cm_deadline(struct cm_id *id, uint64_t in_ns)
{
    struct cm *cm = id->cm;

    GW_ASSERT_HELD(&cm->lock);
    id->deadline = in_ns == SN_NEVER ? SN_NEVER : cm->env.now(cm->env.ctx) + in_ns;
    if (id->deadline >= cm->next) return;
    cm->next = id->deadline;
    cm->env.wake(cm->env.ctx);
}

static void send_to(struct cm *cm, const struct cm_nic *nic, const uint8_t *to, const struct roce_cm *m)
{
    uint8_t mad[ROCE_MAD_LEN];

    GW_ASSERT_HELD(&cm->lock);
    if (roce_cm_build(mad, m) == 0) cm->env.send(cm->env.ctx, nic, to, mad);
}

static void cm_message_address(const struct cm_id *id, struct roce_cm *m)
{
    m->tid = m->attr == ROCE_CM_DREQ || m->attr == ROCE_CM_DREP ? id->end_tid : id->tid;
    m->local_id = id->local_id;
    m->remote_id = id->remote_id;
}

void cm_say_again(struct cm_id *id)
{
    if (id->has_mad) id->cm->env.send(id->cm->env.ctx, id->nic, id->peer, id->mad);
}

void cm_say(struct cm_id *id, struct roce_cm *m)
{
    GW_ASSERT_HELD(&id->cm->lock);
    cm_message_address(id, m);
    id->has_mad = roce_cm_build(id->mad, m) == 0;
    cm_deadline(id, SN_NEVER);
    cm_say_again(id);
}

void cm_ask(struct cm_id *id, struct roce_cm *m)
{
    cm_say(id, m);
    id->tries = 0;
    id->patience = 0;
    id->wait = CM_REPEAT_MIN_NS;
    cm_deadline(id, id->wait);
}

void cm_send_mra(struct cm_id *id, enum roce_cm_about about)
{
    struct roce_cm m = {.attr = ROCE_CM_MRA, .about = about, .service_timeout = CM_SERVICE_TIME};

    cm_message_address(id, &m);
    send_to(id->cm, id->nic, id->peer, &m);
}

void cm_send_rej(struct cm_id *id, enum roce_cm_about about, uint32_t reason, const void *data, uint32_t len)
{
    struct roce_cm m = {.attr = ROCE_CM_REJ, .about = about, .reason = reason, .private_len = len};

    if (len) memcpy(m.private_data, data, len);
    id->last_word = true;
    cm_say(id, &m);
}

void cm_send_dreq(struct cm_id *id)
{
    struct roce_cm m = {.attr = ROCE_CM_DREQ, .qpn = id->remote_qpn};

    cm_ask(id, &m);
    id->state = CM_DREQ_SENT;
}

void cm_send_drep(struct cm_id *id)
{
    struct roce_cm m = {.attr = ROCE_CM_DREP};

    cm_say(id, &m);
    cm_timewait(id);
}

/* Until packets of the connection that are still on their way are gone. The peer has said how long that
 * may take, and might say hours. */
void cm_timewait(struct cm_id *id)
{
    id->state = CM_TIMEWAIT;
    cm_deadline(id, cm_time_ns(id->ack_timeout < CM_SERVICE_TIME ? id->ack_timeout : CM_SERVICE_TIME));
}

void cm_refuse(struct cm *cm, const struct cm_nic *nic, const uint8_t *to, const struct roce_cm *m,
               uint32_t reason)
{
    struct roce_cm r = {.attr = ROCE_CM_REJ, .tid = m->tid, .reason = reason};

    r.about = m->attr == ROCE_CM_REQ   ? ROCE_ABOUT_REQ
              : m->attr == ROCE_CM_REP ? ROCE_ABOUT_REP
                                       : ROCE_ABOUT_OTHER;
    r.local_id = m->remote_id;
    r.remote_id = m->local_id;
    send_to(cm, nic, to, &r);
}
