/* SPDX-License-Identifier: Apache-2.0 */
/* Only one process may have these: the control of a data plane, and an interface whose packets are forwarded.
 * A claim is a descriptor. It ends when that is closed, and with the process, however that ends. */
#ifndef GW_BALANCE_CONTROL_CLAIM_H
#define GW_BALANCE_CONTROL_CLAIM_H

/* Makes the folder if it is not there. It must be this user's or root's, and no one else may write to it. 0
 * or a negative errno with the reason in gw_last_error(). */
int gw_bal_make_run_dir(const char *run_dir);

/* Makes the run_dir, too. The descriptor, or -EBUSY: another control plane is there; or another negative
 * errno, with the reason in gw_last_error(). */
int gw_bal_claim_control(const char *run_dir);

/* Of this network namespace. The descriptor, or -EBUSY: another balancer has it, with the reason in
 * gw_last_error(). Root does not mind the claims of other users. -1: such a stranger claims it. */
int gw_bal_claim_interface(const char *name);

#endif
