/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire-mapreduce-gpu JOB FILE OUT: sort with CUB and k-means with cuBLAS, on one GPU without the
 * network. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "../formats.h"
#include "gpu.h"

enum { STREAMS = 8, BUFFER = 8 << 20 };

static void gpu_failed(const char *what)
{
    fprintf(stderr, "gpuwire-mapreduce-gpu: %s: %s\n", what, strerror(errno));
    exit(1);
}

double gpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A copy between a file and the GPU. Thread t moves the buffers t, t + STREAMS, … of it. */
struct transfer {
    int fd;
    uint64_t offset, n;
    uint8_t *dev;
    bool in;
    uint8_t *pinned; /* two buffers for each thread; they stay for the next transfer */
};

static uint8_t *pinned_buffers(void)
{
    static uint8_t *p;

    if (!p) MUST(cudaMallocHost((void **)&p, (size_t)2 * STREAMS * BUFFER));
    return p;
}

static void file_move(const struct transfer *t, uint8_t *host, uint64_t at, uint64_t n)
{
    for (uint64_t done = 0; done < n;) {
        ssize_t k = t->in ? pread(t->fd, host + done, n - done, (off_t)(t->offset + at + done))
                          : pwrite(t->fd, host + done, n - done, (off_t)(t->offset + at + done));

        if (k <= 0) gpu_failed("a file");
        done += (uint64_t)k;
    }
}

static void transfer_thread(const struct transfer *t, int which)
{
    uint8_t *buffer[2] = {t->pinned + (size_t)2 * which * BUFFER,
                          t->pinned + ((size_t)2 * which + 1) * BUFFER};
    cudaStream_t stream;
    cudaEvent_t free_again[2];
    int i = 0;

    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k = 0; k < 2; k++) MUST(cudaEventCreateWithFlags(&free_again[k], cudaEventDisableTiming));
    for (uint64_t at = (uint64_t)which * BUFFER; at < t->n; at += (uint64_t)STREAMS * BUFFER, i ^= 1) {
        uint64_t n = t->n - at < BUFFER ? t->n - at : BUFFER;

        MUST(cudaEventSynchronize(free_again[i]));
        if (t->in) {
            file_move(t, buffer[i], at, n);
            MUST(cudaMemcpyAsync(t->dev + at, buffer[i], n, cudaMemcpyHostToDevice, stream));
            MUST(cudaEventRecord(free_again[i], stream));
        } else {
            MUST(cudaMemcpyAsync(buffer[i], t->dev + at, n, cudaMemcpyDeviceToHost, stream));
            MUST(cudaStreamSynchronize(stream));
            file_move(t, buffer[i], at, n);
        }
    }
    MUST(cudaStreamSynchronize(stream));
    for (int k = 0; k < 2; k++) MUST(cudaEventDestroy(free_again[k]));
    MUST(cudaStreamDestroy(stream));
}

static void transfer_run(struct transfer *t)
{
    std::vector<std::thread> threads;

    t->pinned = pinned_buffers();
    for (int i = 0; i < STREAMS; i++) threads.emplace_back(transfer_thread, t, i);
    for (auto &thread : threads) thread.join();
}

uint8_t *gpu_read(const char *path, uint64_t *size, uint8_t *head)
{
    struct transfer t = {open(path, O_RDONLY | O_CLOEXEC), 0, 0, NULL, true, NULL};
    struct stat st;

    if (t.fd < 0 || fstat(t.fd, &st)) gpu_failed(path);
    *size = t.n = (uint64_t)st.st_size;
    MUST(cudaMalloc((void **)&t.dev, t.n + 1));
    if (pread(t.fd, head, MR_NPY_HEADER, 0) < 0) gpu_failed(path);
    transfer_run(&t);
    close(t.fd);
    return t.dev;
}

void gpu_write(const char *path, uint64_t offset, const uint8_t *from, uint64_t n)
{
    struct transfer t = {
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), offset, n, (uint8_t *)from, false, NULL};

    if (t.fd < 0 || (!offset && ftruncate(t.fd, 0))) gpu_failed(path);
    transfer_run(&t);
    if (close(t.fd)) gpu_failed(path);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "sort")) {
        pinned_buffers();
        gpu_sort(argv[2], argv[3]);
    } else if (argc == 6 && !strcmp(argv[1], "kmeans") && atoi(argv[4]) > 0 && atoi(argv[5]) > 0) {
        pinned_buffers();
        gpu_kmeans(argv[2], argv[3], (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]));
    } else {
        fprintf(stderr, "usage: gpuwire-mapreduce-gpu sort FILE OUT | kmeans FILE OUT CLUSTERS ROUNDS\n");
        return 2;
    }
    return 0;
}
