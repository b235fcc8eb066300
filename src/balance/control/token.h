/* SPDX-License-Identifier: Apache-2.0 */
/* The token of a balancer whose file names none: made at the first start, in run_dir. */
#ifndef GW_BALANCE_CONTROL_TOKEN_H
#define GW_BALANCE_CONTROL_TOKEN_H

#define GW_BAL_TOKEN_FILE "api.token" /* in run_dir; its owner alone may read it */

/* Reads it, or makes it. gw_secret_forget frees *token. 0 or a negative errno with the reason in
 * gw_last_error(); -EPERM: others may read or write it. */
int gw_bal_make_token(const char *run_dir, char **token);

#endif
