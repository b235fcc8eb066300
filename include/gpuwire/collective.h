/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.h: operations in which all ranks of a program take part. Part of libgpuwire-collective.
 *
 *     gw_ranks_join(NULL, gw_deadline(LIMIT), &ranks);      // gpuwire/ranks.h
 *     gw_device_open(NULL, exec, &dev);                     // gpuwire/verbs.h
 *     gw_comm_create(ranks, dev, NULL, gw_deadline(LIMIT), &comm);
 *     gw_allreduce(comm, grad, grad, n, GW_DTYPE_F32, GW_SUM, gw_deadline(LIMIT));
 *
 * A communicator has queue pairs to every other rank. Data goes by RDMA: a put, and after it a signal that
 * the peer polls. No thread of the CPU takes part, unless it runs the kernels.
 *
 * Two ways to call. On the host, gw_allreduce and its kin launch a kernel and wait for its end; gw_coll_start
 * and gw_coll_wait do these one by one. Inside a kernel, the blocks of the grid call gw_coll_allreduce and
 * its kin together. So a kernel can compute, reduce and go on without the CPU.
 *
 * All ranks make the same calls in the same order, with the same sizes, types and roots, and inside kernels
 * with the same number of blocks. A rank that differs is noticed when its data comes: -EPROTO. (Where two
 * ranks wait for each other in different calls, the deadline ends it.)
 *
 * Buffers. Any memory that the executor's kernels reach will do: it is copied through the communicator's own
 * buffers, piece by piece, while earlier pieces travel. Memory that all ranks have registered
 * (gw_comm_register) needs no copies in all-gather, broadcast and all-to-all, where a rank's part is
 * large. In a call either all ranks use registered memory, or none. send and recv may be the same in
 * all-reduce and broadcast. In all-gather send may be this rank's part of recv. Else they must not overlap.
 *
 * Results. Integers are exact. Each rank gets the same bits. Floating-point sums are made one by one, and
 * rounded to the type after each. `direct` begins with rank 0's and goes on in the order of ranks. `ring`
 * begins each part with the rank that comes after the part's owner. gw_coll_plan tells which parts, and
 * which way is taken. GW_AVG divides the sum at the end.
 *
 * Errors. A call that fails breaks the communicator, as the ranks are no longer at the same place. Every
 * later call returns -ECONNABORTED. The other ranks are told, and their calls return it, too. gw_comm_fault
 * says what happened, and which rank is to blame. Destroy the communicator then, and make another one with
 * the ranks that live.
 *
 *   `-ECONNRESET`    a rank is dead.
 *   `-EIO`           a queue pair has failed.
 *   `-ETIMEDOUT`     the deadline has passed.
 *   `-EPROTO`        the ranks do not make the same calls.
 *   `-ECONNABORTED`  another rank has failed, or an earlier call.
 *   `-EINVAL`        an argument makes no sense. Nothing was done, and the communicator still works.
 *
 * Host functions return 0 or a negative errno, with one line in gw_last_error(). Any thread may call them;
 * one at a time for a communicator. Sizes and offsets of buffers are bytes, counts are elements. Host
 * deadlines are as gw_deadline makes them. Deadlines in kernels are on the executor's clock: gw_clock_ns()
 * + nanoseconds.
 *
 * Memory order. What the threads of a grid wrote before gw_coll_sync is sent by a call after it. When a
 * call has returned in a block, what came for this block's share is visible to the block's threads; after
 * gw_coll_sync all of it is visible to all blocks.
 */
#ifndef GPUWIRE_COLLECTIVE_H
#define GPUWIRE_COLLECTIVE_H

#include <stdbool.h>

#include <gpuwire/dtype.h>
#include <gpuwire/group.h>
#include <gpuwire/ranks.h>
#include <gpuwire/verbs_device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_comm;
struct gw_comm_handle;
struct gw_device;

enum {
    GW_COMM_MAX_RANKS = 256,
    GW_COMM_MAX_BLOCKS = 32,
    GW_COMM_MAX_BUFFERS = 64, /* registered */
};

/* How values of several ranks become one. */
enum gw_reduce_op { GW_SUM = 0, GW_PROD = 1, GW_MAX = 2, GW_MIN = 3, GW_AVG = 4 };

/* The ways of an operation. */
enum gw_coll_way {
    GW_WAY_AUTO = 0,   /* by size, from a measured table */
    GW_WAY_DIRECT = 1, /* every rank sends to every other. All-reduce: all of it */
    GW_WAY_SPLIT = 2,  /* all-reduce: each rank reduces one part, and sends that to all */
    GW_WAY_RING = 3,   /* each rank sends to the next one. Broadcast: a chain */
};

/* ---- communicators ------------------------------------------------------------------------------------- */

