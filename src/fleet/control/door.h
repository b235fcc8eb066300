/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's HTTP door: a page, the table as JSON, and metrics. */
#ifndef GW_FLEET_CONTROL_DOOR_H
#define GW_FLEET_CONTROL_DOOR_H

#include "src/fleet/control/control.h"

struct fleet_door;

struct fleet_door_opts {
    struct fleet_loop *loop;
    struct fleet_control *control;
    const char *host;  /* a numeric address; NULL: 127.0.0.1 */
    uint16_t port;     /* 0: any free one */
    const char *token; /* that each call must bring; NULL: none */
};

/* Listens on threads of its own; what they ask is answered by the loop's thread. */
int fleet_door_open(const struct fleet_door_opts *opts, struct fleet_door **out);
uint16_t fleet_door_port(const struct fleet_door *d);
/* The loop's thread, before the loop and the controller go. NULL is allowed. */
void fleet_door_close(struct fleet_door *d);

#endif
