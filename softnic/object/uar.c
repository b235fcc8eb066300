/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell pages, who uses them, and which queue pairs ring which register. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"

int sn_uar_create(struct sn_nic *nic, struct sn_uar **out)
{
    struct sn_uar *uar = calloc(1, sizeof(*uar));
    int err = 0;

    if (!uar) return -ENOMEM;
    uar->page = mmap(NULL, SN_UAR_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (uar->page == MAP_FAILED) {
        free(uar);
        return -ENOMEM;
    }
    for (size_t i = 0; i < SN_UAR_SIZE / 8; i++) uar->page[i] = SN_NOT_RUNG;
    uar->nic = nic;
    sn_list_init(&uar->link);
    sn_list_init(&uar->qps);
    sn_list_init(&uar->cqs);
    sn_list_init(&uar->news);
    sn_nic_lock(nic);
    if (nic->uar_count == SN_MAX_UAR) {
        err = -ENOMEM;
    } else {
        nic->uar_count++;
        nic->objects++;
    }
    sn_nic_unlock(nic);
    if (err) {
        munmap(uar->page, SN_UAR_SIZE);
        free(uar);
        return err;
    }
    *out = uar;
    return 0;
}

void sn_uar_merge(struct sn_uar *uar)
{
    uar->merged = true;
}

int sn_uar_destroy(struct sn_uar *uar)
{
    struct sn_nic *nic = uar->nic;
    bool busy;

    sn_nic_lock(nic);
    busy = !sn_list_empty(&uar->link);
    if (!busy) {
        nic->uar_count--;
        nic->objects--;
    }
    sn_nic_unlock(nic);
    if (busy) return -EBUSY;
    for (unsigned i = 0; i < SN_UAR_BF_COUNT; i++) free(uar->registers[i].ringers);
    munmap(uar->page, SN_UAR_SIZE);
    free(uar);
    return 0;
}

void *sn_uar_page(struct sn_uar *uar)
{
    return uar->page;
}

/* Only pages in use are looked at. */
void sn_uar_attach(struct sn_uar *uar, struct sn_link *list, struct sn_link *user)
{
    GW_ASSERT_HELD(&uar->nic->lock);
    if (sn_list_empty(&uar->link)) sn_list_add(&uar->nic->uars, &uar->link);
    sn_list_add(list, user);
}

void sn_uar_detach(struct sn_uar *uar, struct sn_link *user)
{
    GW_ASSERT_HELD(&uar->nic->lock);
    sn_list_del(user);
    if (sn_list_empty(&uar->qps) && sn_list_empty(&uar->cqs)) sn_list_del(&uar->link);
}

int sn_ringer_add(struct sn_qp *qp)
{
    struct sn_register *r;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (!qp->init.sq_wqebbs) return 0;
    r = sn_register_of(qp);
    if (r->count == r->room) {
        uint32_t room = r->room ? r->room * 2 : 4;
        struct sn_ringer *more = realloc(r->ringers, room * sizeof(*more));

        if (!more) return -ENOMEM;
        r->ringers = more;
        r->room = room;
    }
    r->ringers[r->count] = (struct sn_ringer){qp->init.dbrec + GW_MLX5_DBREC_SEND, qp, qp->sq_pi};
    qp->ringer = ++r->count;
    return 0;
}

void sn_ringer_del(struct sn_qp *qp)
{
    struct sn_register *r;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (!qp->ringer) return;
    r = sn_register_of(qp);
    GW_ASSERT(qp->ringer <= r->count && r->ringers[qp->ringer - 1].qp == qp);
    r->ringers[qp->ringer - 1] = r->ringers[--r->count];
    r->ringers[qp->ringer - 1].qp->ringer = qp->ringer;
    qp->ringer = 0;
}

void sn_ringer_at(struct sn_qp *qp, uint16_t pi)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    qp->sq_pi = pi;
    if (qp->ringer) sn_register_of(qp)->ringers[qp->ringer - 1].pi = pi;
}
