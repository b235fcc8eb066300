/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cli/cat/kernels_body.h"
