/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths show the software NIC, and what stands for them. */
#ifndef SOFTNIC_ATTACH_VIEW_H
#define SOFTNIC_ATTACH_VIEW_H

#include <stdbool.h>

#include "softnic/attach/walk.h"

enum { SN_VIEW_BYTES = SN_WALK_BYTES };

/* A path names something of the system's, a file or folder of the NIC's, or a device that only open()
 * knows. */
enum sn_seen { SN_SEEN_OTHER, SN_SEEN_TREE, SN_SEEN_DEVICE };

/* sn_view_show - the NIC shows itself from now on, below /sys and below `root`: what libibverbs takes for
 * /sys. */
void sn_view_show(const char *root);

/* sn_view_hide - from now on every path is what it is. */
void sn_view_hide(void);

/* sn_view_shown - does the NIC show itself? */
bool sn_view_shown(void);

/* sn_view_look - a path of the NIC's, from the folder `dir` on, is replaced by one in `buf`. So is one that
 * leads through its folders and out of them. Makes the tree at the first look, and finds the libraries that
 * were loaded since. Any thread; `path` may be NULL. */
enum sn_seen sn_view_look(int dir, const char **path, char buf[SN_VIEW_BYTES]);

/* For walks. sn_view_owns - is an absolute name, with none of "//", "." and "..", one of the NIC's?
 * sn_view_named - may a path be, by its letters? sn_view_place - where it is in the tree. */
bool sn_view_owns(const char *name);
bool sn_view_named(const char *path);
bool sn_view_place(const char *name, char place[SN_VIEW_BYTES]);

/* sn_view_name - puts the name that programs know in place of a path into a tree. The new name is
 * shorter. */
void sn_view_name(char *path);

/* sn_view_device - opens what sn_view_look called a device: an fd or a negative errno. `caller`: an address
 * in the library that opens it, whose other calls must be ours before it makes them. */
int sn_view_device(const char *path, int flags, const void *caller);

#endif
