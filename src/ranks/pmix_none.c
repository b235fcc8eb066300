/* SPDX-License-Identifier: Apache-2.0 */
/* A build without PMIx says so to who asks for it. */
#include <errno.h>

#include <gpuwire/error.h>

#include "src/ranks/pmix.h"

int gw_ranks_pmix_join(struct gw_ranks_place *place, struct gw_ranks_pmix **out)
{
    (void)place;
    (void)out;
    return gw_error(-ENOSYS, "gpuwire was built without PMIx: build it with libpmix-dev installed, or set "
                             "GPUWIRE_RANK, GPUWIRE_SIZE and GPUWIRE_RENDEZVOUS");
}

int gw_ranks_pmix_share(struct gw_ranks_pmix *pmix, char *text, size_t size, uint64_t deadline_ns)
{
    (void)pmix;
    (void)text;
    (void)size;
    (void)deadline_ns;
    return -ENOSYS;
}

void gw_ranks_pmix_leave(struct gw_ranks_pmix *pmix)
{
    (void)pmix;
}
