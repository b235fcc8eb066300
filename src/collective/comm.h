/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator on the host: its objects, where they lie, and what its files do for each other. */
#ifndef SRC_COLLECTIVE_COMM_H
#define SRC_COLLECTIVE_COMM_H

#include <pthread.h>

#include <gpuwire/collective.h>
#include <gpuwire/verbs.h>

#define GW_COMM_NAME 32

struct gw_comm {
    struct gw_ranks *ranks;
    struct gw_device *dev;
    struct gw_exec *exec;
    struct gw_pd *pd;
    struct gw_comm_attr attr;
    char name[GW_COMM_NAME + 12]; /* with a number: of those of this name so far */
    uint32_t rank, size, blocks, threads;
    uint32_t *members; /* each one's rank in the program */

    struct gw_cq **send_cq, **recv_cq; /* of each block */
    struct gw_qp **qp;                 /* [block * size + peer]; NULL: this rank */
    struct gw_mem small, large;        /* front, words and small slots; large slots */
    struct gw_mr *small_mr, *large_mr;
    struct gw_mem state;        /* the handle, pipes and tables, as kernels see them */
    struct gw_comm_handle h;    /* the handle's copy */
    struct gw_pipe_ *pipe;      /* the pipes' first values */
    uint64_t there_at, rkey_at; /* in state: the tables of buffers' addresses and keys */

    struct {
        struct gw_mr *mr;
    } buffer[GW_COMM_MAX_BUFFERS];
    uint32_t registrations; /* so far: they are told apart by this number */

    struct gw_mem lists;  /* host memory: the lists of an all-to-all(v) */
    struct gw_mem result; /* host memory: of each block */
    uint32_t running;     /* blocks of what was started; 0: nothing */
    uint64_t until_ns;    /* its deadline */

    pthread_t watcher;
    bool watched;
    int death_fd, stop_fd; /* -1: none */
};

/* ---- memory.c ------------------------------------------------------------------------------------------ */

/* Allocates and registers what the NIC and the kernels use, and makes the queue pairs. Frees all of it. */
int gw_comm_memory(struct gw_comm *c);
void gw_comm_memory_free(struct gw_comm *c);

/* Puts the handle and the pipes where kernels see them. */
int gw_comm_memory_publish(struct gw_comm *c);

/* ---- meet.c -------------------------------------------------------------------------------------------- */

/* Learns the peers' queue pairs and memory, connects, and waits until all members have. */
int gw_comm_meet(struct gw_comm *c, uint64_t deadline_ns);

/* Every member says `size` bytes under a key of its own, and gets what all said, by their ranks here. */
int gw_comm_tell_all(struct gw_comm *c, const char *key, const void *mine, size_t size, void *all,
                     uint64_t deadline_ns);

/* ---- watch.c ------------------------------------------------------------------------------------------- */

/* A thread that waits for deaths, and tells the kernels. */
int gw_comm_watch(struct gw_comm *c);
void gw_comm_watch_end(struct gw_comm *c);

/* The word that says who has failed; 0: all is well. */
uint64_t gw_comm_fault_word(const struct gw_comm *c);

/* ---- calls.c ------------------------------------------------------------------------------------------- */

/* Launches a kernel whose blocks write their results into c->result, for gw_coll_wait. limit: what is left
 * until a deadline, as kernels take it. */
int gw_comm_launch(struct gw_comm *c, const struct gw_kernel *kernel, uint32_t blocks, const void *args,
                   uint64_t deadline_ns);
uint64_t gw_comm_limit(uint64_t deadline_ns);

/* A line about a failed call: who is to blame. Returns err. */
int gw_comm_explain(const struct gw_comm *c, int err);

#endif
