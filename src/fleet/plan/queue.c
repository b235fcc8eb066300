/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: requests that wait, by deadline, and the batches that can be made of them. */
#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/queue.h"

void fleet_queue_add(struct fleet_queue *q, struct fleet_link *links, uint32_t request)
{
    int64_t deadline = links[request].deadline_ns;
    links[request].next = FLEET_NONE;
    if (!q->n++) {
        q->head = q->tail = request;
        return;
    }
    if (deadline >= links[q->tail].deadline_ns) {
        links[q->tail].next = request;
        q->tail = request;
        return;
    }
    uint32_t *at = &q->head;
    while (links[*at].deadline_ns <= deadline) at = &links[*at].next;
    links[request].next = *at;
    *at = request;
}

uint32_t fleet_queue_take(struct fleet_queue *q, const struct fleet_link *links)
{
    GW_ASSERT(q->n > 0);
    uint32_t request = q->head;
    q->head = links[request].next;
    if (!--q->n) q->tail = FLEET_NONE;
    return request;
}

uint32_t fleet_queue_batch(const struct fleet_queue *q, const struct fleet_link *links,
                           const struct fleet_model *m, int64_t start_ns, uint32_t most)
{
    if (!q->n) return 0;
    int64_t left = links[q->head].deadline_ns - start_ns;
    uint32_t n = q->n < most ? q->n : most;
    while (n && fleet_exec(m, n) > left) n--;
    return n;
}

bool fleet_queue_give_up(const struct fleet_queue *q, const struct fleet_link *links,
                         const struct fleet_model *m, int64_t start_ns, uint32_t most)
{
    if (!q->n) return false;
    uint32_t n = fleet_queue_batch(q, links, m, start_ns, most);
    if (!n) return true;
    if (n == most || n >= q->n) return false;
    uint32_t best = fleet_batch_for(m, links[q->tail].deadline_ns - start_ns);
    return n < (best < most ? best : most) && q->n > best;
}
