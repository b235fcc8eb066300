/* SPDX-License-Identifier: Apache-2.0 */
/* A loop, as its files share it. */
#ifndef GW_LOOP_IMPL_H
#define GW_LOOP_IMPL_H

#include <pthread.h>

#include <gpuwire/loop.h>

#include "src/exec/impl.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gw_loop_ops {
    int (*prepare)(struct gw_loop *loop); /* before all others; undoes everything when it fails */
    int (*build)(struct gw_loop *loop, uint32_t variant); /* makes a variant ready, also while it runs */
    int (*start)(struct gw_loop *loop);                   /* of a prepared one; again when it has ended */
    void (*join)(struct gw_loop *loop); /* what start began is over: nothing of it is under way afterwards */
    int (*ended)(
        struct gw_loop *loop); /* 0: it runs, 1: it ended, or why it broke (a negative errno, with a text) */
    void (*destroy)(struct gw_loop *loop); /* what prepare and start made */
};

/* The graphs that a loop on a GPU may launch next: cudaGraphExec_t; NULL where there is no such variant. In
 * GPU memory. */
struct gw_loop_graphs {
    uint64_t variants; /* the highest */
    void *exec[];      /* [0] has the common stages, [n] variant n's and then the common ones */
};

/* A stage, behind the one that was added to its variant before. It stays where it is. */
struct gw_loop_step {
    struct gw_loop_stage stage; /* name and arg are copies */
    struct gw_loop_step *next;
};

/* The stages of a variant; [0]: of every iteration. */
struct gw_loop_variant {
    struct gw_loop_step *first, *last;
    uint32_t ready; /* 1: it may be picked, and gets no further stages */
    void *exec;     /* GPU: its graph, cudaGraphExec_t */
};

struct gw_loop {
    struct gw_exec *exec;
    const struct gw_loop_ops *ops;
    char name[32];
    struct gw_loop_variant *variant; /* variants + 1 of them */
    uint32_t variants;
    struct gw_mem shared_mem, ctl_mem;
    struct gw_loop_shared *shared; /* where the host sees it */
    int wake_fd;                   /* stays readable once the loop must end: CPU stages sleep on it */
    int owner_fd;                  /* readable when the owner has something to look at */
    int prepared, started;
    uint32_t woken;    /* gw_loop_wake was called; atomic */
    uint64_t stop_ns;  /* when gw_loop_stop was called first; atomic */
    uint64_t ended_ns; /* when the end was seen first; atomic */
    uint32_t paused;   /* pauses begun and ended; odd: an end is not the owner's to see; atomic */
    char why[256];     /* CPU: what went wrong; written before shared->ended */

    struct gw_cpu_pool *pool; /* CPU */
    pthread_t thread;
    int thread_runs; /* it is to be joined */

    struct gw_mem graphs_mem; /* GPU: a struct gw_loop_graphs, for the kernel that launches them */
    void *stream;             /* GPU: the graphs run in it */
    /* GPU: stages are captured in `main`, and in `side` what runs beside others; the events order the two */
    void *main, *side, *fork, *join;
    uint32_t announced; /* CUDA made its last call into this struct; atomic */
};

/* Ends what runs, and lets gw_loop_resume start it again: the owner does not see an end. One thread, of a
 * loop that was started. */
void gw_loop_pause(struct gw_loop *loop);
/* 0, also when the loop had ended by itself or gw_loop_stop was called: it stays so. Or as gw_loop_start. */
int gw_loop_resume(struct gw_loop *loop);

/* The loop is over: notes when, and wakes the owner. Any thread. */
void gw_loop_note_end(struct gw_loop *loop);

extern const struct gw_loop_ops gw_loop_cpu_ops;
extern const struct gw_loop_ops gw_loop_gpu_ops; /* in loop_gpu.cu, or in loop_gpu_none.c without nvcc */

/* loop_tail.cu: puts the kernel that ends an iteration into a stream; `graphs` is in GPU memory. Returns a
 * cudaError_t. */
int gw_loop_tail_launch(struct gw_loop_ctl *ctl, const struct gw_loop_graphs *graphs, void *stream);

#ifdef __cplusplus
}
#endif
#endif
