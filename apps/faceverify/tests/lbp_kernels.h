/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of test_face_lbp. */
#ifndef FACE_TESTS_LBP_KERNELS_H
#define FACE_TESTS_LBP_KERNELS_H

#include <gpuwire/kernel.h>

#include "apps/faceverify/face.h"

enum { LBP_ROUNDS = 3, LBP_CASES = 16 };

struct lbp_case {
    uint8_t picture[FACE_PIXELS] __attribute__((aligned(16)));
    struct face_histogram own __attribute__((aligned(16)));
    struct face_value value;
    uint32_t terms[LBP_ROUNDS];
};

struct lbp_args {
    struct lbp_case *cases;
};

#endif
