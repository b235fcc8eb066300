/* SPDX-License-Identifier: Apache-2.0 */
/* Programs into which the system preloads nothing. */
#ifndef GW_CLI_ATTACHABLE_H
#define GW_CLI_ATTACHABLE_H

/* gw_cli_warn_unattachable - prints one line on stderr if `program`, as execvp finds it, cannot have the
 * software NIC. Such a program is statically linked, of 32 bits, or set-user-ID and the like. A script's
 * interpreter is judged for it. */
void gw_cli_warn_unattachable(const char *program);

#endif
