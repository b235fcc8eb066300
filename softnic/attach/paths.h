/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the software NIC shows itself: below /sys/class/infiniband and its neighbours, and in
 * /dev/infiniband. Any library of the process may look there, in any of libc's ways to name a file.
 */
#ifndef SOFTNIC_ATTACH_PATHS_H
#define SOFTNIC_ATTACH_PATHS_H

#include <stdbool.h>

#define SN_LIBRARY "libgpuwire-softnic.so"

/* sn_paths_in_front - does this library stand before libc, for all that the process has loaded and will
 * load? */
bool sn_paths_in_front(void);

/* sn_paths_apply - has the libraries of these names look here, where ours does not stand before libc. */
void sn_paths_apply(const char *const *libs);

#endif
