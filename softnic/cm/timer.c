/* SPDX-License-Identifier: Apache-2.0 */
/* What is due: a message again, the end of patience, the end of timewait. */
#include <errno.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

static void cm_timer_give_up(struct cm_id *id)
{
    switch (id->state) {
    case CM_DREQ_SENT:
        cm_tell(id, CM_EVENT_DISCONNECTED, -ETIMEDOUT);
        cm_timewait(id);
        return;
    case CM_REP_SENT: cm_send_rej(id, ROCE_ABOUT_OTHER, ROCE_REJ_TIMEOUT, NULL, 0); break;
    default: break;
    }
    id->state = CM_ENDED;
    cm_tell(id, CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static bool cm_timer_patience_ends(const struct cm_id *id)
{
    if (id->tries < CM_RETRIES) return false;
    return id->tries >= CM_RETRIES_ASKED || id->cm->env.now(id->cm->env.ctx) >= id->patience;
}

static void say_again_later(struct cm_id *id)
{
    id->tries++;
    cm_say_again(id);
    if (id->cm->leaving)
        id->wait = CM_REPEAT_MIN_NS;
    else
        id->wait = id->wait * 2 < CM_REPEAT_MAX_NS ? id->wait * 2 : CM_REPEAT_MAX_NS;
    cm_deadline(id, id->wait);
}

static void cm_timer_due(struct cm_id *id)
{
    id->deadline = SN_NEVER;
    if (id->kept) {
        cm_id_free(id);
        return;
    }
    if (id->state == CM_TIMEWAIT) {
        id->state = CM_ENDED;
        cm_tell(id, CM_EVENT_TIMEWAIT_EXIT, 0);
    } else if (cm_timer_patience_ends(id)) {
        cm_timer_give_up(id);
    } else {
        say_again_later(id);
    }
    /* Without a program there is nothing that timewait protects. */
    if (!id->file && (id->state == CM_ENDED || id->state == CM_TIMEWAIT)) cm_id_free(id);
}

uint64_t cm_tick(struct cm *cm)
{
    uint64_t now = cm->env.now(cm->env.ctx);

    GW_ASSERT_HELD(&cm->lock);
    if (now < cm->next) return cm->next;
    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i] && cm->ids[i]->deadline <= now) cm_timer_due(cm->ids[i]);
    cm->next = SN_NEVER;
    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i] && cm->ids[i]->deadline < cm->next) cm->next = cm->ids[i]->deadline;
    GW_CHECK(cm_check(cm));
    return cm->next;
}
