/* SPDX-License-Identifier: Apache-2.0 */
/* Once the software NIC is attached, libibverbs, libmlx5 and librdmacm call these in place of libc. */
#ifndef SOFTNIC_ATTACH_HOOKS_H
#define SOFTNIC_ATTACH_HOOKS_H

/*
 * sn_hooks_apply - patches the libraries that are loaded now; called again whenever more may have been
 * loaded. Returns the number of calls that are diverted now and were not before, or a negative errno.
 */
int sn_hooks_apply(void);

/* sn_hooks_apply_at - the same for whatever has the code at that address: a copy of one of them, under any
 * name. */
void sn_hooks_apply_at(const void *address);

/* sn_hooks_name_apart - prints a line if a verbs library is in a link namespace of its own, where the NIC
 * is not. It is the file `path`, or one in the handle's namespace. `handle` may be NULL. */
void sn_hooks_name_apart(const char *path, void *handle);

#endif
