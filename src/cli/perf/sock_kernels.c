/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/perf/sock_kernels_body.h"
