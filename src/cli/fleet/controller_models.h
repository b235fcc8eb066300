/* SPDX-License-Identifier: Apache-2.0 */
/* --models of `gpuwire controller`. */
#ifndef GW_CLI_FLEET_CONTROLLER_MODELS_H
#define GW_CLI_FLEET_CONTROLLER_MODELS_H

#include "src/fleet/control/control.h"

/* Reads the folder or the file, and tells the controller. 0, or a negative errno with the reason in
 * gw_last_error(): then nothing has changed. */
int gw_controller_models(const char *path, struct fleet_control *control);

#endif
