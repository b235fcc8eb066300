/* SPDX-License-Identifier: Apache-2.0 */
/* Peers on the same host learn of memory regions here. */
#include <gpuwire/detail/held.h>

#include "softnic/region/region.h"

void sn_publish_region(struct sn_mr *mr, bool gone)
{
    const struct sn_nic_config *c = &mr->pd->nic->cfg;
    struct sn_peer_region r = {.iova = mr->init.iova,
                               .addr = mr->init.addr,
                               .length = mr->init.length,
                               .access = mr->init.access,
                               .pd = mr->pd->number,
                               .gpu = sn_mr_share(mr)};

    GW_ASSERT_HELD(&mr->pd->nic->lock);
    if (!c->peers || !sn_mr_published(mr)) return;
    c->peers->region(c->peers_ctx, mr->key, gone ? NULL : &r);
}
