/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve --fleet: this process is a worker of a fleet. */
#ifndef GW_CLI_SERVE_FLEET_H
#define GW_CLI_SERVE_FLEET_H

struct gw_cli_serving;

/* Until a signal comes, and then until it has left in order. Returns the exit code. */
int gw_cli_serve_fleet(const struct gw_cli_serving *all);

#endif
