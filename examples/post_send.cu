/* SPDX-License-Identifier: Apache-2.0 */
#include "post_send.h"
