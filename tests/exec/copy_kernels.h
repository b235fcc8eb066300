/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GW_TESTS_COPY_KERNELS_H
#define GW_TESTS_COPY_KERNELS_H

#include <gpuwire/group.h>

#define MAX_COPY  5000u /* the longest copy */
#define COPY_ROOM (MAX_COPY + 64)

struct copy_args {
    uint8_t *to, *from; /* COPY_ROOM bytes each, aligned to 16 */
    uint32_t len;
    uint64_t *wrong; /* bytes, of all alignments; one word per thread */
};

#endif
