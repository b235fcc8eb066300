/* SPDX-License-Identifier: Apache-2.0 */
/* launch_impl.h: what launch.c and launch_ranks.c share. */
#ifndef GW_MAPREDUCE_LAUNCH_IMPL_H
#define GW_MAPREDUCE_LAUNCH_IMPL_H

#include <fcntl.h>

#include "launch.h"

/* Says what failed; returns err. */
int launch_say(int err, const char *what);
/* Makes the master's listening socket and the cookie. */
int launch_listen(struct launch *l, const char *address, uint16_t *port);

static inline void launch_blocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

#endif
