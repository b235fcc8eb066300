/* SPDX-License-Identifier: Apache-2.0 */
/* Tells paths of the NIC's files from the system's own. */
#include "softnic/attach/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/attach/counters.h"
#include "softnic/attach/hooks.h"
#include "softnic/attach/signals.h"
#include "softnic/attach/walk.h"
#include "softnic/cm/cm.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/uverbs.h"

#define SYS "/sys"

static char other_root[256]; /* "": libibverbs looks below /sys, too */
static bool shown;           /* atomic */

void sn_view_show(const char *root)
{
    snprintf(other_root, sizeof(other_root), "%s", strcmp(root, SYS) ? root : "");
    __atomic_store_n(&shown, true, __ATOMIC_RELEASE); /* a thread that sees it sees the root */
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

/* The part after the tree's folder in the place of a name; NULL: it is the system's. */
static const char *rest_of(const char *name)
{
    const size_t dev = sizeof(SN_DEV_FOLDER) - 1;
    const char *rest;

    if (!strncmp(name, SN_DEV_FOLDER, dev)) return !name[dev] || name[dev] == '/' ? name : NULL;
    rest = below(name, SYS);
    return rest ? rest : below(name, other_root);
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

bool sn_view_owns(const char *name)
{
    return rest_of(name) != NULL;
}

bool sn_view_named(const char *path)
{
    size_t n = strlen(other_root);
    return sn_tree_mentioned(path) || (n && !strncmp(path, other_root, n));
}

bool sn_view_place(const char *name, char place[SN_VIEW_BYTES])
{
    const char *rest = rest_of(name), *own = rest ? tree() : NULL;
    int len = own ? snprintf(place, SN_VIEW_BYTES, "%s%s", own, rest) : -1;

    return len >= 0 && len < SN_VIEW_BYTES;
}

static enum sn_seen look_closely(int dir, const char **path, char *buf)
{
    char name[SN_WALK_BYTES];

    if (!sn_walk(dir, *path, name)) return SN_SEEN_OTHER;
    if (is_device(name) || !sn_view_owns(name)) {
        strcpy(buf, name);
        *path = buf;
        return sn_view_owns(name) ? SN_SEEN_DEVICE : SN_SEEN_OTHER;
    }
    sn_hooks_apply();
    if (!sn_view_place(name, buf)) return SN_SEEN_OTHER;
    sn_counters_refresh(rest_of(name));
    sn_walk_entered();
    *path = buf;
    return SN_SEEN_TREE;
}

enum sn_seen sn_view_look(int dir, const char **path, char buf[SN_VIEW_BYTES])
{
    int before = errno;
    enum sn_seen seen = SN_SEEN_OTHER;

    if (*path && **path && sn_view_shown()) seen = look_closely(dir, path, buf);
    errno = before;
    return seen;
}

void sn_view_name(char *path)
{
    const char *rest = sn_view_shown() ? sn_tree_below(path) : NULL;
    size_t sys, n = rest ? (size_t)(rest - path) : 0;

    if (!n) return;
    sys = strncmp(rest, SN_DEV_FOLDER, sizeof(SN_DEV_FOLDER) - 1) ? strlen(SYS) : 0;
    memmove(path + sys, rest, strlen(rest) + 1);
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
