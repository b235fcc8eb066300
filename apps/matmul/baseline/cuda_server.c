/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU+CUDA server, as such servers are written well: threads with epoll(7) receive straight into pinned
 * memory; each connection has its own buffers on the GPU; copies and products are queued on streams, and the
 * thread goes on to other connections. Products of several connections that arrive together become one call
 * of cuBLAS.
 *
 *     app_matmul_cuda [ADDRESS:PORT [THREADS [STREAMS [BATCH]]]]
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "cublas.h"
#include "peer.h"

#define THREADS_MAX 64
#define STREAMS_MAX 16
#define BATCH_MAX   64
#define EVENTS      64

/* One connection. `in` and `out` of peer are pinned. */
struct job {
    struct peer peer;
    uint8_t *dev; /* A, B and C on the GPU */
    cudaEvent_t done;
    bool queued; /* its product is under way */
    struct job *next;
};

/* Jobs that were queued on a stream, oldest first. */
struct lane {
    cudaStream_t stream;
    struct job *first, *last;
    const void **pointers; /* of a batch: 3 × BATCH_MAX, in pinned memory that the GPU reads */
    cudaEvent_t used;      /* … until this event */
};

struct worker {
    pthread_t thread;
    int ep;
    void *blas;
    struct lane lanes[STREAMS_MAX];
    uint32_t turn, queued; /* turn: the next stream; queued: jobs on all of them */
    struct job *ready[BATCH_MAX];
    uint32_t ready_count;
};

static uint32_t thread_count = 4, stream_count = 4, batch_max = 16;
static struct worker workers[THREADS_MAX];
static struct cublas blas;
static pthread_barrier_t prepared;

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "matmul-cuda: %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Buffers only grow: a connection's next request is of the same size. */
static bool cuda_grow(struct peer *p, size_t in, size_t out)
{
    struct job *j = (struct job *)p;

    if (p->room >= in && p->out_room >= out) return true;
    cudaFreeHost(p->in);
    cudaFreeHost(p->out);
    cudaFree(j->dev);
    p->room = p->out_room = 0;
    if (cudaHostAlloc((void **)&p->in, in, cudaHostAllocDefault) ||
        cudaHostAlloc((void **)&p->out, out, cudaHostAllocDefault) || cudaMalloc((void **)&j->dev, in + out))
        return false;
    p->room = in;
    p->out_room = out;
    return true;
}

static void job_free(struct job *j)
{
    cudaFreeHost(j->peer.in);
    cudaFreeHost(j->peer.out);
    cudaFree(j->dev);
    cudaEventDestroy(j->done);
    free(j);
}

/* ---- products ----------------------------------------------------------------------------------------- */

/* Row by row, C = A B is, column by column, C' = B' A'. */
static bool lane_multiply(struct worker *w, struct lane *l, struct job **jobs, uint32_t count)
{
    const struct mm_request *head = &jobs[0]->peer.head;
    size_t one = head->length / 2;
    bool half = head->type == MM_FP16;
    struct cublas_product p = {.n = (int)head->n,
                               .type = half ? CUBLAS_R_16F : CUBLAS_R_32F,
                               .compute = head->type == MM_TF32 ? CUBLAS_FAST_TF32 : CUBLAS_32F};

    if (count == 1) {
        p.x = jobs[0]->dev + one;
        p.y = jobs[0]->dev;
        p.z = jobs[0]->dev + 2 * one;
        return cublas_multiply(&blas, w->blas, l->stream, &p);
    }
    if (cudaEventSynchronize(l->used)) return false; /* the last batch has read its pointers */
    p.count = (int)count;
    p.x = l->pointers;
    p.y = l->pointers + BATCH_MAX;
    p.z = l->pointers + 2 * BATCH_MAX;
    for (uint32_t i = 0; i < count; i++) {
        l->pointers[i] = jobs[i]->dev + one;
        l->pointers[BATCH_MAX + i] = jobs[i]->dev;
        l->pointers[2 * BATCH_MAX + i] = jobs[i]->dev + 2 * one;
    }
    return cublas_multiply(&blas, w->blas, l->stream, &p) && !cudaEventRecord(l->used, l->stream);
}

