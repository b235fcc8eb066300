/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the software NIC shows itself: below /sys/class/infiniband and its neighbours, and in /dev/infiniband. Any library of
 * the process may look there, in any of libc's ways to name a file.
 */
#ifndef SOFTNIC_ATTACH_PATHS_H
#define SOFTNIC_ATTACH_PATHS_H

/* sn_paths_set_root - the folder that libibverbs takes for /sys: ours, or the real one when we came too late. The NIC
 * shows itself from now on. */
void sn_paths_set_root(const char *root);

/* sn_paths_hide - from now on every path is what it is. */
void sn_paths_hide(void);

/* sn_paths_apply - has the libraries of these names look here, where ours does not stand before libc. */
void sn_paths_apply(const char *const *libs);

#endif
