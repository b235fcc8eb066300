/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/resident_kernel.h"
