/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of the scheduler's tests ask, and hear. */
#include "tests/generate/device/clients.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct asked *asked;
    uint32_t sessions, slots, ring;
} all;

void clients_begin(uint32_t sessions, uint32_t slots, uint32_t ring)
{
    all.asked = calloc(sessions * slots, sizeof(*all.asked));
    all.sessions = sessions;
    all.slots = slots;
    all.ring = ring;
}

void clients_end(void)
{
    free(all.asked);
}

struct asked *client_of(uint32_t session, uint32_t slot)
{
    return &all.asked[session * all.slots + slot];
}

struct asked *client_ask_more(uint32_t session, uint32_t slot, struct gen_request q, const uint32_t *prompt,
                              const uint32_t *stop, const struct gen_top *bias)
{
    struct asked *a = client_of(session, slot);
    require(!a->live);
    memset(a, 0, sizeof(*a));
    a->live = world_ask(session, slot, &q, prompt, stop, bias);
    a->warm = q.temperature > 0 || q.biases;
    a->id = q.id;
    a->prompt = q.prompt;
    a->max = q.max_tokens;
    memcpy(a->token, prompt, (q.prompt < CLIENT_CONTEXT ? q.prompt : CLIENT_CONTEXT) * sizeof(*prompt));
    return a;
}

struct asked *client_ask(uint32_t session, uint32_t slot, struct gen_request q, const uint32_t *prompt)
{
    return client_ask_more(session, slot, q, prompt, NULL, NULL);
}

void client_gone(uint32_t session)
{
    for (uint32_t i = 0; i < all.slots; i++) client_of(session, i)->live = false;
}

static void hear(struct asked *a, const struct gen_event *e)
{
    require(a->live && e->id == a->id && e->number == a->events++);
    require(e->posted > a->posted && e->arrived < e->posted);
    if (!a->first) a->first = e->posted;
    a->posted = e->posted;
    a->status = e->status;
    a->detail = e->detail;
    a->cached = e->cached;
    a->live = e->status == GEN_GOING;
    if (e->status > GEN_LENGTH) {
        require(e->token == GEN_NO_TOKEN);
        return;
    }
    require(a->warm || e->token == world_next(a->token, a->prompt + a->made));
    a->token[a->prompt + a->made++] = e->token;
    require(a->made <= a->max && (a->made < a->max || e->status != GEN_GOING));
}

void clients_hear(void)
{
    const struct gen_event *ring;
    uint32_t slot;
    for (uint32_t s = 0; s < all.sessions; s++)
        while (world_event(s, &slot, &ring)) {
            struct asked *a = client_of(s, slot);
            hear(a, &ring[a->events % all.ring]);
        }
}

uint32_t clients_finish(uint32_t most)
{
    uint32_t live = 1;
    for (uint32_t i = 0; i <= most && live; i++) {
        world_turn();
        clients_hear();
        live = 0;
        for (uint32_t k = 0; k < all.sessions * all.slots; k++) live += all.asked[k].live;
    }
    return live;
}
