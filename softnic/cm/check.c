/* SPDX-License-Identifier: Apache-2.0 */
/* Looks whether connection management's tables agree with each other, in builds that check assertions. */
#ifdef GW_ASSERTS
#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

static void id_check(const struct cm *cm, const struct cm_id *id)
{
    GW_ASSERT(id->cm == cm && cm->ids[id->handle - 1] == id);
    GW_ASSERT(!id->local_id || cm->conns[id->local_id & (CM_MAX_IDS - 1)] == id);
    GW_ASSERT(!id->listener || cm->ids[id->listener->handle - 1] == id->listener);
    GW_ASSERT(!id->kept || !id->file); /* for the sake of its last word alone */
    GW_ASSERT(id->deadline >= cm->next);
}

void cm_check(const struct cm *cm)
{
    uint32_t kept = 0, with_port = 0, users = 0;

    GW_ASSERT_HELD(&cm->lock);
    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *id = cm->ids[i];

        if (!id) continue;
        GW_ASSERT(id->handle == i + 1);
        id_check(cm, id);
        kept += id->kept;
        with_port += id->port != NULL;
    }
    for (const struct sn_link *it = cm->ports.next; it != &cm->ports; it = it->next)
        users += sn_entry(it, const struct cm_port, link)->users;
    GW_ASSERT(kept == cm->kept && with_port == users);
    GW_ASSERT(!cm->high || cm->ids[cm->high - 1]);
}
#endif
