/* SPDX-License-Identifier: Apache-2.0 */
#include "put_get.h"
