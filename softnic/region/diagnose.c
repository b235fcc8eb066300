/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In words, why an access was refused: what the key is, or was, and which region is nearest to what was
 * meant. Not on the data path: an error has just ended a connection.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/region/region.h"

enum { MAX_LOOK = 1 << 16 };

static const char *missing_right(uint32_t missing)
{
    if (missing & IBV_ACCESS_LOCAL_WRITE) return "local write";
    if (missing & IBV_ACCESS_REMOTE_WRITE) return "remote write";
    if (missing & IBV_ACCESS_REMOTE_READ) return "remote read";
    if (missing & IBV_ACCESS_REMOTE_ATOMIC) return "remote atomics";
    return "that";
}

/* How far [va, +len) sticks out of a region: before its beginning, or past its end. */
static uint64_t sticks_out(const struct sn_mr *mr, uint64_t va, uint64_t len, bool *before)
{
    uint64_t end = mr->init.iova + mr->init.length, behind = va + len - end;

    *before = va < mr->init.iova;
    if (*before) return mr->init.iova - va;
    if (va + len < va) return len; /* over the end of all addresses */
    return va + len > end ? behind : 0;
}

static void why_region(const struct sn_mr *mr, const struct sn_pd *pd, uint64_t va, uint64_t len,
                       uint32_t access, char why[SN_WHY])
{
    bool before;
    uint64_t out = sticks_out(mr, va, len, &before);

    if (mr->pd != pd) {
        snprintf(why, SN_WHY, "that region is of another protection domain");
    } else if ((mr->init.access & access) != access) {
        snprintf(why, SN_WHY, "that region does not allow %s", missing_right(access & ~mr->init.access));
    } else {
        snprintf(why, SN_WHY, "%llu bytes %s that region, [0x%llx, +%llu)", (unsigned long long)out,
                 before ? "before" : "past the end of", (unsigned long long)mr->init.iova,
                 (unsigned long long)mr->init.length);
    }
}

static const struct sn_mr_gone *diagnose_gone(const struct sn_nic *nic, uint32_t key)
{
    for (unsigned i = 0; i < SN_MRS_GONE; i++)
        if (nic->gone[i].key == key) return &nic->gone[i];
    return NULL;
}

/* A region of the domain that has the first byte meant. */
static const struct sn_mr *diagnose_nearest(const struct sn_nic *nic, const struct sn_pd *pd, uint64_t va)
{
    for (uint32_t i = 0; i < nic->mr_room && i < MAX_LOOK; i++) {
        const struct sn_mr *mr = nic->mrs[i];

        if (mr && mr->pd == pd && va >= mr->init.iova && va - mr->init.iova < mr->init.length) return mr;
    }
    return NULL;
}

static void why_no_region(const struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va,
                          char why[SN_WHY])
{
    const struct sn_mr_gone *g = diagnose_gone(nic, key);
    const struct sn_mr *mr = diagnose_nearest(nic, pd, va);

    if (g && key)
        snprintf(why, SN_WHY, "its region, [0x%llx, +%llu), was deregistered", (unsigned long long)g->iova,
                 (unsigned long long)g->length);
    else if (mr)
        snprintf(why, SN_WHY, "no region has that key; the one there has key 0x%x", mr->key);
    else
        snprintf(why, SN_WHY, "no region has that key, and none is there");
}

const char *sn_mr_diagnose(const struct sn_nic *nic, const struct sn_mr_named *named, char why[SN_WHY])
{
    uint32_t index = named->key >> SN_KEY_SHIFT;
    const struct sn_mr *mr = index < nic->mr_room ? nic->mrs[index] : NULL;

    GW_ASSERT_HELD(&nic->lock);
    if (mr && mr->key == named->key)
        why_region(mr, named->pd, named->va, named->len, named->access, why);
    else
        why_no_region(nic, named->pd, named->key, named->va, why);
    return why;
}

void sn_mr_note_gone(struct sn_nic *nic, const struct sn_mr *mr)
{
    GW_ASSERT_HELD(&nic->lock);
    nic->gone[nic->gone_next++ % SN_MRS_GONE] = (struct sn_mr_gone){mr->key, mr->init.iova, mr->init.length};
}

/* ---- work requests ------------------------------------------------------------------------------------- */

static const char *opcode_text(uint8_t opcode)
{
    switch (opcode) {
    case GW_MLX5_NOP: return "NOP";
    case GW_MLX5_SEND_INVAL: return "SEND with invalidate";
    case GW_MLX5_WRITE: return "WRITE";
    case GW_MLX5_WRITE_IMM: return "WRITE with immediate";
    case GW_MLX5_SEND: return "SEND";
    case GW_MLX5_SEND_IMM: return "SEND with immediate";
    case GW_MLX5_READ: return "READ";
    case GW_MLX5_ATOMIC_CS: return "compare and swap";
    case GW_MLX5_ATOMIC_FA: return "fetch and add";
    case GW_MLX5_MASKED_CS: return "masked compare and swap";
    case GW_MLX5_MASKED_FA: return "masked fetch and add";
    default: return "work request";
    }
}

static bool names_memory(uint8_t opcode)
{
    return opcode == GW_MLX5_WRITE || opcode == GW_MLX5_WRITE_IMM || opcode == GW_MLX5_READ ||
           gw_mlx5_is_atomic(opcode);
}

const char *sn_sreq_text(const struct sn_sreq *s, char text[SN_WHY])
{
    const struct gw_mlx5_wqe *w = s->wqe;

    if (names_memory(w->opcode))
        snprintf(text, SN_WHY, "send WQE at index %u (%s of [0x%llx, +%u), rkey 0x%x)", s->index,
                 opcode_text(w->opcode), (unsigned long long)w->raddr, w->length, w->rkey);
    else
        snprintf(text, SN_WHY, "send WQE at index %u (%s of %u bytes)", s->index, opcode_text(w->opcode),
                 w->length);
    return text;
}

const char *sn_oldest_text(const struct sn_qp *qp, char text[SN_WHY])
{
    const struct sn_requester *r = &qp->req;

    if (r->una == r->end) return "nothing";
    return sn_sreq_text(&r->ring[r->una % SN_SQ_WINDOW], text);
}
