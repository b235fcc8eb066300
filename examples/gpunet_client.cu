/* SPDX-License-Identifier: Apache-2.0 */
#include "gpunet_client.h"
