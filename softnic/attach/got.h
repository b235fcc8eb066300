/* SPDX-License-Identifier: Apache-2.0 */
/* Import tables of loaded libraries: replace what a library calls, without touching anybody else's calls. */
#ifndef SOFTNIC_ATTACH_GOT_H
#define SOFTNIC_ATTACH_GOT_H

#include <stddef.h>

struct sn_hook {
    const char *symbol; /* as the library imports it, without a version */
    void *replacement;
};

/*
 * sn_got_patch - points imports of loaded libraries at the replacements. It takes the libraries whose file
 * name, or the name that they give themselves (SONAME), starts with one of `libs` (a NULL terminated list).
 * Calling it again patches only what has been loaded since. Any thread; calls are serialised inside. Returns
 * the number of slots changed now, or -EACCES when a table cannot be made writable.
 */
int sn_got_patch(const char *const *libs, const struct sn_hook *hooks, size_t count);

/* sn_got_patch_all_but - the same for the program and every loaded library except those. */
int sn_got_patch_all_but(const char *const *libs, const struct sn_hook *hooks, size_t count);

/* sn_got_patch_at - the same for the program or library in which that address is, unless it is part of the
 * system. */
int sn_got_patch_at(const void *address, const struct sn_hook *hooks, size_t count);

/* sn_got_system - names of libraries whose calls are their own affair: libc, the loader, sanitizers, and
 * ourselves. */
extern const char *const sn_got_system[];

/* sn_got_restore - puts every slot back that still holds our replacement. Libraries unloaded since are
 * skipped. */
void sn_got_restore(void);

#endif
