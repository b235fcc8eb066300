/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of the host's calls, for CPU threads. */
#include "src/collective/coll_kernel_body.h"
