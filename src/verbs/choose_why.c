/* SPDX-License-Identifier: Apache-2.0 */
/* Why a NIC of this machine cannot be opened. The call of libibverbs does not tell. It looks for the device's
 * file in several places, and errno is that of the last one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/verbs/impl.h"

#define NO_FILE "cannot open %s: there is no %s; in a container pass /dev/infiniband in"

/* The file in /dev/infiniband that libibverbs opens for a device, as in "uverbs0". */
static bool uverbs_of(const char *device, char file[64])
{
    DIR *d = opendir("/sys/class/infiniband_verbs");
    bool found = false;

    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[PATH_MAX], line[64];

        snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%.63s/ibdev", e->d_name);
        found = gw_first_line(path, line, sizeof(line)) && !strcmp(line, device);
        if (found) snprintf(file, 64, "%.63s", e->d_name);
    }
    if (d) closedir(d);
    return found;
}

int gw_cannot_open(const char *device, int err)
{
    char file[64], path[96];

    err = err && err != ENOENT ? -err : -EIO; /* -ENOENT is for unknown names */
    if (!uverbs_of(device, file)) return gw_error_errno(err, "cannot open %s", device);
    snprintf(path, sizeof(path), "/dev/infiniband/%s", file);
    if (!faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS))
        return gw_error_errno(err, "cannot open %s (%s)", device, path);
    if (errno == EPERM) /* not its mode, but the control group of devices */
        return gw_error(-EACCES, "cannot open %s: this container may not use %s: start it with --device %s",
                        device, path, path);
    if (errno == EACCES)
        return gw_error(-EACCES,
                        "cannot open %s: no permission for %s: `chmod 666` it, as rdma-core's udev rule does",
                        device, path);
    return gw_error(-ENODEV, NO_FILE, device, path);
}

int gw_no_device(const char *name, int err)
{
    char path[PATH_MAX], file[64];

    if (name && uverbs_of(name, file)) {
        snprintf(path, sizeof(path), "/dev/infiniband/%s", file);
        if (access(path, F_OK)) return gw_error(-ENODEV, NO_FILE, name, path);
    }
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s", name ? name : "");
    if (name && !access(path, F_OK))
        return gw_error(err,
                        "libibverbs does not know %s: `modprobe ib_uverbs`, and install its driver for it "
                        "(ibverbs-providers)",
                        name);
    return gw_error(err, "there is no RDMA device%s%s on this machine; `gpuwire info` lists what there is",
                    name ? " called " : "", name ? name : "");
}
