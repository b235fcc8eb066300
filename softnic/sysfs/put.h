/* SPDX-License-Identifier: Apache-2.0 */
/* Files, folders and links below an open folder. Paths are relative to it. 0 or a negative errno. */
#ifndef SOFTNIC_SYSFS_PUT_H
#define SOFTNIC_SYSFS_PUT_H

/* sn_put - writes one file, making the folders on its way. */
int sn_put(int top, const char *path, const char *text);

/* sn_put_anew - replaces a file whose folder is there. Readers see the old text or the new one. */
int sn_put_anew(int top, const char *path, const char *text);

/* sn_put_folder - makes a folder, and those on its way. */
int sn_put_folder(int top, const char *path);

/* sn_put_link - makes a symbolic link to `target`, and the folders on its way. */
int sn_put_link(int top, const char *path, const char *target);

#endif
