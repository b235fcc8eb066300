/* SPDX-License-Identifier: Apache-2.0 */
/* Housekeeping goes on while the server's thread changes the models, which may take many seconds. Without it
 * no session that was closed could be opened again, of any model. */
#include <time.h>

#include <gpuwire/exec.h>

#include "src/server/lifecycle/server_impl.h"

static void *house_keep(void *arg)
{
    struct gw_house *h = arg;
    uint64_t pause = GW_SERVER_HOUSEKEEPING_NS;
    pthread_mutex_lock(&h->lock);
    while (!h->over) {
        pthread_mutex_unlock(&h->lock);
        pause = gw_server_keep_house(h->server, pause);
        pthread_mutex_lock(&h->lock);
        uint64_t nap = pause < GW_HOUSE_NAP_NS ? pause : GW_HOUSE_NAP_NS, until = gw_deadline(nap);
        struct timespec when = {.tv_sec = (time_t)(until / 1000000000u),
                                .tv_nsec = (long)(until % 1000000000u)};
        if (!h->over) pthread_cond_timedwait(&h->news, &h->lock, &when);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

void gw_house_begin(struct gw_house *h, struct gw_server *s)
{
    pthread_condattr_t attr;
    *h = (struct gw_house){.server = s};
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* gw_deadline's */
    pthread_cond_init(&h->news, &attr);
    pthread_condattr_destroy(&attr);
    h->runs = !pthread_create(&h->thread, NULL, house_keep, h); /* else the change goes on without */
}

void gw_house_end(struct gw_house *h)
{
    pthread_mutex_lock(&h->lock);
    h->over = 1;
    pthread_cond_signal(&h->news);
    pthread_mutex_unlock(&h->lock);
    if (h->runs) pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->news);
    pthread_mutex_destroy(&h->lock);
}
