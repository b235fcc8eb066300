/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/send_recv.h"
