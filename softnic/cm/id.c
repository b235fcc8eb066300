/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers: made, found and ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

enum { SLOT_SHIFT = 24 };
_Static_assert((CM_MAX_IDS & (CM_MAX_IDS - 1)) == 0, "the lower bits of a communication ID are an index");

void cm_init(struct cm *cm, const struct cm_env *env)
{
    memset(cm, 0, sizeof(*cm));
    pthread_mutex_init(&cm->lock, NULL);
    cm->env = *env;
    cm->next = SN_NEVER;
    sn_list_init(&cm->ports);
}

void cm_end(struct cm *cm)
{
    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i]) cm_id_free(cm->ids[i]);
    pthread_mutex_unlock(&cm->lock);
    pthread_mutex_destroy(&cm->lock);
}

struct cm_id *cm_id_new(struct cm *cm, struct cm_file *file)
{
    uint32_t i = cm->first_free;
    struct cm_id *id;

    GW_ASSERT_HELD(&cm->lock);
    while (i < CM_MAX_IDS && cm->ids[i]) i++;
    if (i == CM_MAX_IDS || file->closed) return NULL;
    id = calloc(1, sizeof(*id));
    if (!id) return NULL;
    id->cm = cm;
    id->file = file;
    id->handle = i + 1;
    id->deadline = SN_NEVER;
    cm->ids[i] = id;
    cm->first_free = i + 1;
    if (cm->high <= i) cm->high = i + 1;
    return id;
}

static struct cm_id **cm_id_place_of(struct cm *cm, uint32_t local_id)
{
    return &cm->conns[local_id & (CM_MAX_IDS - 1)];
}

static void forget_local_id(struct cm_id *id)
{
    if (id->local_id) *cm_id_place_of(id->cm, id->local_id) = NULL;
    id->local_id = 0;
}

void cm_id_free(struct cm_id *id)
{
    struct cm *cm = id->cm;

    GW_ASSERT_HELD(&cm->lock);
    cm_port_give(id);
    forget_local_id(id);
    cm->kept -= id->kept;
    cm->ids[id->handle - 1] = NULL;
    if (id->handle - 1 < cm->first_free) cm->first_free = id->handle - 1;
    while (cm->high && !cm->ids[cm->high - 1]) cm->high--;
    free(id);
}

struct cm_id *cm_id_find(struct cm *cm, const struct cm_file *file, uint32_t handle)
{
    struct cm_id *id = handle && handle <= CM_MAX_IDS ? cm->ids[handle - 1] : NULL;

    GW_ASSERT_HELD(&cm->lock);
    /* A request that has not been read yet may not be used: its event still points to it. */
    return id && id->file == file && !id->listener ? id : NULL;
}

/*
 * A communication ID is the NIC's slot, which leads a message to this process, and 24 random bits. So it
 * cannot be predicted, and a late message about an earlier connection is hardly ever taken for one about
 * this.
 */
int cm_id_begin(struct cm_id *id)
{
    struct {
        uint64_t tid, end_tid;
        uint32_t local_id, psn;
    } r;
    struct cm *cm = id->cm;
    int err = cm->env.random(cm->env.ctx, &r, sizeof(r));

    GW_ASSERT_HELD(&cm->lock);
    if (err) return err;
    forget_local_id(id);
    r.local_id &= (1u << SLOT_SHIFT) - 1;
    /* There are as many places as ids. A communication ID is not 0: that means none. */
    while (*cm_id_place_of(cm, r.local_id) || !r.local_id)
        r.local_id = (r.local_id + 1) & ((1u << SLOT_SHIFT) - 1);
    id->local_id = (uint32_t)id->nic->slot << SLOT_SHIFT | r.local_id;
    *cm_id_place_of(cm, id->local_id) = id;
    id->psn = r.psn & 0xffffff;
    id->tid = r.tid;
    id->end_tid = r.end_tid;
    return 0;
}

struct cm_id *cm_id_by_local(struct cm *cm, uint32_t local_id)
{
    struct cm_id *id = *cm_id_place_of(cm, local_id);

    GW_ASSERT_HELD(&cm->lock);
    return id && id->local_id == local_id ? id : NULL;
}

