/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that a stranger must not guess: of queue pairs, shared receive queues and keys. */
#include <sys/wait.h>
#include <unistd.h>

#include "softnic/base/secret.h"
#include "tests/softnic/rig.h"

enum { KEYS = 32 };

/* A peer of this NIC gets to see these. */
struct seen {
    uint32_t qpn, key[KEYS];
};

static struct seen look(int (*secret)(void *to, size_t len))
{
    struct world_options o = {.seed = 1, .secret = secret};
    struct sn_mr_init init = {.access = IBV_ACCESS_REMOTE_READ};
    struct sn_mr *mr[KEYS];
    struct seen s;
    struct rig r;

    rig_up_as(&r, &o, IBV_QPT_RC);
    s.qpn = sn_qp_number(r.a.qp.qp);
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(sn_mr_create(r.a.qp.pd, &init, &mr[i]), 0);
        s.key[i] = sn_mr_key(mr[i]);
    }
    for (int i = 0; i < KEYS; i++) sn_mr_destroy(mr[i]);
    rig_down(&r);
    return s;
}

/* The attack: an attacker who knows the generator's state makes a NIC like the victim's. Its numbers are
 * the same. */
static void the_state_of_the_generator_says_nothing(void **state)
{
    struct seen victim = look(sn_secret), guess = look(sn_secret);

    (void)state;
    assert_memory_not_equal(&victim.key, &guess.key, sizeof(victim.key));
    for (int i = 0; i < KEYS; i++) assert_int_not_equal(victim.key[i], guess.key[i]);
}

/* One key says nothing about the next one: neither its index nor its other bits follow. */
static void a_key_says_nothing_about_the_next(void **state)
{
    struct seen s = look(sn_secret);
    int close = 0;

    (void)state;
    for (int i = 1; i < KEYS; i++) close += (s.key[i] >> 12) - (s.key[i - 1] >> 12) < 64;
    assert_true(close < 4);
}

static void a_seed_alone_can_be_replayed(void **state)
{
    struct seen one = look(NULL), two = look(NULL);

    (void)state;
    assert_memory_equal(&one, &two, sizeof(one));
}

static bool broken;

static int sometimes(void *to, size_t len)
{
    return broken ? -EIO : sn_secret(to, len);
}

/* There is no second best: what would have to be guessable is not made. */
static void without_random_numbers_nothing_is_made(void **state)
{
    struct world_options o = {.seed = 1, .secret = sometimes};
    struct sn_mr_init init = {.access = IBV_ACCESS_REMOTE_READ};
    struct rig r;
    struct sn_mr *mr;
    struct sn_qp *qp;
    struct sn_srq *srq;

    (void)state;
    rig_up_as(&r, &o, IBV_QPT_RC);
    uint32_t record[2] __attribute__((aligned(8))) = {0};
    struct sn_qp_init q = {.type = IBV_QPT_RC,
                           .pd = r.a.qp.pd,
                           .send_cq = r.a.cq.cq,
                           .recv_cq = r.a.cq.cq,
                           .uar = r.a.qp.uar,
                           .dbrec = record};
    static uint8_t ring[2048] __attribute__((aligned(64)));
    struct sn_srq_init s = {.pd = r.a.qp.pd, .buf = ring, .wqes = 64, .stride = 32, .dbrec = record};

    broken = true;
    assert_int_equal(sn_mr_create(r.a.qp.pd, &init, &mr), -EIO);
    assert_int_equal(sn_qp_create(r.a.qp.n->nic, &q, &qp), -EIO);
    assert_int_equal(sn_srq_create(r.a.qp.n->nic, &s, &srq), -EIO);
    broken = false;
    assert_int_equal(sn_mr_create(r.a.qp.pd, &init, &mr), 0);
    assert_int_equal(sn_qp_create(r.a.qp.n->nic, &q, &qp), 0);
    assert_int_equal(sn_srq_create(r.a.qp.n->nic, &s, &srq), 0);
    sn_srq_destroy(srq);
    sn_qp_destroy(qp);
    sn_mr_destroy(mr);
    rig_down(&r);
}

/* The child does not use the numbers that its parent has fetched beforehand. */
static void a_child_has_numbers_of_its_own(void **state)
{
    uint64_t ours, theirs = 0;
    int fd[2], status;
    pid_t pid;

    (void)state;
    assert_int_equal(sn_secret(&ours, sizeof(ours)), 0);
    assert_int_equal(pipe(fd), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int err = sn_secret(&theirs, sizeof(theirs));

        _exit(err || write(fd[1], &theirs, sizeof(theirs)) != sizeof(theirs));
    }
    assert_int_equal(sn_secret(&ours, sizeof(ours)), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fd[0], &theirs, sizeof(theirs)), sizeof(theirs));
    assert_true(ours != theirs);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_of_the_generator_says_nothing),
        cmocka_unit_test(a_key_says_nothing_about_the_next),
        cmocka_unit_test(a_seed_alone_can_be_replayed),
        cmocka_unit_test(without_random_numbers_nothing_is_made),
        cmocka_unit_test(a_child_has_numbers_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
