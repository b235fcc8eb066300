/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c: which requests a client sends while the controller sheds. */
#include "src/fleet/client/admit.h"

#include <string.h>

void fleet_admit_set(struct fleet_admit *a, int64_t deadline_ns, uint32_t admitted)
{
    uint32_t i = 0;
    while (i < a->n && a->class[i].deadline_ns < deadline_ns) i++;
    if (i == a->n || a->class[i].deadline_ns != deadline_ns) {
        if (a->n == FLEET_ADMIT_CLASSES) return;
        memmove(&a->class[i + 1], &a -> class[i], (a->n - i) * sizeof a->class[0]);
        a->class[i] = (struct fleet_admit_class){.deadline_ns = deadline_ns};
        a->n++;
    }
    a->class[i].admitted = admitted < FLEET_ADMIT_ALL ? admitted : FLEET_ADMIT_ALL;
}

bool fleet_admit_one(struct fleet_admit *a, int64_t deadline_ns)
{
    uint32_t i = 0;
    while (i < a->n && a->class[i].deadline_ns < deadline_ns) i++;
    if (i == a->n) return true;
    struct fleet_admit_class *c = &a->class[i];
    c->owed += FLEET_ADMIT_ALL - c->admitted;
    if (c->owed < FLEET_ADMIT_ALL) return true;
    c->owed -= FLEET_ADMIT_ALL;
    return false;
}
