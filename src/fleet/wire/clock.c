/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last samples of a peer's clock, and knows which is the best now. */
#include "src/fleet/wire/clock.h"

#include <errno.h>
#include <stdlib.h>

enum { DRIFT = 10000 };           /* two clocks drift apart by one part in this number: 100 ppm */
#define LATEST (INT64_C(1) << 61) /* no clock shows this: sums of two times do not overflow */

void fleet_clock_pong(struct fleet_clock *c, const struct fleet_ping *pong, int64_t now)
{
    if (!c->asked_at || pong->sent_at != c->asked_at) return;
    c->asked_at = 0;
    int64_t out = pong->heard_at, back = pong->answered_at;
    if (out <= 0 || back < out || back > LATEST) return;
    int64_t delay = (now - pong->sent_at) - (back - out);
    if (delay < 0) return;
    int64_t offset = ((out - pong->sent_at) + (back - now)) / 2, best = 0, error = 0;
    /* A clock that jumped: what was measured before counts no more. */
    if (!fleet_clock_read(c, now, &best, &error) && llabs(best - offset) > error + delay / 2 + 1) c->n = 0;
    c->sample[c->n++ % FLEET_CLOCK_SAMPLES] = (struct fleet_clock_sample){offset, delay / 2 + 1, now};
}

int fleet_clock_read(const struct fleet_clock *c, int64_t now, int64_t *offset_ns, int64_t *error_ns)
{
    uint32_t n = c->n < FLEET_CLOCK_SAMPLES ? c->n : FLEET_CLOCK_SAMPLES;
    if (!n) return -EAGAIN;
    *error_ns = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct fleet_clock_sample *s = &c->sample[i];
        int64_t error = s->error_ns + (now - s->at) / DRIFT;
        if (error >= *error_ns) continue;
        *error_ns = error;
        *offset_ns = s->offset_ns;
    }
    return 0;
}
