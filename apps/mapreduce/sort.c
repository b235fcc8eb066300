/* SPDX-License-Identifier: Apache-2.0 */
/* The sort's kernels for CPU threads; sort.cu has them for a GPU. */
#include "sort.h"
