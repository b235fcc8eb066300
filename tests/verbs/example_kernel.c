/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/example_kernel.h"
