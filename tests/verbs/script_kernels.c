/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/script_kernels_body.h"
