/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm_env.h: the environment of a connection manager, for fuzzers: time that the fuzzer sets, random numbers
 * that are the same in each run, every port free, and one NIC. Only where messages go is each fuzzer's own.
 */
#ifndef TESTS_FUZZ_CM_ENV_H
#define TESTS_FUZZ_CM_ENV_H

#include <string.h>

#include "softnic/cm/core.h"
#include "tests/fuzz/stream.h"

static uint64_t now;
static uint32_t next_random;

static int env_claim(void *ctx, const struct cm_nic *nic, uint16_t ps, uint16_t port)
{
    (void)ctx;
    (void)nic;
    return ps ^ port;
}

static void env_release(void *ctx, int claim)
{
    (void)ctx;
    (void)claim;
}

static uint64_t env_now(void *ctx)
{
    (void)ctx;
    return now;
}

static void env_wake(void *ctx)
{
    (void)ctx;
}

static bool env_source(void *ctx, const uint8_t dgid[16], uint8_t gid[16])
{
    (void)ctx;
    (void)dgid;
    (void)gid;
    return false;
}

static int env_random(void *ctx, void *to, size_t len)
{
    (void)ctx;
    for (size_t i = 0; i < len; i++) ((uint8_t *)to)[i] = (uint8_t)((next_random++ * 2654435761u) >> 13);
    return 0;
}

static void env_warn(void *ctx, const char *line)
{
    (void)ctx;
    require(*line && !strchr(line, '\n'));
}

/* A manager whose only NIC has that address and slot, and a file. What it sends, env_send gets with ctx. */
static void env_up(struct cm *cm, struct cm_file *file, void *ctx,
                   void (*env_send)(void *ctx, const struct cm_nic *nic, const uint8_t dgid[16],
                                    const uint8_t mad[ROCE_MAD_LEN]),
                   const struct cm_nic *nic)
{
    const struct cm_env env = {ctx,      env_send,   env_claim,  env_release, env_now,
                               env_wake, env_source, env_random, env_warn};

    cm_init(cm, &env);
    pthread_mutex_lock(&cm->lock); /* until cm_end: the fuzzer is the one thread */
    cm->nics[0] = *nic;
    cm->nic_count = 1;
    cm_file_init(file, -1, -1);
}

static struct cm_id *env_id(struct cm *cm, struct cm_file *file, uint16_t ps)
{
    const struct rdma_ucm_create_id cmd = {.ps = ps, .uid = 1};
    uint32_t handle = 0;

    require(!cm_create(cm, file, &cmd, &handle));
    return cm_id_find(cm, file, handle);
}

#endif
