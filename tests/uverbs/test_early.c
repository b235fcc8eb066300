/* SPDX-License-Identifier: Apache-2.0 */
/* A program posts to a queue pair before it is connected. A line says so, once for each queue pair. */
#include <stdio.h>
#include <unistd.h>

#include "tests/uverbs/fixture.h"

static int err_before;
static FILE *said;

static int capture(void **state)
{
    up(state);
    said = tmpfile();
    err_before = dup(STDERR_FILENO);
    return !said || err_before < 0 || dup2(fileno(said), STDERR_FILENO) < 0;
}

static int release(void **state)
{
    dup2(err_before, STDERR_FILENO);
    close(err_before);
    fclose(said);
    return down(state);
}

static void post(struct ibv_qp *qp)
{
    struct ibv_sge s = {.addr = (uintptr_t)r.buf, .length = 8, .lkey = r.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &s,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    (void)ibv_post_send(qp, &wr, &bad); /* versions of libmlx5 differ in whether they refuse it */
}

/* How often the words were said so far. */
static int times(const char *words)
{
    static char text[1 << 16];
    ssize_t n = pread(fileno(said), text, sizeof(text) - 1, 0);
    int found = 0;

    text[n > 0 ? n : 0] = 0;
    for (const char *p = text; (p = strstr(p, words)); p++) found++;
    return found;
}

static void early_posts_are_named(void **state)
{
    struct ibv_qp *qp = rig_qp(&r, r.cq), *other = rig_qp(&r, r.cq);
    struct ibv_wc wc;
    char words[64];

    (void)state;
    post(qp);
    snprintf(words, sizeof(words), "QP 0x%06x: a post does nothing: it is in RESET", qp->qp_num);
    assert_int_equal(times(words), 1);
    assert_int_equal(times("ibv_modify_qp"), 1);
    for (int i = 0; i < 10; i++) post(qp);
    post(other);
    snprintf(words, sizeof(words), "QP 0x%06x: a post does nothing: it is in RESET", other->qp_num);
    assert_int_equal(times(words), 1);
    assert_int_equal(times("a post does nothing"), 2); /* once for each */
    assert_int_equal(ibv_poll_cq(r.cq, 1, &wc), 0);
    assert_int_equal(ibv_destroy_qp(other), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(early_posts_are_named, capture, release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
