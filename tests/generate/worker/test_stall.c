/* SPDX-License-Identifier: Apache-2.0 */
/* A client that never takes an event loses its session after GEN_STALL_NS, and others notice nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "tests/generate/worker/foe.h"

static void a_ring_that_is_never_read(void **state)
{
    (void)state;
    struct rig r;
    struct foe f;
    struct told t;
    uint32_t bytes;
    rig_begin(&r, 1, (struct gen_worker_opts){.sessions = 1, .slots = FOE_SLOTS, .own_sessions = 1});
    foe_make(&f, &r);
    assert_int_equal(foe_open(&f, 0), 0);
    for (uint32_t slot = 0; slot < FOE_SLOTS; slot++) {
        foe_request(&f, slot, 10, 100, &bytes);
        foe_send(&f, slot, bytes, slot);
    }
    uint64_t begun = gw_deadline(0);
    while (gen_pool_has(gen_worker_pool(r.worker), &f.grant)) {
        assert_true(gw_deadline(0) < begun + PATIENCE);
        assert_int_equal(told_submit(&r, &t, 1, 20, 30, ""), 0);
        assert_int_equal(told_wait(&r, &t), GEN_LENGTH);
        usleep(100000);
    }
    assert_true(gw_deadline(0) - begun >= GEN_STALL_NS);
    rig_calm(&r);
    foe_free(&f);
    foe_make(&f, &r); /* the next client gets the session */
    int err;
    while ((err = foe_open(&f, 64)) == -EAGAIN && gw_deadline(0) < begun + 2 * PATIENCE) usleep(2000);
    assert_int_equal(err, 0);
    foe_request(&f, 0, 10, 20, &bytes);
    foe_send(&f, 0, bytes, 0);
    assert_int_equal(foe_status(&f, NULL), GEN_LENGTH);
    foe_free(&f);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_ring_that_is_never_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
