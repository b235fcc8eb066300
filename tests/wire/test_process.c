/* SPDX-License-Identifier: Apache-2.0 */
/* The process's NIC and its thread: life, fork, exit, what idling costs, and how soon a doorbell is seen. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "softnic/runtime/process.h"
#include "softnic/runtime/thread.h"
#include "tests/wire/fake_nic.h"
#include "tests/wire/peers.h"

#define HERE "127.0.78.1"

static const struct sn_process_callbacks callbacks;
static struct sn_nic *nic;

/* How long the NIC may take for what it must do, however busy the machine is. */
enum { PATIENCE_MS = 60000 };

static unsigned get(const unsigned *p)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void set(unsigned *p, unsigned v)
{
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

static int setup(void **state)
{
    (void)state;
    setenv("GPUWIRE_NIC", "addr=" HERE, 1);
    set(&fake.ringable, 1);
    return sn_process_nic_get(0, &callbacks, &nic);
}

static int teardown(void **state)
{
    uint64_t before = fake_now(), took;

    (void)state;
    sn_process_nic_put(nic);
    took = fake_now() - before;
    assert_true(took < 10000000000); /* promised: 100 ms, of a machine that has a CPU for it */
    assert_int_equal(get(&fake.alive), 0);
    return 0;
}

/* The kernel's figures of the NIC's thread, or of all threads of another name. They are the number of
 * threads, their CPU time, and how long they waited for a CPU. */
struct usage {
    uint64_t cpu, waited;
    unsigned threads;
};

static struct usage usage_of(const char *who)
{
    DIR *dir = opendir("/proc/self/task");
    struct usage u = {0, 0, 0};

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (!f) continue;
        if (!fgets(name, sizeof(name), f)) name[0] = 0;
        fclose(f);
        name[strcspn(name, "\n")] = 0;
        if (strcmp(name, who) != 0) continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
        f = fopen(path, "r");
        uint64_t cpu = 0, waited = 0;
        if (f && fscanf(f, "%lu %lu", &cpu, &waited) != 2) cpu = 0;
        if (f) fclose(f);
        u.cpu += cpu ? cpu : 1;
        u.waited += waited;
        u.threads++;
    }
    if (dir) closedir(dir);
    return u;
}

/* 0 when there is no thread. */
static uint64_t thread_cpu(void)
{
    return usage_of("gw-nic").cpu;
}

/* How long this thread and the NIC's had to wait for a CPU: what a busy machine adds to every latency. */
static uint64_t waited_for_cpu(void)
{
    char self[16];

    pthread_getname_np(pthread_self(), self, sizeof(self));
    return usage_of("gw-nic").waited + usage_of(self).waited;
}

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

static void one_nic_for_all_users(void **state)
{
    struct sn_nic *again;
    struct sn_process_info info;

    (void)state;
    assert_int_equal(sn_process_nic_get(0, &callbacks, &again), 0);
    assert_ptr_equal(again, nic);
    sn_process_nic_put(again);
    assert_int_equal(get(&fake.alive), 1);
    assert_int_equal(sn_process_nic_info(0, &info), 0);
    assert_int_equal(info.slot, fake.config.slot);
    assert_int_equal(fake.config.sport, SN_SLOT_PORT + info.slot);
    assert_int_equal(info.config.mtu, 4096);
    assert_int_equal(fake.config.max_mtu, 4096);
    assert_memory_equal(fake.config.gid, info.config.addr.gid, 16);
    for (int i = 0; i < PATIENCE_MS && !thread_cpu(); i++) sleep_ns(1000000); /* it names itself */
    assert_true(thread_cpu() > 0);
}

/* What is measured depends on what else the machine does: the best of a few tries counts. */
enum { TRIES = 8 };

