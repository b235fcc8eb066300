/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/post_kernels_body.h"
