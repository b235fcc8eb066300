/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events that programs get, in order, by GET_EVENT. A byte lies in the file's socket while something is
 * to be told, so that the program can wait for it in poll().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

struct cm_event {
    struct sn_link link;
    struct cm_id *about; /* whose events it counts among */
    struct cm_id *child; /* CONNECT_REQUEST: the connection requested */
    struct rdma_ucm_event_resp resp;
};

struct cm_event *cm_event_new(struct cm_id *id, enum cm_event_type type, int status)
{
    struct cm_event *e;

    GW_ASSERT_HELD(&id->cm->lock);
    /* Before a program has accepted a request it has given it no name, and cannot be told about it. */
    if (!id->file || (!id->uid && id->local_id) || id->file->event_count == CM_MAX_EVENTS) return NULL;
    e = calloc(1, sizeof(*e));
    if (!e) return NULL;
    e->about = id;
    e->resp.uid = id->uid;
    e->resp.id = id->handle;
    e->resp.event = type;
    e->resp.status = (uint32_t)status;
    return e;
}

struct rdma_ucm_event_resp *cm_event_resp(struct cm_event *e)
{
    return &e->resp;
}

static void cm_event_set_token(struct cm_file *file)
{
    bool wanted = file->event_count > 0;
    char byte = 0;
    ssize_t n;

    if (wanted == file->has_token || file->token < 0) return;
    n = wanted ? send(file->token, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL)
               : recv(file->fd, &byte, 1, MSG_DONTWAIT);
    if (n == 1) file->has_token = wanted;
}

void cm_event_post(struct cm_event *e)
{
    struct cm_file *file;

    if (!e) return;
    file = e->about->file;
    sn_list_init(&e->link);
    sn_list_add(&file->events, &e->link);
    file->event_count++;
    cm_event_set_token(file);
}

void cm_tell(struct cm_id *id, enum cm_event_type type, int status)
{
    cm_event_post(cm_event_new(id, type, status));
}

void cm_event_conn(struct cm_event *e, const struct roce_cm *m, uint32_t skip)
{
    struct rdma_ucm_conn_param *p;

    if (!e) return;
    p = &e->resp.param.conn;
    p->private_data_len = (uint8_t)(m->private_len - skip);
    memcpy(p->private_data, m->private_data + skip, m->private_len - skip);
    /* We have to answer as many as the peer may begin, and the other way round. */
    p->responder_resources = (uint8_t)m->initiator_depth;
    p->initiator_depth = (uint8_t)m->responder_resources;
    p->flow_control = (uint8_t)m->flow_control;
    p->retry_count = (uint8_t)m->retry_count;
    p->rnr_retry_count = (uint8_t)m->rnr_retry;
    p->srq = (uint8_t)m->srq;
    p->qp_num = m->qpn;
    e->resp.ece = (struct rdma_ucm_ece){m->vendor_id, m->attr_mod};
}

static void unlink_event(struct cm_file *file, struct cm_event *e)
{
    sn_list_del(&e->link);
    GW_ASSERT(file->event_count > 0 && sn_list_empty(&file->events) == (file->event_count == 1));
    file->event_count--;
    cm_event_set_token(file);
}

bool cm_event_take(struct cm_file *file, struct rdma_ucm_event_resp *resp)
{
    struct cm_event *e;

    if (sn_list_empty(&file->events)) return false;
    e = sn_entry(file->events.next, struct cm_event, link);
    unlink_event(file, e);
    *resp = e->resp;
    e->about->events_reported++;
    if (e->child) {
        e->about->backlog++;
        e->child->listener = NULL;
    }
    free(e);
    return true;
}

void cm_event_request(struct cm_event *e, struct cm_id *child)
{
    e->child = child;
    e->resp.id = child->handle;
    child->listener = e->about;
    e->about->backlog--;
}

void cm_events_drop(struct cm_id *id)
{
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&id->cm->lock);
    if (!id->file) return;
    sn_list_each(it, tmp, &id->file->events)
    {
        struct cm_event *e = sn_entry(it, struct cm_event, link);

        if (e->about != id && e->child != id) continue;
        if (e->child == id) e->about->backlog++;
        unlink_event(id->file, e);
        free(e);
    }
}

void cm_events_move(struct cm_id *id, struct cm_file *to)
{
    struct cm_file *from = id->file;
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&id->cm->lock);
    sn_list_each(it, tmp, &from->events)
    {
        struct cm_event *e = sn_entry(it, struct cm_event, link);

        if (e->about != id) continue;
        unlink_event(from, e);
        sn_list_add(&to->events, &e->link);
        to->event_count++;
    }
    cm_event_set_token(to);
}