static void without_queue_pairs_it_sleeps(void **state)
{
    unsigned looks = 0, more = 2;

    (void)state;
    set(&fake.ringable, 0);
    sn_process_nic_kick(nic);
    for (int i = 0; i < TRIES && more > 1; i++) {
        sleep_ns(20000000);
        looks = get(&fake.looks_thread);
        sleep_ns(300000000);
        more = get(&fake.looks_thread) - looks;
    }
    assert_true(more <= 1);
    looks += more;
    set(&fake.ringable, 1);
    sn_process_nic_kick(nic);
    for (int i = 0; i < PATIENCE_MS && get(&fake.looks_thread) <= looks + 3; i++) sleep_ns(1000000);
    assert_true(get(&fake.looks_thread) > looks + 3);
}

static void a_frame_wakes_it(void **state)
{
    struct sn_udp *peer = open_wire(HERE, 1);
    unsigned frames = get(&fake.frames);
    uint8_t data[64];
    struct sn_addr addr;
    struct sn_frame frame;

    (void)state;
    set(&fake.ringable, 0);
    sn_process_nic_kick(nic);
    sleep_ns(20000000);
    sn_addr_parse(HERE, &addr);
    make_frame(data, sizeof(data), fake.config.slot, 0, 1);
    frame = frame_to(&addr, data, sizeof(data));
    assert_int_equal(sn_udp_send(peer, &frame, 1), 1);
    for (int i = 0; i < PATIENCE_MS && get(&fake.frames) == frames; i++) sleep_ns(1000000);
    assert_int_equal(get(&fake.frames), frames + 1);
    sn_udp_close(peer);
}

static void a_timer_wakes_it(void **state)
{
    unsigned more = 2;

    (void)state;
    set(&fake.ringable, 0);
    for (int i = 0; i < TRIES && more > 1; i++) {
        __atomic_store_n(&fake.next, fake_now() + 500000000, __ATOMIC_SEQ_CST);
        sn_process_nic_kick(nic);
        sleep_ns(20000000);
        more = get(&fake.looks_thread);
        sleep_ns(30000000);
        more = get(&fake.looks_thread) - more;
    }
    assert_true(more <= 1);
    for (int i = 0; i < PATIENCE_MS && __atomic_load_n(&fake.next, __ATOMIC_SEQ_CST) != SN_NEVER; i++)
        sleep_ns(1000000);
    assert_true(__atomic_load_n(&fake.next, __ATOMIC_SEQ_CST) == SN_NEVER);
}

static unsigned timer_set;

static void set_timer(void)
{
    __atomic_store_n(&fake.next, fake_now() + 20000000, __ATOMIC_SEQ_CST);
    sn_process_nic_kick(nic);
    set(&timer_set, 1);
}

/* The look that is under way knows nothing of the timer. */
static void a_kick_during_a_look_counts(void **state)
{
    (void)state;
    set(&fake.ringable, 0);
    __atomic_store_n(&fake.in_look, set_timer, __ATOMIC_SEQ_CST);
    sn_process_nic_kick(nic);
    for (int i = 0; i < PATIENCE_MS && !get(&timer_set); i++) sleep_ns(1000000);
    assert_true(get(&timer_set));
    for (int i = 0; i < PATIENCE_MS && __atomic_load_n(&fake.next, __ATOMIC_SEQ_CST) != SN_NEVER; i++)
        sleep_ns(1000000);
    assert_true(__atomic_load_n(&fake.next, __ATOMIC_SEQ_CST) == SN_NEVER);
}

