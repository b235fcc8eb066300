/* SPDX-License-Identifier: Apache-2.0 */
/* Files that lie beside the tool, as built, bundled or installed. */
#ifndef GW_CLI_BESIDE_H
#define GW_CLI_BESIDE_H

#include <limits.h>
#include <stddef.h>

/*
 * Finds the first of `places` that has `name` and lets this user access it so (access(2)'s mode). Places are
 * relative to the folder of `gpuwire`, also in a program that lies in libexec/gpuwire. Returns 0, or a
 * negative errno that errno has as well: `path` is the last one tried then.
 */
int gw_beside(const char *const *places, size_t n, const char *name, int mode, char path[PATH_MAX]);

/* The software NIC's library: what GPUWIRE_SOFTNIC_LIBRARY names, the one beside the tool, or a bare name for
 * the loader to look for. */
void gw_softnic_library(char path[PATH_MAX]);

#endif
