/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank this process is, and where rank 0 listens: from attributes and the environment. */
#ifndef SRC_RANKS_SETTINGS_H
#define SRC_RANKS_SETTINGS_H

#include <gpuwire/ranks.h>

#include "src/ranks/address.h"

struct gw_ranks_settings {
    uint32_t how; /* never AUTO */
    uint32_t rank, size;
    char hosts[GW_RANKS_HOSTS];
    uint16_t port;
    int listener; /* rank 0: a socket that listens; -1: none yet */
    char secret[GW_RANKS_SECRET];
};

/* PMIx' rank and size come later: from the launcher. attr may be NULL. 0, or -EINVAL with a line. */
int gw_ranks_settings(const struct gw_ranks_attr *attr, struct gw_ranks_settings *out);

#endif
