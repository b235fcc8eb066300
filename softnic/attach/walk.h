/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a path names, however it is spelled: relative to some folder, with "//", "." and "..", over
 * links. */
#ifndef SOFTNIC_ATTACH_WALK_H
#define SOFTNIC_ATTACH_WALK_H

#include <stdbool.h>
#include <stddef.h>

enum { SN_WALK_BYTES = 512 };

/*
 * sn_walk - the absolute name, as programs know it, of what `path` names from the folder `dir` (AT_FDCWD: the
 * working directory). False: nothing of the NIC's is on its way. The name itself may be the system's, where
 * ".." leads out.
 */
bool sn_walk(int dir, const char *path, char name[SN_WALK_BYTES]);

/* sn_walk_entered - a folder of the NIC's may be open from now on. sn_walk_moved - the working directory is
 * another one. */
void sn_walk_entered(void);
void sn_walk_moved(void);

#endif
