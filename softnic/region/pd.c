/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains: whose keys count together. */
#include <errno.h>
#include <stdlib.h>

#include "softnic/region/region.h"

int sn_pd_create(struct sn_nic *nic, struct sn_pd **out)
{
    struct sn_pd *pd = calloc(1, sizeof(*pd));
    int err = 0;

    if (!pd) return -ENOMEM;
    pd->nic = nic;
    sn_nic_lock(nic);
    if (nic->pd_count == SN_MAX_PD) {
        err = -ENOMEM;
    } else {
        nic->pd_count++;
        pd->number = ++nic->pd_numbers;
        nic->objects++;
    }
    sn_nic_unlock(nic);
    if (err)
        free(pd);
    else
        *out = pd;
    return err;
}

int sn_pd_destroy(struct sn_pd *pd)
{
    struct sn_nic *nic = pd->nic;
    bool busy;

    sn_nic_lock(nic);
    busy = pd->users != 0;
    if (!busy) {
        nic->pd_count--;
        nic->objects--;
    }
    sn_nic_unlock(nic);
    if (busy) return -EBUSY;
    free(pd);
    return 0;
}
