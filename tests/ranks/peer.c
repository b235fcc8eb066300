/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of a program that a launcher starts: peer [die RANK]. It tells the others something, reads what
 * they tell, and says `rank R of N by HOW: all said`. With `die` that rank kills itself, and the others say
 * `rank R of N saw D die`.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/ranks.h>

#define LIMIT gw_deadline(UINT64_C(60000000000))

static int peer_fail(const char *what)
{
    fprintf(stderr, "ranks_peer: %s: %s\n", what, gw_last_error());
    return 1;
}

/* Every rank reads what every other said, before and after a fence. */
static int peer_talk(struct gw_ranks *r)
{
    uint32_t rank = gw_ranks_rank(r), size = gw_ranks_size(r), all[64] = {0}, word = rank * 7 + 1, got;

    if (gw_ranks_publish(r, "word", &word, sizeof(word))) return peer_fail("publish");
    if (gw_ranks_fence(r, LIMIT)) return peer_fail("fence");
    for (uint32_t i = 0; i < size; i++)
        if (gw_ranks_lookup(r, i, "word", &got, sizeof(got), LIMIT) != sizeof(got) || got != i * 7 + 1)
            return peer_fail("lookup");
    if (size > 64 || gw_ranks_gather(r, &rank, sizeof(rank), all, LIMIT)) return peer_fail("gather");
    for (uint32_t i = 0; i < size; i++)
        if (all[i] != i) return peer_fail("gathered");
    if (gw_ranks_local_size(r) != size || gw_ranks_local_rank(r) != rank) return peer_fail("one host");
    printf("rank %u of %u by %u: all said\n", rank, size, gw_ranks_how(r));
    return 0;
}

static int peer_mourn(struct gw_ranks *r, uint32_t victim)
{
    uint32_t dead = UINT32_MAX;
    int fd = gw_ranks_watch(r);

    if (gw_ranks_rank(r) == victim) raise(SIGKILL);
    if (fd < 0 || gw_wait_fds(&fd, 1, LIMIT) != 1 || read(fd, &dead, sizeof(dead)) != sizeof(dead))
        return peer_fail("watch");
    close(fd);
    if (gw_ranks_fence(r, LIMIT) != -ECONNRESET) return peer_fail("a fence without the dead rank");
    printf("rank %u of %u saw %u die\n", gw_ranks_rank(r), gw_ranks_size(r), dead);
    return 0;
}

int main(int argc, char **argv)
{
    struct gw_ranks *r;
    int err;

    if (gw_ranks_join(NULL, LIMIT, &r)) return peer_fail("join");
    err = peer_talk(r);
    if (!err && argc == 3 && !strcmp(argv[1], "die")) err = peer_mourn(r, (uint32_t)atoi(argv[2]));
    if (gw_ranks_leave(r, LIMIT) && !err) err = peer_fail("leave");
    return err;
}