/* All zero, or a NULL pointer: the defaults. All ranks use the same values. */
struct gw_comm_attr {
    uint32_t blocks;    /* that take part at most: each has queue pairs of its own. 0: 1 on CPU threads, 8 on
                              * a GPU. Fewer where there are very many ranks */
    uint32_t threads;   /* of a block that the host's calls launch. 0: the executor's lanes, or 256 */
    uint64_t staging;   /* bytes for all its buffers; 0: 64 MiB */
    uint32_t way;       /* enum gw_coll_way: for all calls; 0: by size */
    uint32_t immediate; /* 1: signal by immediates and completions, as where the NIC has no atomics */
    const uint32_t *members; /* the ranks that belong to it, in the order of their ranks in it; NULL: all */
    uint32_t size;           /* how many members */
    const char *name;        /* up to 31 bytes: two communicators that live at once in one program and share a
                              * rank have different names. NULL: one that counts those made so far */
};

/*
 * Makes a communicator; all its members call it. It keeps ranks and dev, which must outlive it, and allocates
 * and registers memory: call it before a resident kernel starts.
 *
 *   `-ETIMEDOUT`   a member did not come.
 *   `-ECONNRESET`  a member is dead.
 *   `-EPROTO`      a member has other attributes.
 *   `-EINVAL`      an attribute is out of range, or this rank is no member.
 *   `-ENOMEM`, and what making queue pairs and registering memory return.
 */
GW_API int gw_comm_create(struct gw_ranks *ranks, struct gw_device *dev, const struct gw_comm_attr *attr,
                          uint64_t deadline_ns, struct gw_comm **out);

/* Frees it; each rank by itself, when no kernel uses it. What others still wait for from this rank never
 * comes: let a gw_barrier be the last call. NULL is allowed. Returns 0; -EBUSY: buffers are registered. */
GW_API int gw_comm_destroy(struct gw_comm *comm);

/* This process's rank among the members, and how many they are. Any thread. */
GW_API uint32_t gw_comm_rank(const struct gw_comm *comm);
GW_API uint32_t gw_comm_size(const struct gw_comm *comm);

/* Blocks that take part in a kernel's call at most. */
GW_API uint32_t gw_comm_blocks(const struct gw_comm *comm);

/* Why it has failed: 0, or the negative errno that the first failing call returned, here or elsewhere. *rank:
 * the member that is to blame, or UINT32_MAX. Any thread, also while kernels run. */
GW_API int gw_comm_fault(const struct gw_comm *comm, uint32_t *rank);

/* The handle as the executor addresses it: pass it to kernels. Lives as long as the communicator. */
GW_API struct gw_comm_handle *gw_comm_handle(const struct gw_comm *comm);

/*
 * Registers memory for calls without copies. All members call it, in the same order and with the same
 * size, while no kernel uses the communicator. It allocates. *id names the registration.
 *
 *   `-ENOSPC`      GW_COMM_MAX_BUFFERS are registered.
 *   `-EPROTO`      a member registers another size.
 *   `-ETIMEDOUT`, `-ECONNRESET`  as gw_comm_create; and what gw_mr_register returns.
 */
GW_API int gw_comm_register(struct gw_comm *comm, void *addr, size_t size, uint64_t deadline_ns,
                            uint32_t *id);
/* All members call it, after a gw_barrier. -EINVAL: no such registration. */
GW_API int gw_comm_unregister(struct gw_comm *comm, uint32_t id);

/* ---- what an operation is
 * ------------------------------------------------------------------------------- */

enum gw_coll_kind {
    GW_COLL_BARRIER = 0,
    GW_COLL_BROADCAST = 1,
    GW_COLL_ALLREDUCE = 2,
    GW_COLL_REDUCE_SCATTER = 3,
    GW_COLL_ALLGATHER = 4,
    GW_COLL_ALLTOALL = 5,
    GW_COLL_ALLTOALLV = 6,
};

/*
 * One operation. Addresses are the executor's.
 *
 *   broadcast       count elements from root's send to all recv (root's own, too, unless they are the same)
 *   all-reduce      count elements each: recv[i] of all ranks is the reduction of their send[i]
 *   reduce-scatter  send has size * count elements; recv gets the reduction of part `rank`, count elements
 *   all-gather      send has count elements; recv gets size * count
 *   all-to-all      send and recv have size * count, and are not the same. Part i goes to rank i
 *   all-to-all(v)   send_count[i] elements from send + send_at[i] elements go to rank i.
 *                   recv_count[i] elements from rank i come to recv + recv_at[i]: as many as that rank
 *                   sends, else -EPROTO
 */
struct gw_coll {
    uint32_t kind;  /* enum gw_coll_kind */
    uint32_t dtype; /* enum gw_dtype */
    uint32_t op;    /* enum gw_reduce_op */
    uint32_t root;
    uint32_t way; /* enum gw_coll_way; 0: the communicator's */
    uint32_t pad;
    const void *send;
    void *recv;
    uint64_t count;
    const uint64_t *send_count, *send_at, *recv_count, *recv_at; /* all-to-all(v) alone: one of each rank */
};

/* ---- calls of the host --------------------------------------------------------------------------------- */

/* Each launches one kernel on the device's executor, behind what was launched there before, and waits for its
 * end. Their errors are above. -EINVAL: there is no such type, operation or rank; GW_AVG is for numbers
 * that are floating-point. */
