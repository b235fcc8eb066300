/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.h: how the processes of one program find each other. Part of libgpuwire-collective.
 *
 * A program that runs as N processes numbers them. The number is a process's rank, from 0 to N - 1.
 * gw_ranks_join tells a process its rank and returns when all N have joined. Then the ranks can tell each
 * other their addresses, and each learns of the death of others.
 *
 *     gw_ranks_join(NULL, gw_deadline(LIMIT), &ranks);
 *     gw_ranks_publish(ranks, "address", mine, sizeof(mine));
 *     gw_ranks_fence(ranks, gw_deadline(LIMIT));
 *     gw_ranks_lookup(ranks, 3, "address", theirs, sizeof(theirs), gw_deadline(LIMIT));
 *     ...
 *     gw_ranks_leave(ranks, gw_deadline(LIMIT));
 *
 * How a process learns its rank:
 *
 *   plain  By GPUWIRE_RANK, GPUWIRE_SIZE and GPUWIRE_RENDEZVOUS=HOST:PORT, or by attributes. Rank 0 listens
 *          there. Any launcher that sets an environment will do. torchrun's RANK, WORLD_SIZE, MASTER_ADDR and
 *          MASTER_PORT do, too. As torchrun listens at that port itself, rank 0 takes the next one.
 *   PMIx   From the launcher: `mpirun -n 4 PROGRAM`, `srun --mpi=pmix -n 4 PROGRAM`. PMIx also carries rank
 *          0's address and a secret. When one process dies, a launcher ends the whole program. Open MPI 4
 *          does not with `--mca orte_enable_recovery 1`, nor Slurm with `--no-kill --kill-on-bad-exit=0`.
 *   alone  With none of these a process is rank 0 of 1.
 *
 * In each case the ranks talk over TCP with rank 0, at which every rank has one connection. Rank 0 notices a
 * process that ends, as its connection closes. A host that disappears is noticed after half a minute. When
 * rank 0 itself dies, the others learn that, and nothing more of each other: calls return -ECONNRESET.
 *
 * Host only. Any thread may call anything but gw_ranks_leave, at any time. No call makes or waits for GPU
 * work, so all may be called while kernels run. Functions return 0, a count or a negative errno with one
 * line in gw_last_error(). Sizes are bytes; deadlines are absolute, as gw_deadline makes them.
 */
#ifndef GPUWIRE_RANKS_H
#define GPUWIRE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_ranks;

enum {
    GW_RANKS_MAX = 4096,       /* ranks of a program */
    GW_RANKS_KEY = 64,         /* bytes of a key, with its final zero */
    GW_RANKS_VALUE = 64 << 10, /* bytes of a published value, and of a rank's part of gw_ranks_gather */
    GW_RANKS_KEYS = 4096,      /* keys that one rank may publish */
    GW_RANKS_ROOM = 16 << 20,  /* bytes that one rank may publish, and all ranks of a gather together */
    GW_RANKS_SECRET = 64,      /* bytes of a secret, with its final zero */
};

enum gw_ranks_how {
    GW_RANKS_AUTO = 0, /* what the environment offers: GPUWIRE_RANK, else PMIx, else RANK, else alone */
    GW_RANKS_ALONE = 1,
    GW_RANKS_PLAIN = 2,
    GW_RANKS_PMIX = 3,
};

/* How to join. All zero, or a NULL pointer: the environment decides. */
struct gw_ranks_attr {
    uint32_t how;        /* enum gw_ranks_how */
    uint32_t rank, size; /* PLAIN with size > 0: instead of the environment's */
    const char
        *rendezvous;    /* PLAIN: HOST:PORT of rank 0; [ADDRESS]:PORT for IPv6. NULL: GPUWIRE_RENDEZVOUS */
    const char *secret; /* PLAIN: all ranks must name the same; up to 63 bytes. NULL: GPUWIRE_SECRET, or none.
                             * It keeps other programs away from the port, and is sent in clear */
    uint32_t listener;  /* PLAIN, rank 0: 1 + a TCP socket that listens already; 0: none. The call owns it */
};

/*
 * Joins, and returns when all ranks have. Rank 0 listens at HOST if that is an address, and at all
 * addresses if it is a name. Others try to connect until the deadline.
 *
 *   `-ETIMEDOUT`      some ranks have not come: the line names them. Or rank 0 cannot be reached.
 *   `-EADDRINUSE`     rank 0 cannot listen: another program does.
 *   `-EADDRNOTAVAIL`  rank 0 cannot listen: that is no address of this host.
 *   `-EACCES`         rank 0 has another secret.
 *   `-EPROTO`         rank 0 has another size, or has a process of this rank already, or what listens there
 *                     is something else.
 *   `-ECONNRESET`     a rank died during the call.
 *   `-ENOSYS`         PMIx was asked for, and is not there: the line says what is missing.
 *   `-ENOENT`         no such host.
 *   `-EINVAL`         an attribute or a variable is no number, is out of range, or is missing.
 *   `-ENOMEM`, and what the system says of sockets and threads.
 */
