/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/lists_kernels_body.h"
