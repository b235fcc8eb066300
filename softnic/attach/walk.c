/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel does not know the NIC's folders, so it cannot walk through them. Here a path is walked as the
 * kernel would: a link on the way is followed before ".." leaves it. Nearly all paths of a program name
 * nothing of the NIC's. They are told apart by their letters, without a system call.
 */
#include "softnic/attach/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softnic/attach/view.h"
#include "softnic/sysfs/tree.h"

enum { UNKNOWN, OUTSIDE, INSIDE };

static int cwd_is;   /* atomic: in a tree of the NIC's? */
static bool entered; /* atomic */

void sn_walk_entered(void)
{
    __atomic_store_n(&entered, true, __ATOMIC_RELAXED); /* who has the fd got it in an ordered way */
}

void sn_walk_moved(void)
{
    __atomic_store_n(&cwd_is, UNKNOWN,
                     __ATOMIC_RELAXED); /* threads that race with chdir() cannot tell either */
}

/* ---- where a walk begins ---- */

/* Sets *inside if the folder is in a tree. */
static bool base_of(int dir, char name[SN_WALK_BYTES], bool *inside)
{
    char fd[32];
    ssize_t n;

    if (dir == AT_FDCWD) {
        if (!getcwd(name, SN_WALK_BYTES)) return false;
    } else {
        snprintf(fd, sizeof(fd), "/proc/self/fd/%d", dir);
        n = readlink(fd, name, SN_WALK_BYTES);
        if (n <= 0 || n == SN_WALK_BYTES || name[0] != '/') return false;
        name[n] = 0;
    }
    *inside = sn_tree_below(name) != NULL;
    sn_view_name(name);
    if (!strcmp(name, "/")) name[0] = 0;
    return true;
}

static bool cwd_inside(void)
{
    char name[SN_WALK_BYTES];
    int is = __atomic_load_n(&cwd_is, __ATOMIC_RELAXED);

    if (is == UNKNOWN) {
        bool inside = false;

        base_of(AT_FDCWD, name, &inside);
        is = inside ? INSIDE : OUTSIDE;
        __atomic_store_n(&cwd_is, is, __ATOMIC_RELAXED);
    }
    return is == INSIDE;
}

static bool may_be_inside(int dir)
{
    return dir == AT_FDCWD ? cwd_inside() : __atomic_load_n(&entered, __ATOMIC_RELAXED);
}

/* ---- steps ---- */

/* The name without links. */
static bool straighten(char name[SN_WALK_BYTES])
{
    char place[SN_WALK_BYTES], real[PATH_MAX];

    if (!realpath(sn_view_place(name, place) ? place : name[0] ? name : "/", real)) return false;
    sn_view_name(real);
    if (strlen(real) >= SN_WALK_BYTES) return false;
    strcpy(name, strcmp(real, "/") ? real : "");
    return true;
}

static bool step_up(char name[SN_WALK_BYTES])
{
    char *slash;

    if (!straighten(name)) return false;
    slash = strrchr(name, '/');
    if (slash) *slash = 0;
    return true;
}

static bool step_down(char name[SN_WALK_BYTES], const char *part, size_t n)
{
    size_t have = strlen(name);

    if (have + n + 3 > SN_WALK_BYTES) return false; /* a slash, another one after it, and the end */
    name[have] = '/';
    memcpy(name + have + 1, part, n);
    name[have + 1 + n] = 0;
    return true;
}

static bool is_part(const char *part, size_t n, const char *what)
{
    return n == strlen(what) && !memcmp(part, what, n);
}

/* Along `path`. Sets *ours where the NIC's is passed. */
static bool follow(char name[SN_WALK_BYTES], const char *path, bool *ours)
{
    for (const char *part = path; *part;) {
        size_t n = strcspn(part, "/");
        bool up = is_part(part, n, "..");

        if (up && !step_up(name)) return false;
        if (!up && n && !is_part(part, n, ".") && !step_down(name, part, n)) return false;
        *ours |= sn_view_owns(name);
        part += n;
        part += strspn(part, "/");
    }
    return true;
}

/* Does a link on the way, as /proc/self/root is one, lead to the NIC's? */
static bool leads_there(char name[SN_WALK_BYTES])
{
    char front[SN_WALK_BYTES], *rest = name + strlen(name);

    while (rest > name) {
        memcpy(front, name, (size_t)(rest - name));
        front[rest - name] = 0;
        if (straighten(front)) {
            size_t have = strlen(front);

            if (have + strlen(rest) >= SN_WALK_BYTES - 1) return false;
            memmove(front + have, rest, strlen(rest) + 1);
            memcpy(name, front, sizeof(front));
            return sn_view_owns(name);
        }
        do rest--;
        while (*rest != '/');
    }
    return false;
}

bool sn_walk(int dir, const char *path, char name[SN_WALK_BYTES])
{
    bool named = sn_view_named(path), ours = false;
    size_t n = strlen(path);

    name[0] = 0;
    if (!named && (path[0] == '/' || !may_be_inside(dir))) return false;
    if (path[0] != '/' && !base_of(dir, name, &ours)) return false;
    if (!named && !ours) return false;
    if (!follow(name, path, &ours) || (!ours && !leads_there(name))) return false;
    /* It follows a link, and names no file. */
    if (!name[0] || path[n - 1] == '/' || (n > 1 && !strcmp(path + n - 2, "/."))) strcat(name, "/");
    return true;
}
