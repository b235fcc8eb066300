/* SPDX-License-Identifier: Apache-2.0 */
/* The movers' kernel for CPU threads; move.cu has it for a GPU. */
#include "move.h"
