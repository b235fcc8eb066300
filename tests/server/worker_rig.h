/* SPDX-License-Identifier: Apache-2.0 */
/* One worker on the software NIC, whose model callers inside the process ask: executors, devices, and many
 * callers. */
#ifndef TESTS_SERVE_WORKER_RIG_H
#define TESTS_SERVE_WORKER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/server/worker/call.h"
#include "src/server/worker/worker.h"

#define WAIT_NS 60000000000u
enum { CALLERS = 6 };

static const char *exec_name = "cpu";
static struct gw_exec *exec, *own_exec;
static struct gw_device *dev, *own_dev;
static struct gw_worker *worker;

/* lanes: threads that run kernels, where those are CPU threads. */
static int begin_devices(uint32_t lanes)
{
    struct gw_exec_opts opts = {.lanes = lanes};
    int error = gw_exec_create(exec_name, strcmp(exec_name, "gpu") ? &opts : NULL, &exec);
    if (!error) error = gw_exec_create("cpu", NULL, &own_exec);
    if (!error) error = gw_device_open("softnic", exec, &dev);
    return error ? error : gw_device_open("softnic", own_exec, &own_dev);
}

/* After begin_devices; the batch sizes are the test's. */
static struct gw_worker_opts worker_opts(void)
{
    return (struct gw_worker_opts){.exec = exec,
                                   .dev = dev,
                                   .sessions = 1,
                                   .slots = 8,
                                   .threads = 1,
                                   .memory = 1u << 30,
                                   .own_sessions = 2,
                                   .own_dev = own_dev};
}

static inline int end_worker(void)
{
    uint64_t ns;
    gw_calls_close(gw_worker_calls(worker), gw_deadline(WAIT_NS));
    int error = gw_worker_stop(worker, gw_deadline(WAIT_NS), &ns);
    return error ? error : gw_worker_destroy(worker);
}

static int end_devices(void)
{
    gw_device_close(own_dev);
    gw_device_close(dev);
    gw_exec_destroy(own_exec);
    return gw_exec_destroy(exec);
}

/* Serves this model with these batch sizes, the smallest first. */
static inline int start_worker(const char *name, struct gw_model *m, const uint32_t *batch, uint32_t batches,
                               enum gw_resident_mode resident)
{
    struct gw_worker_source source = {.name = name, .version = 1, .model = m};
    struct gw_worker_opts opts = worker_opts();
    memcpy(opts.batch, batch, batches * sizeof(*batch));
    opts.batches = batches;
    opts.resident = resident;
    int error = gw_worker_create_from(&source, &opts, &worker);
    return error ? error : gw_worker_start(worker);
}

/* ---- the parts that models written in C have in common; a plan is its number of rows ---- */

static inline void rows_unload(void *model)
{
    (void)model;
}

static inline int rows_plan(const void *model, const struct gw_plan_options *options, void **out, char *err,
                            size_t errlen)
{
    uint32_t *rows = malloc(sizeof(*rows));
    (void)model, (void)err, (void)errlen;
    *rows = options->rows;
    *out = rows;
    return 0;
}

static inline void rows_stats(const void *p, struct gw_plan_stats *s)
{
    (void)p;
    memset(s, 0, sizeof(*s));
}

#define ROWS_BACKEND                                                                                         \
    .abi = GW_MODEL_ABI, .unload = rows_unload, .plan = rows_plan, .plan_free = free, .stats = rows_stats

/* ---- callers ---- */

/* Each on a thread of its own, with its number; what it returns is NULL, or how many answers were wrong. */
static inline void run_callers(void *(*caller)(void *number))
{
    pthread_t thread[CALLERS];
    for (uintptr_t i = 0; i < CALLERS; i++) pthread_create(&thread[i], NULL, caller, (void *)i);
    for (int i = 0; i < CALLERS; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

/* Returns what the kernels have counted, and prints how many requests shared how many runs. */
static inline struct gw_serve_counters counters(struct gw_serve_variant_counters v[GW_SERVE_VARIANTS])
{
    struct gw_serve_counters t;
    gw_session_pool_counters(gw_worker_sessions(worker), &t, v);
    print_message("%u requests in %u runs\n", (unsigned)t.successes, (unsigned)t.executions);
    return t;
}

/* All of every caller's requests were answered. */
static inline void all_answered(const struct gw_serve_counters *t, uint64_t requests)
{
    assert_int_equal(t->successes, requests);
    assert_int_equal(t->failures + t->refused + t->late + t->waiting, 0);
}

#endif
