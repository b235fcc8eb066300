/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a message came from, and whether it may say what it says. Another host is known by its address alone,
 * which anybody on the way can forge. So a message has to name what only the two ends know: both
 * communication IDs and the transaction. From this host there is the sender's slot besides, for which the
 * kernel vouches. It is also in the communication IDs and queue pair numbers of the process that has the
 * slot.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

enum { ID_SLOT_SHIFT = 24, QPN_SLOT_SHIFT = 16, STRAYS = 256 };
#define STRAYS_NS    UINT64_C(1000000000)
#define SAY_AGAIN_NS UINT64_C(10000000000)

static const char *cm_origin_name_of(uint16_t attr)
{
    static const char *const names[] = {"REQ",  "MRA",  "REJ",      "REP",     "RTU",
                                        "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"};

    return attr >= ROCE_CM_REQ && attr <= ROCE_CM_SIDR_REP ? names[attr - ROCE_CM_REQ] : "?";
}

/* One line, at most every ten seconds: strangers can send as much as they like. */
static void cm_origin_say(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m,
                          const char *why)
{
    uint64_t now = cm->env.now(cm->env.ctx);
    char line[320], gid[INET6_ADDRSTRLEN], slot[32] = "";

    if (cm->said_at && now < cm->said_at + SAY_AGAIN_NS) return;
    cm->said_at = now;
    inet_ntop(AF_INET6, from->gid, gid, sizeof(gid));
    if (cm_is_same_host(from)) snprintf(slot, sizeof(slot), ", slot %d", from->slot);
    snprintf(line, sizeof(line), "rdma_cm refused a %s from %s%s: %s (%llu such messages so far)",
             cm_origin_name_of(m->attr), gid, slot, why, (unsigned long long)cm->suspects);
    cm->env.warn(cm->env.ctx, line);
}

void cm_suspect(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m, const char *why)
{
    GW_ASSERT_HELD(&cm->lock);
    cm->suspects++;
    cm_origin_say(cm, from, m, why);
}

/* One of them may have been late. Many at a time are guesses. */
void cm_suspect_stray(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m)
{
    uint64_t now = cm->env.now(cm->env.ctx);

    if (now - cm->strays_since > STRAYS_NS) {
        cm->strays_since = now;
        cm->strays = 0;
    }
    if (++cm->strays < STRAYS) return;
    cm->suspects++;
    cm_origin_say(cm, from, m, "like many others in this second it is about no connection of this process");
}

static bool of_slot(const struct cm_origin *from, uint32_t number, unsigned shift)
{
    return !cm_is_same_host(from) || number >> shift == (uint32_t)from->slot;
}

bool cm_request_is_its_own(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m)
{
    const char *wrong = NULL;

    if (!m->local_id)
        wrong = "it names no communication ID";
    else if (!cm_is_same_host(from) && cm_nic_at(cm, from->gid))
        wrong = "it has this host's address, and no process of this host sent it";
    else if (!of_slot(from, m->local_id, ID_SLOT_SHIFT))
        wrong = "its communication ID is another process's";
    else if (m->attr == ROCE_CM_REQ && !of_slot(from, m->qpn, QPN_SLOT_SHIFT))
        wrong = "its queue pair is another process's";
    if (wrong) cm_suspect(cm, from, m, wrong);
    return !wrong;
}

static const char *wrong_place(const struct cm_id *id, const struct cm_origin *from, const struct roce_cm *m)
{
    if (memcmp(id->peer, from->gid, 16)) return "it comes from another address than the connection's peer";
    if (from->slot == CM_FROM_SELF) return NULL;
    if (id->remote_id && id->same_host != cm_is_same_host(from))
        return "it comes from another host than the connection's peer";
    if (m->local_id && !of_slot(from, m->local_id, ID_SLOT_SHIFT))
        return "it comes from another process than the connection's peer";
    if (m->attr == ROCE_CM_REP && !of_slot(from, m->qpn, QPN_SLOT_SHIFT))
        return "its queue pair is another process's";
    return NULL;
}

/* The first answer tells the peer's ID. A peer that has never made one rejects with none. */
static bool names_the_peer(const struct cm_id *id, const struct roce_cm *m)
{
    bool first = id->state == CM_REQ_SENT &&
                 (m->attr == ROCE_CM_REP || m->attr == ROCE_CM_MRA || m->attr == ROCE_CM_REJ);

    if (!m->local_id) return first && m->attr == ROCE_CM_REJ;
    return id->remote_id ? id->remote_id == m->local_id : first;
}

const char *cm_not_its_peers(const struct cm_id *id, const struct cm_origin *from, const struct roce_cm *m)
{
    const char *wrong = wrong_place(id, from, m);

    if (wrong) return wrong;
    if (!names_the_peer(id, m)) return "it does not name the peer's communication ID";
    if (m->attr == ROCE_CM_DREQ) return m->qpn == id->qpn ? NULL : "it names another queue pair";
    /* Both ends may begin to end it at once. Each answers the other, and the later answer changes nothing. */
    if (m->attr == ROCE_CM_DREP && id->state != CM_DREQ_SENT) return NULL;
    if (m->tid != (m->attr == ROCE_CM_DREP ? id->end_tid : id->tid)) return "it names another transaction";
    return NULL;
}

static bool half_open(const struct cm_id *id)
{
    return !id->active && (id->state == CM_REQ_RCVD || id->state == CM_REP_SENT || id->state == CM_SIDR_RCVD);
}

/* Requests can be made up, and each holds an id for most of a minute: so that others find some left. */
bool cm_too_many(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m)
{
    uint32_t address = 0, process = 0;

    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *id = cm->ids[i];

        if (!id || !half_open(id) || memcmp(id->peer, from->gid, 16)) continue;
        address++;
        process +=
            cm_is_same_host(from) && id->same_host && id->remote_id >> ID_SLOT_SHIFT == (uint32_t)from->slot;
    }
    if (address < CM_MAX_HALF_OPEN && process < CM_MAX_HALF_OPEN / 4) return false;
    cm_suspect(cm, from, m, "it does not bring to an end what it began before");
    return true;
}
