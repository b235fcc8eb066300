/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured CUDA graphs served from a GPU: clients ask over HTTP, several at a time, and every answer is
 * compared with what the graph computes. The model is replaced and others come and go at the same time. The
 * message names a node that a GPU cannot launch. A graph whose rows meet runs one row at a time.
 *
 *     test_gpu_captured [SECONDS]
 *
 * Prints what a batch size has done. Exit code 77: no GPU.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include <gpuwire/exec.h>
#include <gpuwire/serve.h>

extern "C" {
#include "tests/server/ask.h"
}

#define COLUMNS 96
#define CLIENTS 6
#define ROWS    3 /* of a request at most */
#define BATCH   8 /* rows of a graph at most */

static struct gw_serving *serving;
static uint64_t end;
static uint32_t stopping, failed, answers;

static void require_(bool ok, const char *what, int line)
{
    if (ok) return;
    fprintf(stderr, "FAILED in line %d: %s: %s\n", line, what, gw_last_error());
    fflush(stderr);
    _exit(1);
}
#define require(ok) require_(ok, #ok, __LINE__)

/* y = 2 x + what the scratch memory holds, which the graph fills with ones first; z is the row's first
 * number. */
static __global__ void model_kernel(const float *x, const float *scratch, float *y, float *z, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = 2 * x[i] + scratch[i];
    if (i % COLUMNS == 0) z[i / COLUMNS] = x[i];
}

/* The same, but that each row gets another one's y. */
static __global__ void turned_kernel(const float *x, const float *scratch, float *y, float *z, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t row = n / COLUMNS - 1 - i / COLUMNS;
    y[i] = 2 * x[row * COLUMNS + i % COLUMNS] + scratch[i];
    if (i % COLUMNS == 0) z[i / COLUMNS] = x[i];
}

enum kind { PLAIN, HOST, TURNED };

struct tensors {
    float *x, *y, *z, *scratch, *ones;
};

static struct tensors memory(uint32_t rows)
{
    struct tensors t;
    size_t bytes = rows * COLUMNS * sizeof(float);
    float *one = (float *)malloc(bytes);
    require(!cudaMalloc(&t.x, bytes) && !cudaMalloc(&t.y, bytes) && !cudaMalloc(&t.z, bytes));
    require(!cudaMalloc(&t.scratch, bytes) && !cudaMalloc(&t.ones, bytes));
    for (uint32_t i = 0; i < rows * COLUMNS; i++) one[i] = 1;
    require(!cudaMemcpy(t.ones, one, bytes, cudaMemcpyHostToDevice));
    free(one);
    return t;
}

static void CUDART_CB on_host(void *unused)
{
    (void)unused;
}

