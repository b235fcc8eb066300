/* SPDX-License-Identifier: Apache-2.0 */
/* The names of why a packet was dropped. */
#include "src/balance/drop.h"

const char *bal_drop_name(enum bal_drop why)
{
    static const char *const name[BAL_DROPS] = {
        [BAL_DROP_BAD] = "bad",
        [BAL_DROP_OTHER_HOST] = "other_host",
        [BAL_DROP_NOT_OURS] = "not_ours",
        [BAL_DROP_NO_WORKER] = "no_worker",
        [BAL_DROP_NO_NEIGHBOUR] = "no_neighbour",
        [BAL_DROP_TOO_BIG] = "too_big",
        [BAL_DROP_TTL] = "ttl",
        [BAL_DROP_INVALID] = "invalid",
        [BAL_DROP_QP] = "queue_pair",
        [BAL_DROP_FRAGMENT] = "fragment",
        [BAL_DROP_NO_ROOM] = "no_room",
    };
    return why < BAL_DROPS ? name[why] : "unknown";
}
