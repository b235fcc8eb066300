/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/attach/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/attach/counters.h"
#include "softnic/attach/hooks.h"
#include "softnic/attach/signals.h"
#include "softnic/cm/cm.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/uverbs.h"

#define SYS "/sys"

static char other_root[256]; /* "": libibverbs looks below /sys, too */
static bool shown;           /* atomic */

void sn_view_show(const char *root)
{
    snprintf(other_root, sizeof(other_root), "%s", strcmp(root, SYS) ? root : "");
    __atomic_store_n(&shown, true, __ATOMIC_RELEASE); /* whoever sees it sees the root */
}

void sn_view_hide(void)
{
    __atomic_store_n(&shown, false, __ATOMIC_RELEASE);
}

bool sn_view_shown(void)
{
    return __atomic_load_n(&shown, __ATOMIC_ACQUIRE);
}

/* Returns what follows `root` in a path that shows the NIC, and NULL for the system's own paths. */
static const char *below(const char *path, const char *root)
{
    size_t n = strlen(root);
    return n && !strncmp(path, root, n) && sn_tree_owns(path + n) ? path + n : NULL;
}

static bool is_device(const char *path)
{
    return sn_tree_cdev(path, UV_MAX_NICS) >= 0 || !strcmp(path, SN_RDMA_CM_PATH);
}

/* Makes the tree if there is none. */
static const char *tree(void)
{
    struct sn_tree_info nics[UV_MAX_NICS];
    int count = uv_tree_info(nics);

    return count < 0 || sn_tree_build(nics, (unsigned)count) ? NULL : sn_tree_path();
}

static enum sn_seen look_closely(const char **path, char *buf)
{
    const char *p = *path, *rest;

    if (!sn_view_shown()) return SN_SEEN_OTHER;
    if (!strncmp(p, SN_DEV_FOLDER, sizeof(SN_DEV_FOLDER) - 1)) {
        if (is_device(p)) return SN_SEEN_DEVICE;
        rest = p;
    } else {
        rest = below(p, SYS);
        if (!rest) rest = below(p, other_root);
    }
    if (!rest) return SN_SEEN_OTHER;
    sn_hooks_apply();
    const char *own = tree();
    int len = own ? snprintf(buf, SN_VIEW_BYTES, "%s%s", own, rest) : -1;
    if (len < 0 || len >= SN_VIEW_BYTES) return SN_SEEN_OTHER;
    sn_counters_refresh(rest);
    *path = buf;
    return SN_SEEN_TREE;
}

/* Nearly all paths that a program names are none of ours, and end at the second character. */
enum sn_seen sn_view_look(const char **path, char buf[SN_VIEW_BYTES])
{
    const char *p = *path;

    if (!p || p[0] != '/' || (p[1] != 's' && p[1] != 'd' && !other_root[0])) return SN_SEEN_OTHER;
    return look_closely(path, buf);
}

void sn_view_name(char *path)
{
    const char *own = sn_view_shown() ? sn_tree_path() : NULL;
    size_t n = own ? strlen(own) : 0, len = strlen(path);
    size_t sys = n && !strncmp(path + n, SN_DEV_FOLDER, sizeof(SN_DEV_FOLDER) - 1) ? 0 : strlen(SYS);

    if (!n || strncmp(path, own, n) || (path[n] && path[n] != '/')) return;
    memmove(path + sys, path + n, len - n + 1);
    memcpy(path, SYS, sys);
}

int sn_view_device(const char *path, int flags, const void *caller)
{
    int nic = sn_tree_cdev(path, UV_MAX_NICS);

    sn_hooks_apply();
    sn_hooks_apply_at(caller);
    sn_signals_apply(); /* for libraries that were loaded since */
    return nic < 0 ? ucm_open(flags, &uv_callbacks) : uv_open(flags, (unsigned)nic);
}
