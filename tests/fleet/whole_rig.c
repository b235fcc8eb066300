/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers and a client that counts, for tests of whole fleets. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "tests/fleet/whole_rig.h"

struct whole whole;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what the client's thread counts */
static uint32_t done, good, failed, again;               /* again: refused, and sent once more */
static uint32_t waits[WHOLE_MODELS];                     /* refused ones */
static int64_t again_at;                                 /* when they go */
static char first_failure[512];
static char input[1 << 18];

void whole_say(void *ctx, const char *line)
{
    (void)ctx;
    if (getenv("GW_TEST_SAY")) fprintf(stderr, "%s\n", line);
}

static void start_control(int i)
{
    uint8_t id[FLEET_ID] = {(uint8_t)(1 + i)};
    struct fleet_control_opts o = {.loop = whole.loop,
                                   .fleet = "f",
                                   .name = "c",
                                   .id = id,
                                   .listen = "127.0.0.1:0",
                                   .settle_ns = 3 * SECOND,
                                   .say = whole_say};
    if (fleet_control_open(&o, &whole.control[i])) fail_msg("%s", gw_last_error());
}

void whole_start(const char *prefix, uint32_t models, uint32_t input_bytes)
{
    memset(&whole, 0, sizeof(whole));
    whole.models = models;
    whole.input_bytes = input_bytes;
    whole.gap_ns = MS;
    assert_true(models <= WHOLE_MODELS && input_bytes <= sizeof(input));
    assert_int_equal(fleet_loop_create(&whole.loop), 0);
    for (int i = 0; i < WHOLE_CONTROLLERS; i++) start_control(i);
    snprintf(whole.controllers, sizeof(whole.controllers), "127.0.0.1:%u,127.0.0.1:%u",
             fleet_control_port(whole.control[0]), fleet_control_port(whole.control[1]));
    fleet_control_lead(whole.control[0], 1);
    struct fleet_client_opts o = {.controllers = whole.controllers, .fleet = "f", .patience_ns = 20 * SECOND};
    if (fleet_client_open(&o, &whole.client)) fail_msg("%s", gw_last_error());
    for (uint32_t i = 0; i < models; i++) {
        char name[FLEET_MODEL];
        snprintf(name, sizeof(name), models > 1 ? "%s-%u" : "%s", prefix, i);
        assert_int_equal(fleet_client_model(whole.client, name, 0, &whole.model[i]), 0);
    }
    done = good = failed = again = 0;
    memset(waits, 0, sizeof(waits));
    first_failure[0] = 0;
}

void whole_expect(const char *worker)
{
    for (int i = 0; i < WHOLE_CONTROLLERS; i++)
        if (whole.control[i]) fleet_control_expect(whole.control[i], worker, true);
}

void whole_stop(void)
{
    fleet_client_close(whole.client);
    for (int i = 0; i < WHOLE_CONTROLLERS; i++) fleet_control_close(whole.control[i]);
    fleet_loop_run(whole.loop, rig_now() + MS);
    fleet_loop_destroy(whole.loop);
}

/* The client's thread. A refusal says that the request was not run: it is sent again a little later. */
static void answered(void *ctx, const struct fleet_client_reply *r)
{
    bool refused = r->error == -EAGAIN && again < WHOLE_REQUESTS / 50;
    if (refused) {
        pthread_mutex_lock(&lock);
        again++;
        waits[(uintptr_t)ctx]++;
        pthread_mutex_unlock(&lock);
        return;
    }
    pthread_mutex_lock(&lock);
    done++;
    good += !r->error;
    failed += !!r->error;
    if (r->error && !first_failure[0])
        snprintf(first_failure, sizeof(first_failure), "%d: %s (%u tries, %s)", r->error, r->why, r->tries,
                 r->worker);
    pthread_mutex_unlock(&lock);
}

uint32_t whole_good(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = good;
    pthread_mutex_unlock(&lock);
    return n;
}

static void submit(uint32_t model)
{
    struct fleet_client_request r = {.in = input,
                                     .bytes = whole.input_bytes,
                                     .rows = 1,
                                     .deadline_at = rig_now() + 10 * SECOND,
                                     .done = answered,
                                     .ctx = (void *)(uintptr_t)model};
    assert_int_equal(fleet_client_submit(whole.model[model], &r), 0);
}

void whole_request(uint32_t model)
{
    submit(model);
    whole.sent++;
}

void whole_turn(void)
{
    fleet_loop_run(whole.loop, rig_now() + MS / 2);
    if (rig_now() < again_at) return;
    again_at = rig_now() + 20 * MS;
    for (uint32_t i = 0; i < whole.models; i++) {
        pthread_mutex_lock(&lock);
        uint32_t n = waits[i];
        waits[i] = 0;
        pthread_mutex_unlock(&lock);
        while (n--) submit(i);
    }
}

void whole_settle(void)
{
    for (int64_t end = rig_now() + 20 * SECOND;;) {
        pthread_mutex_lock(&lock);
        uint32_t n = done, bad = failed, refused = again;
        pthread_mutex_unlock(&lock);
        if (bad) fail_msg("%u of %u failed, the first with %s", bad, whole.sent, first_failure);
        if (refused > whole.sent / 20 + 10) fail_msg("%u refusals of %u requests", refused, whole.sent);
        if (n == whole.sent) return;
        if (rig_now() > end) fail_msg("%u of %u are answered", n, whole.sent);
        whole_turn();
    }
}