GW_API int gw_ranks_join(const struct gw_ranks_attr *attr, uint64_t deadline_ns, struct gw_ranks **out);

/* This process's rank, and how many there are. */
GW_API uint32_t gw_ranks_rank(const struct gw_ranks *ranks);
GW_API uint32_t gw_ranks_size(const struct gw_ranks *ranks);

/* This process's place among the ranks of its host, from 0, and how many they are. A process takes the GPU of
 * that number, say. Containers with host names of their own count as hosts. */
GW_API uint32_t gw_ranks_local_rank(const struct gw_ranks *ranks);
GW_API uint32_t gw_ranks_local_size(const struct gw_ranks *ranks);

/* How it joined: enum gw_ranks_how, never AUTO. */
GW_API uint32_t gw_ranks_how(const struct gw_ranks *ranks);

/*
 * Publishes a value under a key of this rank's. A key can be published once. It does not wait for others. The
 * bytes are copied.
 *
 *   `-EINVAL`      the key is empty or too long, or the value is.
 *   `-ECONNRESET`  rank 0 is dead.
 *
 * Rank 0 takes the value later. It drops a rank that publishes a key twice or too much: the other ranks
 * see it die.
 */
GW_API int gw_ranks_publish(struct gw_ranks *ranks, const char *key, const void *value, size_t size);

/*
 * Copies what `rank` has published under key; waits for it until the deadline. Returns the value's size, of
 * which at most `size` bytes were copied.
 *
 *   `-ETIMEDOUT`   it has not, so far.
 *   `-ESRCH`       that rank is dead or has left, and never published it.
 *   `-ECONNRESET`  rank 0 is dead.
 *   `-EBUSY`       this process already waits for 1,024 values.
 *   `-EINVAL`      no such rank, or the key is empty or too long.
 */
GW_API int64_t gw_ranks_lookup(struct gw_ranks *ranks, uint32_t rank, const char *key, void *value,
                               size_t size, uint64_t deadline_ns);

/*
 * Waits until all ranks call it. What each has published before is visible to all afterwards. One thread of a
 * process at a time.
 *
 *   `-ETIMEDOUT`   some have not come: the line names them. The call still counts: call again to go on
 *   waiting.
 *   `-ECONNRESET`  a rank is dead or has left, or rank 0 is dead. The line names it.
 *   `-EPROTO`      another rank calls gw_ranks_gather, or with another size.
 *   `-EBUSY`       another thread is in a fence or gather.
 */
GW_API int gw_ranks_fence(struct gw_ranks *ranks, uint64_t deadline_ns);

/* A fence that also gives every rank what each brought: `size` bytes of `mine`, the same size everywhere, to
 * all + rank * size. Errors as gw_ranks_fence; -EINVAL: more than GW_RANKS_VALUE, or than GW_RANKS_ROOM in
 * all. */
GW_API int gw_ranks_gather(struct gw_ranks *ranks, const void *mine, size_t size, void *all,
                           uint64_t deadline_ns);

/* Is that rank known to be dead? A process that ended without gw_ranks_leave is dead. False: no such rank. */
GW_API bool gw_ranks_is_dead(const struct gw_ranks *ranks, uint32_t rank);

/* Copies up to n of the ranks that are known to be dead to list (NULL with n == 0), in the order of their
 * deaths. Returns how many they are. */
GW_API uint32_t gw_ranks_dead(const struct gw_ranks *ranks, uint32_t *list, uint32_t n);

/*
 * A descriptor that becomes readable when a rank dies: each read(2) of 4 bytes gives one dead rank, as a
 * uint32_t. Those that are dead already come first. It is at its end when this process leaves. The caller
 * closes it. Each call makes another one. Returns the descriptor, or -EMFILE and what else the system says.
 */
GW_API int gw_ranks_watch(struct gw_ranks *ranks);

/*
 * Leaves and frees: for the others this process is then not dead, but gone. On rank 0 it waits until the
 * others have left or died, or until the deadline: they need it. No other call may run or follow. NULL is
 * allowed. Returns 0; -ETIMEDOUT: some had not left, and see rank 0 die now. It frees everything in any case.
 */
GW_API int gw_ranks_leave(struct gw_ranks *ranks, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