/* Queues the copies and products of jobs of one kind. */
static void lane_queue(struct worker *w, struct job **jobs, uint32_t count)
{
    struct lane *l = &w->lanes[w->turn++ % stream_count];
    bool ok = true;

    for (uint32_t i = 0; i < count; i++)
        ok = ok && !cudaMemcpyAsync(jobs[i]->dev, jobs[i]->peer.in, jobs[i]->peer.head.length,
                                    cudaMemcpyHostToDevice, l->stream);
    ok = ok && lane_multiply(w, l, jobs, count);
    for (uint32_t i = 0; i < count; i++) {
        struct job *j = jobs[i];

        ok = ok &&
             !cudaMemcpyAsync(j->peer.out, j->dev + j->peer.head.length, mm_out_bytes(j->peer.head.n),
                              cudaMemcpyDeviceToHost, l->stream) &&
             !cudaEventRecord(j->done, l->stream);
        j->next = NULL;
        if (l->first)
            l->last->next = j;
        else
            l->first = j;
        l->last = j;
        w->queued++;
    }
    must(ok, "product");
}

/* Requests of the same kind that are ready go together. */
static void worker_queue(struct worker *w)
{
    while (w->ready_count) {
        struct job *jobs[BATCH_MAX];
        const struct mm_request *kind = &w->ready[0]->peer.head;
        uint32_t count = 0, left = 0;

        for (uint32_t i = 0; i < w->ready_count; i++) {
            struct job *j = w->ready[i];

            if (count < batch_max && j->peer.head.n == kind->n && j->peer.head.type == kind->type)
                jobs[count++] = j;
            else
                w->ready[left++] = j;
        }
        w->ready_count = left;
        lane_queue(w, jobs, count);
    }
}

/* ---- connections -------------------------------------------------------------------------------------- */

static void worker_watch(struct worker *w, struct job *j, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = j};

    epoll_ctl(w->ep, EPOLL_CTL_MOD, j->peer.fd, &e);
}

static void worker_got(struct worker *w, struct job *j, enum peer_got got)
{
    while (got == PEER_ANSWERED) got = peer_read(&j->peer, cuda_grow);
    if (got == PEER_END) {
        job_free(j);
    } else if (got == PEER_REQUEST) {
        j->queued = true;
        worker_watch(w, j, 0);
        w->ready[w->ready_count++] = j;
        if (w->ready_count == BATCH_MAX) worker_queue(w);
    } else {
        worker_watch(w, j, j->peer.answering ? EPOLLOUT : EPOLLIN);
    }
}

/* Answers what is computed. */
static void worker_finish(struct worker *w)
{
    for (uint32_t i = 0; i < stream_count; i++) {
        struct lane *l = &w->lanes[i];

        while (l->first && cudaEventQuery(l->first->done) == cudaSuccess) {
            struct job *j = l->first;

            l->first = j->next;
            w->queued--;
            j->queued = false;
            peer_answer(&j->peer, MM_OK);
            worker_got(w, j, peer_write(&j->peer));
        }
    }
}

static void worker_prepare(struct worker *w)
{
    w->blas = cublas_handle(&blas);
    must(w->blas, "cuBLAS");
    for (uint32_t i = 0; i < stream_count; i++) {
        struct lane *l = &w->lanes[i];

        must(!cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking) &&
                 !cudaEventCreateWithFlags(&l->used, cudaEventDisableTiming) &&
                 !cudaHostAlloc((void **)&l->pointers, 3 * BATCH_MAX * sizeof(void *), cudaHostAllocMapped),
             "streams");
    }
}

