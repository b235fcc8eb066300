/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a worker by one request over RDMA, on a thread. */
#include "src/balance/control/probe_rdma.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>
#include <gpuwire/exec.h>

struct job {
    char server[GW_BAL_ENDPOINT + 8], model[2 * GW_BAL_NAME];
    uint64_t timeout_ns;
    int out;
};

static _Atomic unsigned rdma_threads;

bool gw_bal_rdma_room(void)
{
    return rdma_threads < GW_BAL_RDMA_CHECKS;
}

/* One sample of zeros: whether the model likes them is not the question, an answer is. */
static int probe_rdma_ask(struct gw_client *c, uint64_t deadline)
{
    struct gw_client_request request = {.id = 1};
    struct gw_client_reply reply;
    for (uint32_t i = 0; i < gw_client_inputs(c); i++)
        memset(gw_client_slot_input(c, 0, i, 1), 0, gw_client_input(c, i)->bytes);
    int err = gw_client_submit(c, 0, &request);
    return err ? err : gw_client_wait(c, deadline, &reply);
}

static void *probe_rdma_check(void *arg)
{
    struct job *job = arg;
    struct gw_client *c = NULL;
    uint64_t deadline = gw_deadline(job->timeout_ns);
    struct gw_client_opts opts = {
        .server = job->server, .model = job->model, .slots = 1, .rows = 1, .timeout_ns = job->timeout_ns};
    int err = gw_client_open(&opts, &c);
    if (!err) err = probe_rdma_ask(c, deadline);
    gw_client_close(c);
    const char *said = err ? gw_last_error() : "ok";
    /* There is no reader any more when the check took too long; the signal of that is blocked. */
    ssize_t n = write(job->out, said, strlen(said));
    (void)n;
    close(job->out);
    free(job);
    rdma_threads--;
    return NULL;
}

static int probe_rdma_start(struct job *job)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that waits for them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rdma_threads++;
    int err = pthread_create(&thread, NULL, probe_rdma_check, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        rdma_threads--;
    else
        pthread_detach(thread);
    return err;
}

int gw_bal_rdma_begin(const struct gw_bal_addr *addr, uint16_t port, const struct gw_bal_ask *c)
{
    int ends[2];
    char text[GW_BAL_ADDR];
    struct job *job = malloc(sizeof(*job));
    if (!job || pipe2(ends, O_CLOEXEC)) {
        free(job);
        return -1;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    snprintf(job->server, sizeof(job->server), addr->family == 6 ? "rdma://[%s]:%u" : "rdma://%s:%u",
             gw_bal_addr_text(addr, text), port);
    snprintf(job->model, sizeof(job->model), "%s", c->model);
    job->timeout_ns = c->timeout_ns;
    job->out = ends[1];
    if (!probe_rdma_start(job)) return ends[0];
    close(ends[0]);
    close(ends[1]);
    free(job);
    return -1;
}
