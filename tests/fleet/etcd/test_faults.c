/* SPDX-License-Identifier: Apache-2.0 */
/* Three etcds of which some die or fall silent, and candidates of which some die or fall silent: never two
 * leaders whose writes both succeed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/etcd/election.h"
#include "src/fleet/etcd/mirror.h"
#include "tests/child.h"
#include "tests/fleet/etcd/rig.h"

enum { PATIENCE_MS = 40000, CANDIDATES = 3 };

static struct rig rig;

/* ---- a candidate: a process that writes its term again and again while it leads */

struct candidate {
    struct fleet_loop *loop;
    struct fleet_etcd *etcd;
    struct fleet_etcd_election *election;
    struct fleet_timer timer;
    uint64_t n;
};

static void candidate_write(void *ctx)
{
    struct candidate *c = ctx;
    char value[64];
    uint64_t term = fleet_etcd_election_term(c->election);
    snprintf(value, sizeof(value), "%llu %d %llu", (unsigned long long)term, (int)getpid(),
             (unsigned long long)++c->n);
    const struct fleet_etcd_op op = {
        .what = FLEET_ETCD_PUT, .key = fleet_etcd_text("log"), .value = fleet_etcd_text(value)};
    if (term) fleet_etcd_election_write(c->election, &op, NULL, NULL);
    fleet_timer_set(c->loop, &c->timer, (int64_t)gw_deadline(10000000), candidate_write, c);
}

static void candidate_leads(void *ctx, uint64_t term)
{
    (void)ctx, (void)term;
}
static void candidate_lost(void *ctx, uint64_t term, const char *why)
{
    (void)ctx, (void)term, (void)why;
}

static int candidate_run(const char *urls)
{
    static const struct fleet_etcd_election_handler handler = {.leads = candidate_leads,
                                                               .lost = candidate_lost};
    struct candidate c = {0};
    char value[32];
    snprintf(value, sizeof(value), "%d", (int)getpid());
    const struct fleet_etcd_election_opts opts = {
        .key = "leader", .value = value, .writes = "writes", .ttl_s = 2};
    TRY(!fleet_loop_create(&c.loop));
    TRY(!fleet_etcd_open(c.loop, &(struct fleet_etcd_opts){.urls = urls}, &c.etcd));
    TRY(!fleet_etcd_election_open(c.etcd, &opts, &handler, &c, &c.election));
    candidate_write(&c);
    return fleet_loop_run(c.loop, INT64_MAX);
}

static pid_t candidate_start(void)
{
    int fd;
    pid_t pid = child_fork(&fd);
    if (!pid) _exit(candidate_run(rig.urls) ? 1 : 0);
    close(fd);
    return pid;
}

/* ---- what the store saw */

struct history {
    uint64_t term; /* of the last write */
    int pid;       /* whose it was */
    int writes, terms;
    bool is_wrong; /* a write of an old term came after a newer one's */
    uint64_t n;    /* the writer's count */
};

static void history_begin(void *ctx)
{
    (void)ctx;
}
static void history_put(void *ctx, const struct fleet_etcd_kv *kv)
{
    struct history *h = ctx;
    unsigned long long term = 0, n = 0;
    int pid = 0;
    char text[80];
    snprintf(text, sizeof(text), "%.*s", (int)kv->value.bytes, (const char *)kv->value.data);
    if (sscanf(text, "%llu %d %llu", &term, &pid, &n) != 3) return;
    if (term < h->term || (term == h->term && (pid != h->pid || n <= h->n))) {
        fprintf(stderr, "a write of term %llu by %d (%llu) after term %llu by %d (%llu)\n", term, pid, n,
                (unsigned long long)h->term, h->pid, (unsigned long long)h->n);
        h->is_wrong = true;
    }
    h->terms += term != h->term;
    h->term = term;
    h->pid = pid;
    h->n = n;
    h->writes++;
}
static void history_gone(void *ctx, struct fleet_etcd_bytes key, int64_t revision)
{
    (void)ctx, (void)key, (void)revision;
}
static void history_synced(void *ctx, int64_t revision)
{
    (void)ctx, (void)revision;
}
static const struct fleet_etcd_mirror_handler history_handler = {history_begin, history_put, history_gone,
                                                                 history_synced};

static bool has_leader(void *ctx)
{
    return ((struct history *)ctx)->writes > 0;
}

struct change {
    const struct history *h;
    uint64_t term;
    int writes;
};
static bool has_changed(void *ctx)
{
    const struct change *c = ctx;
    return c->h->term > c->term;
}
static bool goes_on(void *ctx)
{
    const struct change *c = ctx;
    return c->h->writes >= c->writes;
}

static int index_of(const pid_t *pid, int which)
{
    for (int i = 0; i < CANDIDATES; i++)
        if (pid[i] == which) return i;
    return -1;
}

static double wait_for_term(struct history *h, uint64_t old)
{
    struct change c = {.h = h, .term = old};
    uint64_t began = gw_deadline(0);
    assert_true(rig_until(&rig, has_changed, &c, PATIENCE_MS));
    return (double)(gw_deadline(0) - began) / 1e9;
}

/* More of them than may have been on their way. */
static double wait_for_writes(struct history *h)
{
    struct change c = {.h = h, .writes = h->writes + 30};
    uint64_t began = gw_deadline(0);
    assert_true(rig_until(&rig, goes_on, &c, PATIENCE_MS));
    return (double)(gw_deadline(0) - began) / 1e9;
}

