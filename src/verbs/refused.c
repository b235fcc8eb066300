/* SPDX-License-Identifier: Apache-2.0 */
/* Explains what the kernel refuses for lack of memory that may be locked. It pins the pages of regions and of
 * queues alike, and says nothing but ENOMEM. In containers the limit is often 64 KiB or 8 MiB. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "src/verbs/impl.h"

int gw_refused(const struct gw_device *dev, int err, const char *format, ...)
{
    struct rlimit limit;
    char what[160];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (err != -ENOMEM) return gw_error_errno(err, "%s: %s", dev->info.name, what);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return gw_error(err, "%s: %s: no memory", dev->info.name, what);
    return gw_error(
        err,
        "%s: %s: this process may lock %llu KiB of memory; raise that (`ulimit -l unlimited`, memlock "
        "in /etc/security/limits.conf, LimitMEMLOCK= of a service, --ulimit memlock=-1 of a "
        "container)",
        dev->info.name, what, (unsigned long long)limit.rlim_cur / 1024);
}
