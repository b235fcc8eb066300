/* SPDX-License-Identifier: Apache-2.0 */
/* The checks in a file. As in keepalived, a service may say something for all its workers, and a worker
 * for all its checks, before or after these. So each value is kept with the knowledge that it was given. */
#ifndef GW_BALANCE_CONTROL_SAID_H
#define GW_BALANCE_CONTROL_SAID_H

#include <stdint.h>

#include "src/balance/control/model.h"

/* Of a check's values, those that were given. */
enum {
    GW_BAL_SAID_PORT = 1,
    GW_BAL_SAID_TIMEOUT = 2,
    GW_BAL_SAID_STATUS = 4,
    GW_BAL_SAID_PATH = 8,
    GW_BAL_SAID_HOST = 16,
    GW_BAL_SAID_MODEL = 32,
    GW_BAL_SAID_INTERVAL = 64,
    GW_BAL_SAID_RISE = 128,
    GW_BAL_SAID_FALL = 256,
    GW_BAL_SAID_AGAIN = 512,
    GW_BAL_SAID_CONNECT = 1024,
    GW_BAL_SAID_BIND = 2048,
    GW_BAL_SAID_DIGEST = 4096,
    GW_BAL_SAID_REPLY = 8192,
    GW_BAL_SAID_LEAST = 16384,
    GW_BAL_SAID_MAX = 32768,
    GW_BAL_SAID_DYNAMIC = 65536,
};

struct gw_bal_said {
    struct gw_bal_ask ask;
    uint16_t rise, fall;
    uint64_t interval_ns, again_ns;
    unsigned has;
};

/* The checks of a service or of a worker. */
struct gw_bal_saids {
    struct gw_bal_said common, check[GW_BAL_ASKS];
    unsigned n;
};

#endif
