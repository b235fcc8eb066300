/* SPDX-License-Identifier: Apache-2.0 */
/* Random lists of work requests: every opcode, scattered, inline and empty ones, wrong ones and such that are
 * refused. */
#ifndef GW_TESTS_VERBS_LISTS_H
#define GW_TESTS_VERBS_LISTS_H

#include <stdbool.h>

#include "tests/rnd.h"
#include "tests/verbs/lists_kernels.h"

#define HALF     65536u /* bytes of each side's memory */
#define INLINE   256u
#define COUNTERS 57344u /* where the atomics' words lie in it: two that are added to, two that are swapped */

/* mtu: 0: of a connection; otherwise of datagrams, the bytes of a packet. */
void lists_make(struct rnd *r, struct batch *b, uint32_t mtu);

/* Where a list is going to lie. */
struct place {
    uint64_t base; /* of both sides' memory */
    uint32_t lkey, rkey;
    struct ibv_ah *ah; /* datagrams: where they go; else NULL */
    uint32_t qpn;
};
/* Writes the list to *to, with addresses and keys in place of offsets. The poster sees it at `seen`. */
void lists_place(struct batch *to, struct batch *seen, const struct batch *from, const struct place *p);

#endif
