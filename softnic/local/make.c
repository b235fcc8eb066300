/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending it all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "softnic/base/cred.h"
#include "softnic/local/meet.h"
#include "softnic/local/state.h"

static int open_parts(struct sn_local *h)
{
    int err;

    h->table_fd = sn_share_make(sizeof(*h->table), true, (void **)&h->table);
    if (h->table_fd < 0) {
        h->table = NULL;
        return h->table_fd;
    }
    h->table->head.magic = SN_SHARE_TABLE_MAGIC;
    h->table->head.version = SN_SHARE_VERSION;
    h->table->head.slot = h->cfg.slot;
    h->table->head.nonce = h->nonce;
    h->table->head.nonce_addr = (uintptr_t)&h->nonce;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->epoll < 0 || h->event < 0) return -errno;
    h->listener = sn_meet_listen(h->name);
    if (h->listener < 0) return h->listener;
    err = sn_local_watch(h, h->listener, SN_AT_LISTENER, 0);
    return err ? err : sn_local_watch(h, h->event, SN_AT_EVENT, 0);
}

int sn_local_open(const struct sn_local_config *config, struct sn_local **out, char why[256])
{
    struct sn_local *h;
    int err;

    if (!sn_cred_has_own_user()) {
        snprintf(why, 256,
                 "this user namespace has no number for this user (%u is any stranger): give it a uid map",
                 (unsigned)geteuid());
        return -EPERM;
    }
    h = calloc(1, sizeof(*h));
    err = h ? 0 : -ENOMEM;
    if (!err) {
        h->cfg = *config;
        h->table_fd = h->listener = h->epoll = h->event = -1;
        for (unsigned i = 0; i < SN_LOCAL_PEERS; i++) h->peer[i].fd = -1;
        pthread_mutex_init(&h->senders_lock, NULL);
        h->gpu = sn_gpu_new();
        if (getrandom(&h->nonce, sizeof(h->nonce), 0) != sizeof(h->nonce)) err = -EAGAIN;
    }
    if (!err) err = open_parts(h);
    if (!err) {
        *out = h;
        return 0;
    }
    snprintf(why, 256, "shared memory with processes of this host: %s", strerror(-err));
    sn_local_close(h);
    return err;
}

void sn_local_close(struct sn_local *h)
{
    if (!h) return;
    sn_gpu_end(h->gpu);
    sn_local_close_fd(&h->listener);
    sn_local_close_fd(&h->epoll);
    sn_local_close_fd(&h->event);
    sn_local_close_fd(&h->table_fd);
    for (unsigned i = 0; i < SN_LOCAL_PEERS; i++) {
        struct sn_peer *p = &h->peer[i];

        sn_local_close_fd(&p->fd);
        if (p->channel) munmap(p->channel, sizeof(*p->channel));
        if (p->table) munmap((void *)p->table, sizeof(*p->table));
    }
    for (unsigned i = 0; i < h->senders; i++) sn_local_free_sender(h->sender[i]);
    if (h->table) munmap(h->table, sizeof(*h->table));
    pthread_mutex_destroy(&h->senders_lock);
    free(h);
}
