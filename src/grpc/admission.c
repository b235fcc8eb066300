/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/admission.h"

void gw_grpc_admission_open(struct gw_grpc_admission *a, uint32_t messages, uint32_t streams)
{
    *a = (struct gw_grpc_admission){.messages_most = messages, .streams_most = streams};
    a->tail = &a->head;
    pthread_mutex_init(&a->lock, NULL);
}

void gw_grpc_admission_close(struct gw_grpc_admission *a)
{
    pthread_mutex_destroy(&a->lock);
}

/* With the lock held. */
static int may_receive(const struct gw_grpc_admission *a, const struct gw_grpc_share *share)
{
    return a->messages < a->messages_most && share->messages < a->messages_most - a->messages_most / 4;
}

static void count(struct gw_grpc_admission *a, struct gw_grpc_share *share)
{
    a->messages++;
    share->messages++;
}

int gw_grpc_admission_message(struct gw_grpc_admission *a, struct gw_grpc_waiter *w)
{
    pthread_mutex_lock(&a->lock);
    int may = may_receive(a, w->share);
    if (may) {
        count(a, w->share);
    } else {
        w->next = NULL;
        *a->tail = w;
        a->tail = &w->next;
    }
    pthread_mutex_unlock(&a->lock);
    return may;
}

struct gw_grpc_waiter *gw_grpc_admission_left(struct gw_grpc_admission *a, struct gw_grpc_share *share)
{
    pthread_mutex_lock(&a->lock);
    a->messages--;
    share->messages--;
    struct gw_grpc_waiter **at = &a->head;
    while (*at && !may_receive(a, (*at)->share)) at = &(*at)->next;
    struct gw_grpc_waiter *w = *at;
    if (w) {
        *at = w->next;
        if (!*at) a->tail = at;
        count(a, w->share);
    }
    pthread_mutex_unlock(&a->lock);
    return w;
}

int gw_grpc_admission_stream(struct gw_grpc_admission *a, struct gw_grpc_share *share)
{
    pthread_mutex_lock(&a->lock);
    int may = a->streams < a->streams_most && share->streams < a->streams_most / 4;
    if (may) {
        a->streams++;
        share->streams++;
    }
    pthread_mutex_unlock(&a->lock);
    return may;
}

void gw_grpc_admission_stream_left(struct gw_grpc_admission *a, struct gw_grpc_share *share)
{
    pthread_mutex_lock(&a->lock);
    a->streams--;
    share->streams--;
    pthread_mutex_unlock(&a->lock);
}