GW_API int gw_barrier(struct gw_comm *comm, uint64_t deadline_ns);
GW_API int gw_broadcast(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                        uint32_t root, uint64_t deadline_ns);
GW_API int gw_allreduce(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                        uint32_t op, uint64_t deadline_ns);
GW_API int gw_reduce_scatter(struct gw_comm *comm, const void *send, void *recv, uint64_t count,
                             uint32_t dtype, uint32_t op, uint64_t deadline_ns);
GW_API int gw_allgather(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                        uint64_t deadline_ns);
GW_API int gw_alltoall(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                       uint64_t deadline_ns);

/* What an all-to-all(v) sends or receives: count[i] elements at base + at[i] elements. The arrays lie in the
 * host's memory. at NULL: one after the other. */
struct gw_parts {
    void *base;
    const uint64_t *count, *at;
};
/* The all-to-all(v); as the calls above. */
GW_API int gw_alltoallv(struct gw_comm *comm, const struct gw_parts *send, const struct gw_parts *recv,
                        uint32_t dtype, uint64_t deadline_ns);

/*
 * Launches an operation and returns: the host may do other things, and launch more on the executor. The
 * arrays of an all-to-all(v) lie in the host's memory, and are copied. deadline_ns is the operation's.
 * Errors as above, and -EBUSY: the last one has not been waited for.
 */
GW_API int gw_coll_start(struct gw_comm *comm, const struct gw_coll *coll, uint64_t deadline_ns);
/* Waits for what was started, and returns its result; it ends by its own deadline. */
GW_API int gw_coll_wait(struct gw_comm *comm);

/* How the host's calls would do it: the way, and how many blocks. */
struct gw_coll_plan {
    uint32_t way, blocks;
};
/* Fills *plan. 0; -EINVAL: the operation makes no sense. Any thread. */
GW_API int gw_coll_plan(const struct gw_comm *comm, const struct gw_coll *coll, struct gw_coll_plan *plan);

#ifdef __cplusplus
}
#endif

/* ---- calls of kernels ---------------------------------------------------------------------------------- */

/* The blocks of a grid that take part, as each of them sees it: block `block` of `blocks`. The grid must not
 * have more blocks than run at the same time (gw_exec_resident_blocks). On a GPU a block has 256 threads
 * at most: these calls may use all registers that a thread can have. */
struct gw_team {
    struct gw_comm_handle *comm;
    uint32_t block, blocks;
};

/* All blocks of the grid, which must not be more than gw_comm_blocks. Every thread calls it, and each has
 * its own copy; it orders nothing. */
GW_DEV struct gw_team gw_team_all(struct gw_comm_handle *comm);

/*
 * Does the block's share of an operation. Every thread of every block of the team calls it, with the same
 * operation; it returns the same in all threads of a block, 0 or one of the errors above. Its memory order is
 * there, too. coll may lie in each thread's own memory. The arrays of an all-to-all(v) lie where the kernels
 * reach them.
 */
GW_DEV int gw_coll_run(const struct gw_team *team, const struct gw_coll *coll, uint64_t deadline_ns);

/* All blocks of the team meet: what each thread wrote before is visible to all after. Every thread of every
 * block calls it. 0; -ETIMEDOUT; -ECONNABORTED: the communicator has failed. */
GW_DEV int gw_coll_sync(const struct gw_team *team, uint64_t deadline_ns);

/* dtype and op in one argument. Any thread; it orders nothing. */
GW_FN uint32_t gw_coll_type(uint32_t dtype, uint32_t op)
{
    return dtype | op << 8;
}

/*
 * Short forms of gw_coll_run, for every thread of every block of the team. They sync the team before and
 * after (gw_coll_sync): what any block wrote before is sent, and all that comes is visible to all blocks
 * after. Results as gw_coll_run. type: gw_coll_type.
 */
GW_DEV int gw_coll_allreduce(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                             uint32_t type, uint64_t deadline_ns);
GW_DEV int gw_coll_reduce_scatter(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                                  uint32_t type, uint64_t deadline_ns);
GW_DEV int gw_coll_allgather(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                             uint32_t type, uint64_t deadline_ns);
GW_DEV int gw_coll_alltoall(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                            uint32_t type, uint64_t deadline_ns);
/* root is the rank that sends. As the others. */
GW_DEV int gw_coll_broadcast(const struct gw_team *team, void *buffer, uint64_t count, uint32_t dtype,
                             uint32_t root, uint64_t deadline_ns);
/* All ranks have come. As the others. */
GW_DEV int gw_coll_barrier(const struct gw_team *team, uint64_t deadline_ns);

#include <gpuwire/detail/collective/state.h>
#include <gpuwire/detail/collective/reduce.h>
#include <gpuwire/detail/collective/pipe.h>
#include <gpuwire/detail/collective/steps.h>
#include <gpuwire/detail/collective/straight.h>
#include <gpuwire/detail/collective/table.h>
#include <gpuwire/detail/collective/run.h>

#endif
