/* SPDX-License-Identifier: Apache-2.0 */
/* The reset for CPU threads; reset.cu has it for a GPU. */
#include "reset.h"