/* cuBLAS and CUDA load what they need when it is needed first, which takes seconds: before clients come. */
static void worker_warm_up(struct worker *w)
{
    struct job jobs[2], *both[2] = {&jobs[0], &jobs[1]};

    memset(jobs, 0, sizeof(jobs));
    for (uint32_t i = 0; i < 2; i++)
        must(cuda_grow(&jobs[i].peer, 2 * 4 * 1024 * 1024, 4 * 1024 * 1024) &&
                 !cudaEventCreateWithFlags(&jobs[i].done, cudaEventDisableTiming),
             "memory");
    for (uint32_t n = 64; n <= 1024; n *= 2)
        for (uint32_t type = MM_FP32; type <= MM_FP16; type++) {
            for (uint32_t i = 0; i < 2; i++) {
                jobs[i].peer.head.n = n;
                jobs[i].peer.head.type = (uint16_t)type;
                jobs[i].peer.head.length = mm_in_bytes(type, n);
            }
            must(lane_multiply(w, &w->lanes[0], both, 1) && lane_multiply(w, &w->lanes[0], both, 2),
                 "product");
        }
    must(!cudaStreamSynchronize(w->lanes[0].stream), "products");
    for (uint32_t i = 0; i < 2; i++) {
        cudaFreeHost(jobs[i].peer.in);
        cudaFreeHost(jobs[i].peer.out);
        cudaFree(jobs[i].dev);
        cudaEventDestroy(jobs[i].done);
    }
}

static void *worker_run(void *arg)
{
    struct worker *w = arg;
    struct epoll_event events[EVENTS];

    worker_prepare(w);
    worker_warm_up(w);
    pthread_barrier_wait(&prepared);
    for (;;) {
        int n = epoll_wait(w->ep, events, EVENTS, w->queued ? 0 : -1);

        for (int i = 0; i < n; i++) {
            struct job *j = events[i].data.ptr;

            if (j->queued)
                worker_watch(w, j, EPOLLET); /* the client has gone: the answer will meet the error */
            else
                worker_got(w, j, j->peer.answering ? peer_write(&j->peer) : peer_read(&j->peer, cuda_grow));
        }
        worker_queue(w);
        worker_finish(w);
        worker_queue(w);
    }
    return NULL;
}

/* ---- all ---------------------------------------------------------------------------------------------- */

static void serve_one(int fd, struct worker *w)
{
    struct job *j = calloc(1, sizeof(*j));
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = j};

    if (!j || cudaEventCreateWithFlags(&j->done, cudaEventDisableTiming)) {
        free(j);
        close(fd);
        return;
    }
    peer_begin(&j->peer, fd);
    if (epoll_ctl(w->ep, EPOLL_CTL_ADD, fd, &e)) job_free(j);
}

static uint32_t number(int argc, char **argv, int i, uint32_t otherwise, uint32_t most)
{
    int x = i < argc ? atoi(argv[i]) : (int)otherwise;

    return x < 1 ? 1 : (uint32_t)x > most ? most : (uint32_t)x;
}

int main(int argc, char **argv)
{
    uint32_t turn = 0;
    int listener, fd;

    thread_count = number(argc, argv, 2, thread_count, THREADS_MAX);
    stream_count = number(argc, argv, 3, stream_count, STREAMS_MAX);
    batch_max = number(argc, argv, 4, batch_max, BATCH_MAX);
    must(!cudaFree(NULL), "CUDA");
    if (!cublas_open(&blas)) return 1;
    pthread_barrier_init(&prepared, NULL, thread_count + 1);
    for (uint32_t i = 0; i < thread_count; i++) {
        workers[i].ep = epoll_create1(0);
        must(workers[i].ep >= 0 && !pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]),
             "threads");
    }
    pthread_barrier_wait(&prepared);
    listener = peer_listen(argc > 1 ? argv[1] : "127.0.0.1:0", "matmul-cuda");
    if (listener < 0) return 1;
    while ((fd = accept(listener, NULL, NULL)) >= 0 || errno == EINTR || errno == ECONNABORTED)
        if (fd >= 0) serve_one(fd, &workers[turn++ % thread_count]);
    perror("matmul-cuda: accept");
    return 1;
}
