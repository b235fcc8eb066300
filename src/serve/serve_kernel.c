/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/serve_kernel.h"
