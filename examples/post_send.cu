/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/post_send.h"