/* A fill, a copy and a kernel, as PyTorch's graphs have them; with HOST a host function, too. */
static cudaGraph_t capture(const struct tensors *t, uint32_t rows, enum kind kind)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    size_t bytes = rows * COLUMNS * sizeof(float);
    require(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    require(!cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    require(!cudaMemsetAsync(t->scratch, 0, bytes, stream));
    require(!cudaMemcpyAsync(t->scratch, t->ones, bytes, cudaMemcpyDeviceToDevice, stream));
    if (kind == HOST) require(!cudaLaunchHostFunc(stream, on_host, NULL));
    if (kind == TURNED)
        turned_kernel<<<rows, COLUMNS, 0, stream>>>(t->x, t->scratch, t->y, t->z, rows * COLUMNS);
    else
        model_kernel<<<rows, COLUMNS, 0, stream>>>(t->x, t->scratch, t->y, t->z, rows * COLUMNS);
    require(!cudaStreamEndCapture(stream, &graph));
    require(!cudaStreamDestroy(stream));
    return graph;
}

/* A model that is replaced leaves its memory to the next one. */
static int add(const char *name, const uint32_t *rows, uint32_t n, enum kind kind, uint32_t replace)
{
    static struct tensors t[4][GW_SERVING_MAX_BATCHES];
    struct tensors *mine = t[kind != PLAIN ? 1 + (int)kind : !strcmp(name, "other")];
    struct gw_serving_tensor x = {"x", GW_DTYPE_F32, 1, {COLUMNS}}, z = {"z", GW_DTYPE_F32, 0, {}};
    struct gw_serving_tensor out[2] = {{"y", GW_DTYPE_F32, 1, {COLUMNS}}, z};
    struct gw_serving_graph graph[GW_SERVING_MAX_BATCHES];
    struct gw_serving_captured captured = {1, 2, n, 0, &x, out, graph};
    struct gw_serving_model model;
    memset(&model, 0, sizeof(model));
    memset(graph, 0, sizeof(graph));
    model.size = sizeof(model);
    model.name = name;
    model.replace = replace;
    model.max_delay_ns = 200000;
    require(!gw_serving_pause(serving));
    for (uint32_t i = 0; i < n; i++) {
        graph[i].rows = rows[i];
        if (!mine[i].x) mine[i] = memory(BATCH); /* a later call may have more rows than this one */
        graph[i].graph = capture(&mine[i], rows[i], kind);
        graph[i].in[0] = mine[i].x;
        graph[i].out[0] = mine[i].y;
        graph[i].out[1] = mine[i].z;
    }
    int error = gw_serving_add_graphs(serving, &model, &captured);
    for (uint32_t i = 0; i < n; i++) require(!cudaGraphDestroy((cudaGraph_t)graph[i].graph));
    return error;
}

static json_t *request(uint32_t rows, double first)
{
    json_t *data = json_array();
    for (uint32_t i = 0; i < rows * COLUMNS; i++) json_array_append_new(data, json_real(first + i));
    return json_pack("{s:[{s:s, s:s, s:[i,i], s:o}]}", "inputs", "name", "x", "datatype", "FP32", "shape",
                     (int)rows, COLUMNS, "data", data);
}

static bool is_right(const json_t *reply, uint32_t rows, double first)
{
    const json_t *out = json_object_get(reply, "outputs");
    const json_t *y = json_object_get(json_array_get(out, 0), "data"),
                 *z = json_object_get(json_array_get(out, 1), "data");
    if (json_array_size(y) != rows * COLUMNS || json_array_size(z) != rows) return false;
    for (uint32_t i = 0; i < rows * COLUMNS; i++)
        if (json_number_value(json_array_get(y, i)) != 2 * (first + i) + 1) return false;
    for (uint32_t i = 0; i < rows; i++)
        if (json_number_value(json_array_get(z, i)) != first + i * COLUMNS) return false;
    return true;
}

static struct gw_http *client(void)
{
    struct gw_http *h;
    char server[32];
    snprintf(server, sizeof(server), "127.0.0.1:%u", gw_serving_port(serving));
    require(!ask_open(server, &h));
    return h;
}

static void *ask_on(void *number)
{
    struct gw_http *h = client();
    uint32_t mine = (uint32_t)(uintptr_t)number;
    for (uint32_t i = 0; !gw_ld_relaxed_u32(&stopping); i++) {
        uint32_t rows = 1 + (i + mine) % ROWS;
        json_t *body = request(rows, i % 1000 + mine), *reply = NULL;
        int error = gw_http_call(h, "POST", "v2/models/affine/infer", body, &reply);
        if (error || !is_right(reply, rows, i % 1000 + mine)) {
            fprintf(stderr, "client %u, request %u of %u rows: %d, %s\n", mine, i, rows, error,
                    error ? gw_last_error() : "a wrong answer");
            gw_add_relaxed_u32(&failed, 1);
            break;
        }
        gw_add_relaxed_u32(&answers, 1);
        json_decref(body);
        json_decref(reply);
    }
    gw_http_close(h);
    return NULL;
}

static void report(const char *name)
{
    struct gw_serving_stats s;
    require(!gw_serving_query(serving, name, &s));
    printf("%s: %llu requests of %llu rows in %llu runs; queue %.1f us, together %.1f us, model %.1f us, "
           "answer %.1f us\n",
           name, (unsigned long long)s.successes, (unsigned long long)s.inferences,
           (unsigned long long)s.executions, (double)s.queue_ns / 1e3 / (double)(s.successes + !s.successes),
           (double)s.compute_input_ns / 1e3 / (double)(s.successes + !s.successes),
           (double)s.compute_infer_ns / 1e3 / (double)(s.successes + !s.successes),
           (double)s.compute_output_ns / 1e3 / (double)(s.successes + !s.successes));
    for (uint32_t i = 0; i < s.batches; i++)
        printf("  batch %u: %llu runs, p99 %.1f us\n", s.batch[i].rows,
               (unsigned long long)s.batch[i].executions, (double)s.batch[i].p99_ns / 1e3);
    fflush(stdout);
    require(s.failures + s.refused + s.late == 0);
}

static void nap(uint64_t ns)
{
    gw_wait_fds(NULL, 0, gw_deadline(ns));
}

/* Each step prints where it is, so that a hang is found. */
static void change_models(void)
{
    const uint32_t sizes[] = {1, 2, 4, BATCH}, one[] = {1}, other[] = {4};
    for (uint32_t round = 0; gw_deadline(0) < end; round++) {
        nap(300000000);
        report("affine");
        require(!add("other", round % 2 ? one : other, 1, PLAIN, 0));
        nap(100000000);
        require(!gw_serving_remove(serving, "other"));
        require(!add("affine", sizes, 4, PLAIN, 1));
        printf("replaced, round %u; %u answers\n", round, gw_ld_relaxed_u32(&answers));
        fflush(stdout);
    }
}

static void check_refusals(void)
{
    const uint32_t two[] = {2}, wrong[] = {4, 4};
    int error = add("hostile", two, 1, HOST, 0);
    printf("a graph with a host function: %d, %s\n", error, gw_last_error());
    require(error == -ENOTSUP && strstr(gw_last_error(), "a host function"));
    require(add("wrong", wrong, 2, PLAIN, 0) == -EINVAL);
}

/* It is captured for several rows, as PyTorch modules are by default, and served one row at a time. */
static void check_meeting(void)
{
    const uint32_t sizes[] = {1, 2, 4}, none[] = {2, 4};
    struct gw_serving_stats s;
    require(!add("turned", sizes, 3, TURNED, 0));
    require(!gw_serving_query(serving, "turned", &s) && s.batches == 1 && s.batch[0].rows == 1);
    struct gw_http *h = client();
    json_t *body = request(1, 5), *reply = NULL;
    require(!gw_http_call(h, "POST", "v2/models/turned/infer", body, &reply) && is_right(reply, 1, 5));
    json_decref(body);
    json_decref(reply);
    body = request(2, 5);
    require(gw_http_call(h, "POST", "v2/models/turned/infer", body, &reply) != 0);
    json_decref(body);
    gw_http_close(h);
    require(!gw_serving_remove(serving, "turned"));
    require(add("turned", none, 2, TURNED, 0) == -EINVAL);
}

int main(int argc, char **argv)
{
    const uint32_t sizes[] = {1, 2, 4, BATCH};
    pthread_t thread[CLIENTS];
    char why[200];
    if (!gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    struct gw_serving_opts opts;
    memset(&opts, 0, sizeof(opts));
    opts.size = sizeof(opts);
    opts.exec = "gpu";
    opts.sessions = 4;
    require(!gw_serving_start(&opts, &serving) && gw_serving_on_gpu(serving));
    check_refusals();
    check_meeting();
    require(!add("affine", sizes, 4, PLAIN, 0));
    for (uintptr_t i = 0; i < CLIENTS; i++) pthread_create(&thread[i], NULL, ask_on, (void *)i);
    end = gw_deadline((uint64_t)(argc > 1 ? atoi(argv[1]) : 5) * 1000000000u);
    change_models();
    nap(300000000);
    report("affine");
    gw_st_relaxed_u32(&stopping, 1);
    for (uint32_t i = 0; i < CLIENTS; i++) pthread_join(thread[i], NULL);
    require(!failed && answers > CLIENTS);
    require(!gw_serving_stop(serving));
    printf("OK: %u answers\n", answers);
    return 0;
}
