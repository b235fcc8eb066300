/* SPDX-License-Identifier: Apache-2.0 */
/* What commands of the tool share besides <gpuwire/options.h> and <gpuwire/signals.h>. */
#ifndef GW_CLI_OPTIONS_H
#define GW_CLI_OPTIONS_H

#include <stdint.h>

#include <gpuwire/options.h>
#include <gpuwire/signals.h>

/* Before work begins whose end it is: can a file be written there? None is left, and none changed. 0,
 * or a negative errno with a line that names the option. */
int gw_option_writable(const char *option, const char *path);
/* Says what failed, in gw_last_error()'s words; returns GW_EXIT_FAILURE. */
int gw_failed(const char *command);

/* From now on SIGHUP ends nothing, and makes this descriptor, an eventfd, readable. A negative errno: there
 * is none. */
int gw_catch_hangup(void);
/* Where the models are by default: beside the program as built, installed or bundled. NULL: nowhere.
 * The text is the function's own. */
const char *gw_default_models(void);

#endif