int cm_create(struct cm *cm, struct cm_file *file, const struct rdma_ucm_create_id *cmd, uint32_t *handle)
{
    uint8_t type = cmd->qp_type;
    struct cm_id *id;

    switch (cmd->ps) {
    case RDMA_PS_TCP: type = IBV_QPT_RC; break;
    case RDMA_PS_UDP: type = IBV_QPT_UD; break;
    case RDMA_PS_IB: break;
    case RDMA_PS_IPOIB: return -EOPNOTSUPP;
    default: return -EINVAL;
    }
    if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_UD) return -EOPNOTSUPP;
    id = cm_id_new(cm, file);
    if (!id) return -ENOMEM;
    id->uid = cmd->uid;
    id->ps = cmd->ps;
    id->qp_type = type;
    *handle = id->handle;
    return 0;
}

/* Requests that have not been read yet die with their listener. */
static void end_requests(struct cm_id *listener)
{
    struct cm *cm = listener->cm;

    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i] && cm->ids[i]->listener == listener) cm_destroy(cm->ids[i]);
}

/*
 * A refusal gets lost, or crosses a repeat of the request. If we forgot it at once, the program would be told
 * of that request again, although its sender no longer waits.
 */
static bool keep_last_word(struct cm_id *id)
{
    if (id->active || !id->last_word || id->cm->kept == CM_MAX_KEPT) return false;
    id->cm->kept++;
    id->kept = true;
    id->state = CM_ENDED;
    cm_deadline(id, CM_KEEP_NS);
    return true;
}

uint32_t cm_destroy(struct cm_id *id)
{
    uint32_t reported = id->events_reported;
    bool linger = false;

    GW_ASSERT_HELD(&id->cm->lock);
    cm_events_drop(id);
    id->uid = 0;
    switch (id->state) {
    case CM_LISTEN: end_requests(id); break;
    case CM_REQ_SENT: cm_send_rej(id, ROCE_ABOUT_REQ, ROCE_REJ_TIMEOUT, NULL, 0); break;
    case CM_REQ_RCVD: cm_send_rej(id, ROCE_ABOUT_REQ, ROCE_REJ_CONSUMER, NULL, 0); break;
    case CM_REP_RCVD: cm_send_rej(id, ROCE_ABOUT_REP, ROCE_REJ_CONSUMER, NULL, 0); break;
    case CM_REP_SENT: cm_send_rej(id, ROCE_ABOUT_OTHER, ROCE_REJ_CONSUMER, NULL, 0); break;
    case CM_DREQ_RCVD: cm_send_drep(id); break;
    case CM_SIDR_RCVD: cm_sidr_answer(id, ROCE_SIDR_REJECT, NULL); break;
    case CM_ESTABLISHED: cm_send_dreq(id);   /* fall through */
    case CM_DREQ_SENT: linger = true; break; /* the peer is to be told for certain */
    default: break;
    }
    id->file = NULL;
    id->listener = NULL;
    cm_port_give(id); /* also of one that lingers: the next may have it */
    if (!linger && !keep_last_word(id)) cm_id_free(id);
    return reported;
}

void cm_file_init(struct cm_file *file, int fd, int token)
{
    memset(file, 0, sizeof(*file));
    sn_list_init(&file->events);
    file->fd = fd;
    file->token = token;
}

void cm_file_end(struct cm *cm, struct cm_file *file)
{
    GW_ASSERT_HELD(&cm->lock);
    file->closed = true;
    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i] && cm->ids[i]->file == file) cm_destroy(cm->ids[i]);
}

void cm_leave(struct cm *cm)
{
    GW_ASSERT_HELD(&cm->lock);
    cm->leaving = true;
    for (uint32_t i = 0; i < cm->high; i++) {
        struct cm_id *id = cm->ids[i];

        /* Its farewell was said before. The next repeat may be seconds away, or it may have been the last. */
        if (id && id->state == CM_DREQ_SENT) {
            id->tries = 0;
            cm_deadline(id, 0);
        }
        if (id && id->file) cm_destroy(id);
    }
}

int cm_migrate(struct cm_id *id, struct cm_file *to, uint32_t *events_reported)
{
    struct cm *cm = id->cm;

    GW_ASSERT_HELD(&cm->lock);
    if (to->closed) return -EBADF;
    if (to != id->file) cm_events_move(id, to);
    for (uint32_t i = 0; i < cm->high; i++)
        if (cm->ids[i] && cm->ids[i]->listener == id) cm->ids[i]->file = to;
    id->file = to;
    *events_reported = id->events_reported;
    return 0;
}
