/* SPDX-License-Identifier: Apache-2.0 */
/* Programs into which the system preloads nothing. */
#ifndef GW_CLI_ATTACHABLE_H
#define GW_CLI_ATTACHABLE_H

/* gw_cli_warn_unattachable - one line on stderr if `program`, as execvp would find it, cannot have the software NIC: it is
 * statically linked, set-user-ID or the like, or of 32 bits. A script is judged by its interpreter. */
void gw_cli_warn_unattachable(const char *program);

#endif
