/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with the names of libc's, and pointers to libc's own. */
#ifndef SOFTNIC_ATTACH_LIBC_H
#define SOFTNIC_ATTACH_LIBC_H

#include <dlfcn.h>
#include <string.h>

/* By the linker's name alone: the headers declare some with other types, and some not at all. */
#define NAMED(name, hook)                                                                                    \
    extern __typeof__(hook) named_##name __asm__(#name) __attribute__((visibility("default"), alias(#hook)))

/* sn_libc_find - libc's own of that name. `function`: a pointer to a pointer to a function. */
static inline void sn_libc_find(void *function, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof(found));
}

#endif
