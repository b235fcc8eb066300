/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues as a driver has them: polled, armed, and their events held against what was armed for. */
#include <string.h>

#include "tests/sim/rig.h"

bool rig_cq_open(struct rig_cq *cq, struct rig_node *node, const struct rig_cq_params *p, uint8_t *buf)
{
    struct sn_cq_init init = {.buf = buf,
                              .cqe_count = p->count,
                              .cqe_size = p->size,
                              .dbrec = cq->dbrec,
                              .uar = node->uar[p->uar],
                              .ignore_overrun = p->ignore_overrun,
                              .user = cq};

    memset(cq, 0, sizeof(*cq));
    cq->node = node;
    cq->buf = buf;
    cq->count = p->count;
    cq->size = p->size;
    cq->ignore_overrun = p->ignore_overrun;
    cq->page = sn_uar_page(node->uar[p->uar]);
    memset(buf, 0, (size_t)p->count * p->size);
    for (uint32_t i = 0; i < p->count; i++) buf[(size_t)(i + 1) * p->size - 1] = 0xf0;
    if (sn_cq_create(node->nic, &init, &cq->cq)) {
        rig_fail(node->rig, "a completion queue of %u entries of %u bytes could not be made", p->count,
                 p->size);
        return false;
    }
    cq->number = sn_cq_number(cq->cq);
    return true;
}

void rig_cq_close(struct rig_cq *cq)
{
    if (cq->cq && sn_cq_destroy(cq->cq))
        rig_fail(cq->node->rig, "cq 0x%x could not be destroyed", cq->number);
    cq->cq = NULL;
}

static struct gw_mlx5_cqe *cqe_at(const struct rig_cq *cq, uint32_t ci)
{
    return (struct gw_mlx5_cqe *)(cq->buf + (size_t)((ci & (cq->count - 1)) + 1) * cq->size - GW_MLX5_CQE);
}

static bool meets(uint8_t op_own, bool solicited)
{
    return !solicited || op_own & 2 || op_own >> 4 >= GW_MLX5_CQE_REQ_ERR;
}

/* The first completion, from index `from` on, that is not there yet; or the first that an arm waits for. */
static uint32_t find(const struct rig_cq *cq, uint32_t from, bool any, bool solicited, bool *found)
{
    for (*found = false; from - cq->ci < cq->count; from++) {
        uint8_t op = cqe_at(cq, from)->op_own;

        if (!gw_mlx5_cqe_ready(op, from, cq->count)) return from;
        if (any && meets(op, solicited)) {
            *found = true;
            return from;
        }
    }
    return from;
}

bool rig_has_completion(const struct rig_cq *cq, bool solicited)
{
    bool found;

    find(cq, cq->ci, true, solicited, &found);
    return found;
}

/* The first completion that no event has told of and that is not polled. */
static uint32_t news(const struct rig_cq *cq)
{
    return (int32_t)(cq->covered - cq->ci) > 0 ? cq->covered : cq->ci;
}

bool rig_arm_met(const struct rig_cq *cq)
{
    bool found;

    find(cq, news(cq), true, cq->armed_solicited, &found);
    return found || cq->armed_met;
}

/* An event tells of all that is there when it is raised. */
static void cover(struct rig_cq *cq)
{
    bool found;

    cq->covered = find(cq, cq->ci, false, false, &found);
}

void rig_on_cq_event(void *user, void *cq_user)
{
    struct rig_node *node = user;
    struct rig_cq *cq = cq_user;

    rig_note(node->rig, 1, cq->number);
    cq->events++;
    if (!cq->armed)
        rig_fail(node->rig, "cq 0x%x of node %u: an event, but it is not armed", cq->number, node->index);
    else if (!rig_arm_met(cq))
        rig_fail(node->rig, "cq 0x%x of node %u: an event without the completion it was armed for",
                 cq->number, node->index);
    cq->armed = false;
    cover(cq);
    if (cq->on_event) cq->on_event(node->rig->user, cq);
}

bool rig_poll(struct rig_cq *cq, struct gw_mlx5_wc *wc, uint8_t data[64])
{
    struct gw_mlx5_cqe *cqe = cqe_at(cq, cq->ci);

    if (!gw_mlx5_cqe_ready(cqe->op_own, cq->ci, cq->count)) return false;
    if (gw_mlx5_cqe_parse(cqe, wc))
        rig_fail(cq->node->rig, "cq 0x%x: an entry with op_own %02x", cq->number, cqe->op_own);
    if (wc->scatter == GW_MLX5_CQE_SCATTER_32) memcpy(data, cqe, 32);
    if (wc->scatter == GW_MLX5_CQE_SCATTER_64) memcpy(data, (uint8_t *)cqe - 64, 64);
    if (news(cq) == cq->ci && meets(cqe->op_own, cq->armed_solicited)) cq->armed_met = true;
    cq->ci++;
    if (!cq->ignore_overrun) __atomic_store_n(&cq->dbrec[0], gw_mlx5_cq_ci_be(cq->ci), __ATOMIC_RELEASE);
    rig_note(cq->node->rig, cq->number, (uint64_t)wc->qpn << 32 | wc->opcode << 16 | wc->wqe_counter);
    return true;
}

void rig_arm(struct rig_cq *cq, bool solicited)
{
    uint32_t word = gw_mlx5_cq_arm_be(cq->sn, solicited, cq->ci);

    cq->armed = true;
    cq->armed_solicited = solicited;
    cq->armed_met = false;
    __atomic_store_n(&cq->dbrec[1], word, __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)((uint8_t *)cq->page + GW_MLX5_UAR_CQ), gw_mlx5_cq_db_be(word, cq->number),
                     __ATOMIC_RELEASE);
}