static void idling_costs_little(void **state)
{
    double percent = 100;

    (void)state;
    for (int i = 0; i < TRIES && percent > 0.5; i++) {
        uint64_t cpu, wall;
        double now;

        sleep_ns(100000000);
        cpu = thread_cpu();
        wall = fake_now();
        sleep_ns(500000000);
        now = 100.0 * (double)(thread_cpu() - cpu) / (double)(fake_now() - wall);
        if (now < percent) percent = now;
    }
    printf("idle, a queue pair can be rung: %.2f %% of a core (promised 0.5)\n", percent);
    assert_true(percent < 5);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t ring_after(uint64_t idle)
{
    uint64_t rung_at;

    __atomic_fetch_add(&fake.activity, 1, __ATOMIC_SEQ_CST); /* something happened just now */
    if (idle < 1000000) {
        uint64_t end = fake_now() + idle;
        while (fake_now() < end)
            ;
    } else {
        sleep_ns(idle);
    }
    rung_at = fake_now();
    __atomic_store_n(&fake.taken_at, 0, __ATOMIC_SEQ_CST);
    set(&fake.rung, 1);
    for (int i = 0; i < 2 * PATIENCE_MS && !__atomic_load_n(&fake.taken_at, __ATOMIC_SEQ_CST); i++)
        sleep_ns(500000);
    return __atomic_load_n(&fake.taken_at, __ATOMIC_SEQ_CST) - rung_at;
}

static void doorbells_are_seen_in_time(void **state)
{
    static const struct {
        uint64_t idle;
        int times;
    } cases[] = {{10000, 25}, {100000, 25}, {1000000, 25}, {10000000, 15}, {100000000, 5}, {1000000000, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t seen[25], promised = cases[i].idle / SN_NAP_DIVISOR, waited = waited_for_cpu();

        if (promised < SN_NAP_MIN_NS) promised = SN_NAP_MIN_NS;
        if (promised > SN_NAP_MAX_NS) promised = SN_NAP_MAX_NS;
        for (int k = 0; k < cases[i].times; k++) seen[k] = ring_after(cases[i].idle);
        qsort(seen, (size_t)cases[i].times, sizeof(seen[0]), by_value);
        uint64_t median = seen[cases[i].times / 2];
        printf("rung after %8.2f ms of silence: seen after %7.1f us (median of %d; promised %.1f and a "
               "wake-up)\n",
               (double)cases[i].idle / 1e6, (double)median / 1e3, cases[i].times, (double)promised / 1e3);
        assert_true(median < 10 * promised + 1000000 + waited_for_cpu() - waited);
    }
}

/* Polls for 200 ms and has success. Returns the looks of the NIC's thread in that time, per 1000 of ours.
 * UINT_MAX: it had no CPU to poll with, and the NIC's thread was right to help. */
static unsigned poll_a_while(void)
{
    uint64_t end = fake_now() + 30000000, cpu;
    unsigned thread, others;

    while (fake_now() < end) sn_process_nic_drive(nic);
    thread = get(&fake.looks_thread);
    others = get(&fake.looks_others);
    cpu = thread_cpu();
    end = fake_now() + 200000000;
    while (fake_now() < end) {
        sn_process_nic_drive(nic);
        __atomic_fetch_add(&fake.activity, 1, __ATOMIC_SEQ_CST);
    }
    thread = get(&fake.looks_thread) - thread;
    others = get(&fake.looks_others) - others;
    printf("200 ms of polling: %u looks by it, %u by the NIC's thread, which used %.2f %% of a core\n",
           others, thread, (double)(thread_cpu() - cpu) / 2e6);
    return others < 2000 ? UINT_MAX : thread * 1000 / (others + 1);
}

/* A thread that polls is left alone; when it goes to sleep, the NIC's thread is there at once. */
static void who_polls_is_left_alone(void **state)
{
    unsigned share = UINT_MAX, took;
    uint64_t before;

    (void)state;
    for (int i = 0; i < TRIES && share > 100; i++) share = poll_a_while();
    assert_true(share <= 100 || share == UINT_MAX);

    sn_process_nic_kick(nic);
    before = fake_now();
    set(&fake.rung, 1);
    for (took = 0; took < 10 * PATIENCE_MS && get(&fake.rung); took++) sleep_ns(100000);
    printf("after it said that it sleeps: a doorbell is seen within %.2f ms\n",
           (double)(fake_now() - before) / 1e6);
    assert_int_equal(get(&fake.rung), 0);
}

static void contention_is_no_spinning(void **state)
{
    unsigned looks;
    uint64_t before;

    (void)state;
    set(&fake.contended, 1);
    sleep_ns(10000000);
    looks = get(&fake.looks_thread);
    before = fake_now();
    sleep_ns(100000000);
    looks = get(&fake.looks_thread) - looks;
    set(&fake.contended, 0);
    assert_true(looks <= (fake_now() - before) / SN_NAP_MIN_NS);
}

static void a_child_leaves_its_parents_nic_alone(void **state)
{
    struct sn_nic *other;
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        unsigned looks = get(&fake.looks_others);
        int ok = 1;

        fclose(stderr);
        ok &= sn_process_nic_drive(nic) == SN_NEVER && get(&fake.looks_others) == looks;
        sn_process_nic_kick(nic);
        sn_process_nic_put(nic);
        ok &= get(&fake.alive) == 1;
        /* The slot is the parent's alone: with the inherited socket closed, only the parent keeps the port.
         */
        for (int fd = 3; fd < 64; fd++) {
            struct sockaddr_in sin;
            socklen_t len = sizeof(sin);

            if (getsockname(fd, (struct sockaddr *)&sin, &len) == 0 && sin.sin_family == AF_INET) ok = 0;
        }
        /* It may have one of its own. */
        int err = sn_process_nic_get(0, &callbacks, &other);
        if (err || get(&fake.alive) != 2) _exit(2 + (err != 0));
        sn_process_nic_put(other);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- whole lives of processes, in children made while there is no NIC ---------------------------------- */

static int run_child(void (*body)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(60);
        body();
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void *exit_now(void *arg)
{
    (void)arg;
    sleep_ns(20000000);
    exit(7);
}

static void drive_and_exit_elsewhere(void)
{
    pthread_t id;

    set(&fake.ringable, 1);
    if (sn_process_nic_get(0, &callbacks, &nic)) _exit(98);
    pthread_create(&id, NULL, exit_now, NULL);
    for (;;) sn_process_nic_drive(nic);
}

static void sleep_and_exit_elsewhere(void)
{
    pthread_t id;

    if (sn_process_nic_get(0, &callbacks, &nic)) _exit(98);
    pthread_create(&id, NULL, exit_now, NULL);
    pause();
}

static void just_exit(void)
{
    if (sn_process_nic_get(0, &callbacks, &nic)) _exit(98);
    exit(7);
}

static void exit_does_not_hang(void **state)
{
    uint64_t before = fake_now();

    (void)state;
    setenv("GPUWIRE_NIC", "addr=" HERE, 1);
    assert_int_equal(run_child(just_exit), 7);
    assert_int_equal(run_child(sleep_and_exit_elsewhere), 7);
    assert_int_equal(run_child(drive_and_exit_elsewhere), 7);
    setenv("GPUWIRE_NIC", "poll=busy,cpu=0,addr=" HERE, 1);
    assert_int_equal(run_child(drive_and_exit_elsewhere), 7);
    assert_true(fake_now() - before < 12000000000u); /* promised: 300 ms each */
}

/* The share of 100 ms that the NIC's thread had a CPU or waited for one, in percent: it did not sleep. */
static double awake(void)
{
    unsigned looks = get(&fake.looks_thread);
    struct usage before = usage_of("gw-nic"), after;
    uint64_t start = fake_now(), wall;

    sleep_ns(100000000);
    after = usage_of("gw-nic");
    wall = fake_now() - start;
    looks = get(&fake.looks_thread) - looks;
    printf("busy: %u looks in %.0f ms, with %.0f ms of a CPU\n", looks, (double)wall / 1e6,
           (double)(after.cpu - before.cpu) / 1e6);
    assert_true(looks > 0);
    return 100.0 * (double)(after.cpu - before.cpu + after.waited - before.waited) / (double)wall;
}

static void busy_mode_looks_all_the_time(void **state)
{
    double percent = 0;

    (void)state;
    setenv("GPUWIRE_NIC", "poll=busy,addr=" HERE, 1);
    assert_int_equal(sn_process_nic_get(0, &callbacks, &nic), 0);
    for (int i = 0; i < PATIENCE_MS && !thread_cpu(); i++) sleep_ns(1000000);
    for (int i = 0; i < TRIES && percent < 80; i++) percent = awake();
    sn_process_nic_put(nic);
    assert_true(percent >= 80);
}

/* They receive and drive while the NIC's own thread may sleep, cost nothing when idle, and end. */
static void more_threads_when_asked(void **state)
{
    struct sn_udp *peer = open_wire(HERE, 1);
    uint64_t before, idle = UINT64_MAX;
    uint8_t data[64];
    struct sn_addr addr;
    unsigned frames;

    (void)state;
    setenv("GPUWIRE_NIC", "threads=4,addr=" HERE, 1);
    set(&fake.ringable, 1); /* its own thread looks every 8 ms at least */
    assert_int_equal(sn_process_nic_get(0, &callbacks, &nic), 0);
    for (int i = 0; i < PATIENCE_MS && usage_of("gw-nic-rx").threads < 3; i++) sleep_ns(1000000);
    assert_int_equal(usage_of("gw-nic-rx").threads, 3);
    sn_addr_parse(HERE, &addr);
    frames = get(&fake.frames);
    for (uint32_t n = 0; n < 50; n++) {
        struct sn_frame frame = frame_to(&addr, data, sizeof(data));

        make_frame(data, sizeof(data), fake.config.slot, 0, n);
        assert_int_equal(sn_udp_send(peer, &frame, 1), 1);
        for (int i = 0; i < PATIENCE_MS && get(&fake.frames) == frames + n; i++) sleep_ns(1000000);
        assert_int_equal(get(&fake.frames), frames + n + 1);
    }
    for (int i = 0; i < TRIES && idle > 1000000; i++) {
        before = usage_of("gw-nic-rx").cpu;
        sleep_ns(200000000);
        if (usage_of("gw-nic-rx").cpu - before < idle) idle = usage_of("gw-nic-rx").cpu - before;
    }
    printf("idle, three threads more: %.4f %% of a core\n", (double)idle / 2e6);
    assert_true(idle < 10000000); /* promised: 0.5 % */
    before = fake_now();
    sn_process_nic_put(nic);
    assert_true(fake_now() - before < 10000000000u);
    assert_int_equal(usage_of("gw-nic-rx").threads, 0);
    sn_udp_close(peer);
}

static void failures_say_why(void **state)
{
    static const struct {
        const char *nic;
        int err;
        const char *word;
    } bad[] = {
        {"los=1", -EINVAL, "unknown key 'los'"},
        {"addr=198.51.100.7", -EADDRNOTAVAIL, "no address of this host"},
        {"cpu=1023,addr=" HERE, -EINVAL, "cpu=1023"},
    };
    char text[512];
    int saved = dup(2), pipes[2];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("GPUWIRE_NIC", bad[i].nic, 1);
        assert_int_equal(pipe(pipes), 0);
        dup2(pipes[1], 2);
        int err = sn_process_nic_get(0, &callbacks, &nic);
        dup2(saved, 2);
        close(pipes[1]);
        ssize_t n = read(pipes[0], text, sizeof(text) - 1);
        close(pipes[0]);
        assert_true(n > 0);
        text[n] = 0;
        assert_int_equal(err, bad[i].err);
        if (!strstr(text, bad[i].word) || strchr(text, '\n') != text + n - 1)
            fail_msg("%s: %s", bad[i].nic, text);
        assert_int_equal(get(&fake.alive), 0);
    }
    close(saved);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_does_not_hang),
        cmocka_unit_test(failures_say_why),
        T(one_nic_for_all_users),
        T(without_queue_pairs_it_sleeps),
        T(a_frame_wakes_it),
        T(a_timer_wakes_it),
        T(a_kick_during_a_look_counts),
        T(idling_costs_little),
        T(doorbells_are_seen_in_time),
        T(who_polls_is_left_alone),
        T(contention_is_no_spinning),
        T(a_child_leaves_its_parents_nic_alone),
        cmocka_unit_test(busy_mode_looks_all_the_time),
        cmocka_unit_test(more_threads_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
