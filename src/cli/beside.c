/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files that lie beside the tool, such as the software NIC's library. */
#include "src/cli/beside.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Programs in libexec/gpuwire look from where `gpuwire` is. */
static const char *to_bin(const char *dir)
{
    static const char libexec[] = "/libexec/gpuwire";
    size_t len = strlen(dir), tail = sizeof(libexec) - 1;

    return len >= tail && !strcmp(dir + len - tail, libexec) ? "/../../bin" : "";
}

int gw_beside(const char *const *places, size_t n, const char *name, int mode, char path[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    path[0] = 0;
    if (len < 0) return -errno;
    self[len] = 0;
    const char *dir = dirname(self), *bin = to_bin(dir);
    for (size_t i = 0; i < n; i++) {
        int size = snprintf(path, PATH_MAX, "%s%s/%s/%s", dir, bin, places[i], name);
        if (size >= PATH_MAX)
            errno = ENAMETOOLONG;
        else if (!access(path, mode))
            return 0;
    }
    return -errno;
}

void gw_softnic_library(char path[PATH_MAX])
{
    static const char name[] = "libgpuwire-softnic.so";
    static const char *const places[] = {"../lib", ("../lib/" GW_LIBRARY_ARCH), ".", "../../softnic"};
    const char *given = getenv("GPUWIRE_SOFTNIC_LIBRARY");

    if (given && *given)
        snprintf(path, PATH_MAX, "%s", given);
    else if (gw_beside(places, sizeof(places) / sizeof(places[0]), name, R_OK, path))
        snprintf(path, PATH_MAX, "%s", name);
}
