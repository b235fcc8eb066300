/* SPDX-License-Identifier: Apache-2.0 */
/* Our side of connections: the options, copied once for a listener and all that it lets in. */
#ifndef GW_FLEET_WIRE_SIDE_H
#define GW_FLEET_WIRE_SIDE_H

#include "src/fleet/wire/conn.h"

struct fleet_side {
    uint32_t refs;
    struct fleet_conn_opts opts; /* with defaults filled in; its texts are those below */
    char fleet[FLEET_NAME], name[FLEET_NAME];
    uint8_t id[FLEET_ID];
};

/* -EINVAL: a name that is too long or no text; a limit beyond FLEET_MAX_FRAME. */
int fleet_side_make(const struct fleet_conn_opts *opts, struct fleet_side **out);
void fleet_side_release(struct fleet_side *s);

#endif
