/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a peer's user with ours, through user namespaces. */
#include "softnic/base/cred.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* The kernel's default. It also serves where /proc cannot be read. */
enum { OVERFLOW_UID = 65534 };

static uid_t cred_overflow_uid(void)
{
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
    unsigned uid;

    if (!f) return OVERFLOW_UID;
    if (fscanf(f, "%u", &uid) != 1) uid = OVERFLOW_UID;
    fclose(f);
    return uid;
}

/*
 * One line that maps every number to itself: the initial user namespace, or one that is as good. A map that
 * cannot be read counts as a partial one.
 */
static bool every_user_has_a_number(void)
{
    FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned inside, outside, count;
    bool all;

    if (!f) return false;
    all = fscanf(f, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
          count == 4294967295u;
    fclose(f);
    return all;
}

bool sn_cred_is_user(const struct ucred *peer, uid_t uid)
{
    if (peer->uid != uid) return false;
    return uid != cred_overflow_uid() || every_user_has_a_number();
}

bool sn_cred_is_ours(const struct ucred *peer)
{
    return sn_cred_is_user(peer, geteuid());
}

bool sn_cred_has_own_user(void)
{
    return sn_cred_is_ours(&(struct ucred){.uid = geteuid()});
}

int sn_cred_of_socket(int fd, struct ucred *peer)
{
    socklen_t len = sizeof(*peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) ? -errno : 0;
}
