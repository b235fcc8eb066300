/* SPDX-License-Identifier: Apache-2.0 */
/* Makes requests of a crowd, in an order without pattern, with what must come back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/error.h>

#include "apps/faceverify/load/load.h"

static uint32_t plan_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void plan_ask(struct face_ask *ask, const char *name, const struct face_view *view)
{
    struct face_request head = {FACE_REQUEST_MAGIC, FACE_WIRE_VERSION, (uint8_t)strlen(name), 0, 0};
    memset(ask, 0, sizeof(*ask));
    memcpy(ask->head, &head, sizeof(head));
    memcpy(ask->head + sizeof(head), name, head.name_len);
    ask->head_bytes = (uint32_t)sizeof(head) + face_name_room(head.name_len);
    ask->pixels = view->pixels;
}

int face_load_plan(const struct face_crowd *crowd, uint32_t unknown, struct face_ask **asks, uint32_t *count)
{
    uint32_t n = crowd->views * 2;
    uint64_t state = 1;
    struct face_ask *ask = aligned_alloc(16, n * sizeof(*ask));
    if (!ask) return gw_error(-ENOMEM, "no memory for %u requests", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct face_view *view = &crowd->view[i / 2];
        uint32_t who = view->person;
        if (i % 2)
            who = (who + 1 + (crowd->persons > 2 ? plan_random(&state) % (crowd->persons - 1) : 0)) %
                  crowd->persons;
        const struct face_person *person = &crowd->person[who];
        if (plan_random(&state) % 1000 < unknown) {
            char name[32];
            snprintf(name, sizeof(name), "stranger-%u", i);
            plan_ask(&ask[i], name, view);
            ask[i].distance = -1;
        } else {
            plan_ask(&ask[i], person->name, view);
            ask[i].distance = face_compare(&person->histogram, &view->histogram);
        }
    }
    for (uint32_t i = n - 1; i; i--) {
        uint32_t k = plan_random(&state) % (i + 1);
        struct face_ask swap = ask[i];
        ask[i] = ask[k];
        ask[k] = swap;
    }
    *asks = ask;
    *count = n;
    return 0;
}
