/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/perf/kernels_body.h"
