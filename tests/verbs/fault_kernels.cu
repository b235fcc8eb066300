/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/fault_kernels_body.h"
