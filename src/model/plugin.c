/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plug-ins: shared objects that hold a back-end. One is loaded only where no other user could have written
 * it, and its table and its tensors are checked before they are used.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/model/plugin.h"

#include "src/model/graph/msg.h"
#include "src/model/import/file.h"

#define SYMBOL      "gw_model_plugin_%u"
#define OTHERS_MOST (GW_MODEL_ABI + 32u) /* versions that are looked for, to name the one it has */

/* ---- who may have written it ---- */

/* A folder such as /tmp lets every user write, but not move other users' files. */
static bool plugin_is_ours(const struct stat *st)
{
    if (st->st_uid != 0 && st->st_uid != geteuid()) return false;
    return !(st->st_mode & (S_IWGRP | S_IWOTH)) || (S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX);
}

/* The file, then each folder above it. */
static int check_owners(char *path, const struct gwm_msg *msg)
{
    struct stat st;
    if (stat(path, &st)) return gwm_fail(msg, -errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return gwm_fail(msg, -ENOEXEC, "not a regular file");
    for (;;) {
        if (!plugin_is_ours(&st))
            return gwm_fail(msg, -EPERM,
                            "a plug-in is loaded only where root and this user (%u) alone may write: '%s' "
                            "belongs to %u, mode %03o; see chown, and chmod go-w",
                            geteuid(), path, st.st_uid, (unsigned)st.st_mode & 0777);
        char *slash = strrchr(path, '/');
        if (!slash || !path[1]) return 0;
        slash[slash == path] = 0; /* "/" stays */
        if (stat(path, &st)) return gwm_fail(msg, -errno, "%s: %s", path, strerror(errno));
    }
}

static int check_file(const char *path, char real[PATH_MAX], const struct gwm_msg *msg)
{
    char part[PATH_MAX];
    if (!realpath(path, real)) return gwm_fail(msg, -errno, "%s", strerror(errno));
    memcpy(part, real, sizeof(part));
    return check_owners(part, msg);
}

/* ---- its table ---- */

static const struct gw_model_backend *find_table(void *library, unsigned version)
{
    char name[32];
    snprintf(name, sizeof(name), SYMBOL, version);
    return dlsym(library, name);
}

static int no_table(void *library, const struct gwm_msg *msg)
{
    for (unsigned v = 1; v < OTHERS_MOST; v++)
        if (find_table(library, v))
            return gwm_fail(
                msg, -EPROTONOSUPPORT,
                "the plug-in's table is of version %u, this gpuwire takes version %u: build it again "
                "with this gpuwire's headers",
                v, GW_MODEL_ABI);
    return gwm_fail(msg, -ENOEXEC, "no plug-in: it defines no GW_MODEL_PLUGIN (" SYMBOL ")", GW_MODEL_ABI);
}

static const char *missing(const struct gw_model_backend *t)
{
    return !t->name                  ? "name"
           : !t->load && !t->load_in ? "load or load_in"
           : !t->unload              ? "unload"
           : !t->count               ? "count"
           : !t->info                ? "info"
           : !t->plan                ? "plan"
           : !t->plan_free           ? "plan_free"
           : !t->stats               ? "stats"
           : !t->run                 ? "run"
           : !t->enqueue             ? "enqueue"
           : !t->enqueue_indirect    ? "enqueue_indirect"
                                     : NULL;
}

static int check_table(const struct gw_model_backend *t, const struct gwm_msg *msg)
{
    if (t->abi != GW_MODEL_ABI)
        return gwm_fail(msg, -EPROTONOSUPPORT, "the plug-in's table says version %u, its name %u", t->abi,
                        GW_MODEL_ABI);
    const char *what = missing(t);
    return what ? gwm_fail(msg, -EBADMSG, "the plug-in's table has no %s", what) : 0;
}

/* ---- its tensors: mistakes in a plug-in are told here, before they do harm ---- */

static bool is_sound(const struct gw_tensor_info *t)
{
    uint64_t bytes = t && t->rank <= GW_MODEL_MAX_RANK ? gw_dtype_bytes(t->dtype) : 0;
    if (!bytes || !t->name || !*t->name || t->batched > 1 || (t->batched && (!t->rank || t->dims[0] != 1)))
        return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!t->dims[i] || __builtin_mul_overflow(bytes, t->dims[i], &bytes)) return false;
    return bytes == t->bytes;
}

static int check_tensors(const struct gwm_plugin *p, const struct gwm_msg *msg)
{
    for (int output = 0; output < 2; output++) {
        uint32_t n = p->table->count(p->object, output);
        const char *what = output ? "output" : "input";
        if (!n || n > GW_MODEL_MAX_IO)
            return gwm_fail(msg, -EBADMSG, "the plug-in's model has %u %ss; 1 to %d are possible", n, what,
                            GW_MODEL_MAX_IO);
        for (uint32_t i = 0; i < n; i++)
            if (!is_sound(p->table->info(p->object, output, i)))
                return gwm_fail(
                    msg, -EBADMSG,
                    "the plug-in's description of %s %u is wrong: name, dtype, rank, dims and bytes "
                    "must agree",
                    what, i);
    }
    return 0;
}

/* ---- loading ---- */

static int make_object(const char *path, struct gwm_plugin *p, const struct gwm_msg *msg)
{
    int dir = p->table->load_in ? gwm_open_folder(path) : -1;
    int err = p->table->load_in ? p->table->load_in(NULL, 0, path, dir, &p->object, msg->text, msg->len)
                                : p->table->load(NULL, 0, path, &p->object, msg->text, msg->len);
    if (dir >= 0) close(dir);
    if (err) return err < 0 ? err : gwm_fail(msg, -EBADMSG, "the plug-in's load returned %d", err);
    err = check_tensors(p, msg);
    if (err) p->table->unload(p->object);
    return err;
}

int gwm_plugin_load(const char *path, struct gwm_plugin *out, const struct gwm_msg *msg)
{
    char real[PATH_MAX];
    struct gwm_plugin p = {0};
    int err = check_file(path, real, msg);
    if (err) return err;
    p.library = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    if (!p.library) return gwm_fail(msg, -ENOEXEC, "%s", dlerror());
    p.table = find_table(p.library, GW_MODEL_ABI);
    err = p.table ? check_table(p.table, msg) : no_table(p.library, msg);
    if (!err) err = make_object(real, &p, msg);
    if (err)
        dlclose(p.library);
    else
        *out = p;
    return err;
}

void gwm_plugin_unload(const struct gwm_plugin *p)
{
    p->table->unload(p->object);
    if (p->library) dlclose(p->library);
}
