/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/near.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softnic/name.h"
#include "softnic/wire/slot.h"

/* An answer costs three system calls; so often, for all peers that are known, they are next to nothing. */
#define HOLDS_NS 100000000u
#define DOUBT_NS 5000000u

enum { THE_ADDRESS = SN_SLOTS }; /* what an answer is about, if not about a slot */

static struct sn_name name_of(const uint8_t gid[16], unsigned slot)
{
    char text[33];

    return sn_name("%s/slot/%u", sn_name_of_gid(gid, text), slot);
}

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

int sn_near_claim(const uint8_t gid[16], unsigned slot)
{
    struct sn_name name = name_of(gid, slot);
    int fd = new_socket(), err = fd < 0 ? fd : sn_name_bind(fd, &name);

    if (!err) return fd;
    if (fd >= 0) close(fd);
    return err;
}

/* Nothing is sent: that there is somebody to connect to is the answer. */
static bool ask(const uint8_t gid[16], unsigned slot)
{
    struct sn_name name = name_of(gid, slot);
    int fd = new_socket();
    bool is = fd >= 0 && sn_name_connect(fd, &name) == 0;

    if (fd >= 0) close(fd);
    return is;
}

static bool is_here(const struct sn_addr *addr)
{
    struct sockaddr_in6 sa;
    socklen_t len = sn_addr_to_sock(addr, 0, &sa);
    int fd = socket(sa.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is = fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0;

    if (fd >= 0) close(fd);
    return is;
}

/* A clock of some milliseconds will do, and is the cheapest to read. */
static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + 1;
}

/* The answer that was had, if it still holds, or the place for a new one, with what it is about filled in. */
static struct sn_near_answer *answer(struct sn_near *near, const uint8_t gid[16], unsigned about,
                                     uint64_t doubt_ns, bool *holds)
{
    struct sn_near_answer *a =
        &near->known[(about ^ (unsigned)gid[15] * 5 ^ (unsigned)gid[14] * 11) % SN_NEAR_KNOWN];
    uint64_t now = now_ns();

    *holds = a->asked_ns && a->about == about && !memcmp(a->gid, gid, 16) &&
             now - a->asked_ns < (a->is ? HOLDS_NS : doubt_ns);
    if (*holds) return a;
    a->asked_ns = now;
    a->about = about;
    memcpy(a->gid, gid, 16);
    return a;
}

bool sn_near_to(struct sn_near *near, const uint8_t gid[16], unsigned slot)
{
    bool holds;
    struct sn_near_answer *a = answer(near, gid, slot, HOLDS_NS, &holds);

    if (!holds) a->is = ask(gid, slot);
    return a->is;
}

bool sn_near_from(struct sn_near *near, const struct sn_addr *from)
{
    bool holds;
    struct sn_near_answer *a = answer(near, from->gid, THE_ADDRESS, DOUBT_NS, &holds);

    if (!holds) a->is = is_here(from);
    return a->is;
}
