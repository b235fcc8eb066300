/* SPDX-License-Identifier: Apache-2.0 */
#include "send_recv.h"
