/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/stress_kernels_body.h"
