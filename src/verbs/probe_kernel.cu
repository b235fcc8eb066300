/* SPDX-License-Identifier: Apache-2.0 */
#include "src/verbs/probe_kernel_body.h"
