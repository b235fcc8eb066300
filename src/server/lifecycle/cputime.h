/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of this process's threads, the software NIC's apart from the rest. */
#ifndef GW_SERVER_LIFECYCLE_CPUTIME_H
#define GW_SERVER_LIFECYCLE_CPUTIME_H

#include <stdint.h>

struct gw_cputime {
    uint64_t own_ns; /* every thread but the NIC's, ended ones included */
    uint64_t nic_ns; /* threads named gw-nic */
};

int gw_cputime_read(struct gw_cputime *t); /* 0 or a negative errno */

#endif