static void test_faults(void **state)
{
    (void)state;
    struct history h = {0};
    struct fleet_etcd *etcd;
    struct fleet_etcd_mirror *m;
    pid_t pid[CANDIDATES];
    for (int i = 0; i < CANDIDATES; i++) pid[i] = candidate_start();
    assert_int_equal(fleet_etcd_open(rig.loop, &(struct fleet_etcd_opts){.urls = rig.urls}, &etcd), 0);
    assert_int_equal(fleet_etcd_mirror_open(etcd, fleet_etcd_text("log"), false, &history_handler, &h, &m),
                     0);
    assert_true(rig_until(&rig, has_leader, &h, PATIENCE_MS));

    /* The leader dies. */
    int i = index_of(pid, h.pid);
    uint64_t term = h.term;
    kill(pid[i], SIGKILL);
    waitpid(pid[i], NULL, 0);
    print_message("leader killed: the next one writes after %.2f s\n", wait_for_term(&h, term));
    pid[i] = candidate_start();

    /* The leader sleeps past its lease, and wakes up believing that it leads. */
    i = index_of(pid, h.pid);
    term = h.term;
    kill(pid[i], SIGSTOP);
    print_message("leader asleep: the next one writes after %.2f s\n", wait_for_term(&h, term));
    kill(pid[i], SIGCONT);
    rig_run(&rig, 300);
    wait_for_writes(&h);

    /* etcd's own leader dies, and comes back. */
    int raft = rig_raft_leader(&rig);
    assert_true(raft >= 0);
    rig_kill(&rig, raft);
    print_message("etcd's leader killed: 30 writes more after %.2f s\n", wait_for_writes(&h));
    rig_run(&rig, 500);
    assert_int_equal(rig_start(&rig, raft), 0);

    /* Another member falls silent: its clients go on to the next. */
    int silent = (raft + 1) % RIG_MEMBERS;
    kill(rig.pid[silent], SIGSTOP);
    rig_run(&rig, 1500);
    print_message("a member silent: 30 writes more after %.2f s\n", wait_for_writes(&h));
    kill(rig.pid[silent], SIGCONT);

    /* All fall silent, as when a network is cut. */
    for (int k = 0; k < RIG_MEMBERS; k++) kill(rig.pid[k], SIGSTOP);
    rig_run(&rig, 5000);
    for (int k = 0; k < RIG_MEMBERS; k++) kill(rig.pid[k], SIGCONT);
    print_message("all members silent for 5 s: 30 writes more after %.2f s\n", wait_for_writes(&h));

    print_message("%d writes of %d terms\n", h.writes, h.terms);
    assert_false(h.is_wrong);
    assert_true(h.terms >= 3);
    fleet_etcd_mirror_close(m);
    fleet_etcd_close(etcd);
    for (int k = 0; k < CANDIDATES; k++) {
        kill(pid[k], SIGKILL);
        waitpid(pid[k], NULL, 0);
    }
}

/* ---- one client, whose member dies again and again */

struct tally {
    int done, failed;
    bool is_up;
    int downs;
};

static void tally_heard(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct tally *t = ctx;
    (void)a;
    t->done++;
    t->failed += err != 0;
    if (err) fprintf(stderr, "%s\n", gw_last_error());
}
static void tally_state(void *ctx, bool up, const char *line)
{
    struct tally *t = ctx;
    t->is_up = up;
    t->downs += !up;
    print_message("  %s\n", line);
}
static bool tally_is_done(void *ctx)
{
    return ((struct tally *)ctx)->done == 300;
}
static bool tally_is_down(void *ctx)
{
    return ((struct tally *)ctx)->downs > 0;
}

static void test_calls(void **state)
{
    (void)state;
    struct tally t = {0};
    struct fleet_etcd *etcd;
    const struct fleet_etcd_opts opts = {.urls = rig.urls, .state = tally_state, .ctx = &t};
    const struct fleet_etcd_how how = {tally_heard, &t, 30000000000, true};
    assert_int_equal(fleet_etcd_open(rig.loop, &opts, &etcd), 0);
    for (int i = 0; i < 300; i++) {
        char key[16];
        snprintf(key, sizeof(key), "c/%d", i);
        const struct fleet_etcd_op op = {
            .what = FLEET_ETCD_PUT, .key = fleet_etcd_text(key), .value = fleet_etcd_text("x")};
        assert_int_equal(fleet_etcd_do(etcd, &op, &how, NULL), 0);
        if (i % 100 != 50) continue;
        rig_run(&rig, 5);
        rig_kill(&rig, i / 100);
        rig_run(&rig, 100);
        assert_int_equal(rig_start(&rig, i / 100), 0);
    }
    assert_true(rig_until(&rig, tally_is_done, &t, PATIENCE_MS));
    assert_int_equal(t.failed, 0);
    assert_true(t.is_up);
    /* With none left, it says so once. */
    for (int i = 0; i < RIG_MEMBERS; i++) rig_kill(&rig, i);
    t.downs = 0;
    assert_true(rig_until(&rig, tally_is_down, &t, PATIENCE_MS));
    rig_run(&rig, 300);
    assert_int_equal(t.downs, 1);
    fleet_etcd_close(etcd);
}

static int set_up(void **state)
{
    (void)state;
    return rig_open(&rig, RIG_MEMBERS);
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults), cmocka_unit_test(test_calls)};
    if (!rig_has_etcd()) return 77;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
