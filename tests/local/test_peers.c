/* SPDX-License-Identifier: Apache-2.0 */
/* Two NICs' hosts, in one process or two: they meet, exchange frames, reach each other's memory, and lose
 * each other. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/local/meet.h"
#include "softnic/local/share.h"
#include "softnic/local/state.h"
#include "tests/local/hosts.h"

static void peers_meet_and_send_frames(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    struct sn_frame f[SN_LOCAL_RX];
    struct sn_local_info info;

    (void)state;
    meet(a, b);
    assert_true(send_frame(a, B, 0x55, 100));
    assert_true(send_frame(a, B, 0x66, SN_FRAME_MAX));
    hear_first(b);
    assert_int_equal(sn_local_recv(b, f, SN_LOCAL_RX), 2);
    assert_int_equal(f[0].len, 100);
    assert_int_equal(f[0].data[99], 0x55);
    assert_true(f[0].no_icrc);
    assert_int_equal(f[0].sport, 0xc000 + A);
    assert_memory_equal(f[0].src_gid, gid, 16);
    assert_int_equal(f[1].len, SN_FRAME_MAX);
    sn_local_info(a, &info);
    assert_int_equal(info.copying, 1);
    sn_local_close(a);
    sn_local_close(b);
}

static void nobody_is_met_who_is_not_there(void **state)
{
    struct sn_local *a = open_host(A, true);

    (void)state;
    assert_false(ops->in_memory(a, gid, QPN_B));
    serve(a, NULL);
    assert_false(ops->in_memory(a, gid, QPN_B));
    assert_false(ops->in_memory(a, gid, QPN_A)); /* itself neither */
    assert_null(ops->find(a, gid, QPN_A));
    sn_local_close(a);
}

static void a_sleeper_is_woken_once(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    struct sn_frame f[SN_LOCAL_RX];

    (void)state;
    meet(a, b);
    assert_true(sn_local_doze(b));
    sn_local_wake(b);
    send_frame(a, B, 1, 64); /* awake: it will see for itself */
    assert_false(sn_local_doze(b));
    sn_local_wake(b);
    hear_first(b);
    assert_int_equal(sn_local_recv(b, f, SN_LOCAL_RX), 1);
    assert_true(sn_local_doze(b));
    for (int i = 0; i < 5; i++) send_frame(a, B, 1, 64);
    sn_local_wake(b);
    assert_int_equal(sn_local_recv(b, f, 3), 3);
    assert_int_equal(sn_local_recv(b, f, SN_LOCAL_RX), 2);
    sn_local_close(a);
    sn_local_close(b);
}

static void frames_outlive_their_sender(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    struct sn_frame f[SN_LOCAL_RX];

    (void)state;
    meet(a, b);
    send_frame(a, B, 9, 64);
    sn_local_close(a);
    serve(b, NULL);
    assert_int_equal(sn_local_senders(b), 1);
    hear_first(b);
    assert_int_equal(sn_local_recv(b, f, SN_LOCAL_RX), 1);
    assert_int_equal(f[0].data[63], 9);
    serve(b, NULL);
    assert_int_equal(sn_local_senders(b), 0);
    sn_local_close(b);
}

static void frames_only_when_so_configured(void **state)
{
    struct sn_local *a = open_host(A, false), *b = open_host(B, true);

    (void)state;
    meet(a, b);
    assert_null(ops->find(a, gid, QPN_B));
    sn_local_close(a);
    sn_local_close(b);
}

static void pausing_sends_everything_over_the_wire(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);

    (void)state;
    meet(a, b);
    sn_local_pause(a, true);
    assert_false(ops->in_memory(a, gid, QPN_B));
    assert_null(ops->find(a, gid, QPN_B));
    sn_local_pause(a, false);
    assert_non_null(ops->find(a, gid, QPN_B));
    sn_local_pause(b, true); /* the other's wish counts, too */
    assert_false(ops->in_memory(a, gid, QPN_B));
    sn_local_pause(b, false);
    assert_true(ops->in_memory(a, gid, QPN_B));
    sn_local_close(a);
    sn_local_close(b);
}

/* ---- memory of another process ---- */

static void memory_is_reached_until_its_owner_dies(void **state)
{
    enum { LENGTH = 8192 };
    uint8_t *mem = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), data[500];
    struct sn_peer_access access = {.src_qpn = QPN_A,
                                    .dst_qpn = QPN_B,
                                    .rkey = KEY,
                                    .access = IBV_ACCESS_REMOTE_WRITE,
                                    .va = 0x1064,
                                    .length = sizeof(data),
                                    .terms = host_terms()};
    struct iovec here = {data, sizeof(data)}, there = {NULL, sizeof(data)};
    struct sn_copy copy = {.write = true, .here = &here, .there = &there, .n_here = 1, .n_there = 1};
    struct sn_local *a;
    struct sn_peer *p;
    uint64_t addr;
    int ready[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_owner(mem, LENGTH, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    a = open_host(A, true);
    p = find_owner(a);
    memset(data, 0xab, sizeof(data));
    assert_true(ops->enter(a, p, 1000));
    assert_true(ops->grant(a, p, &access, &addr, &copy.by_there));
    there.iov_base = (void *)(uintptr_t)addr;
    assert_int_equal(ops->copy(a, p, &copy, NULL), sizeof(data));
    ops->leave(a, p);
    assert_int_equal(mem[99], 0);
    assert_memory_equal(mem + 100, data, sizeof(data));
    assert_int_equal(mem[600], 0);
    there.iov_base = NULL; /* not mapped there: one request's affair */
    assert_int_equal(ops->copy(a, p, &copy, NULL), -EFAULT);
    assert_non_null(ops->find(a, gid, QPN_B));

    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* Long after it was seen alive: it is looked at before it is touched. */
    assert_false(ops->enter(a, p, 1000 + 20000000));
    assert_null(ops->find(a, gid, QPN_B));
    serve(a, NULL);
    assert_false(ops->in_memory(a, gid, QPN_B));
    sn_local_close(a);
    munmap(mem, LENGTH);
    close(ready[0]);
    close(ready[1]);
}

/* The number of a process that died is another's by now, while a child of the first holds its sockets. The
 * child was made by the system call alone, and knows nothing of them. */
static void a_number_that_is_another_process_s_is_not_used(void **state)
{
    enum { LENGTH = 4096 };
    uint8_t *mem = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sn_local *a;
    struct sn_peer *p;
    int ready[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_owner(mem, LENGTH, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    a = open_host(A, true);
    p = find_owner(a);
    assert_true(ops->enter(a, p, 1000));
    ops->leave(a, p);
    p->pid = getpid(); /* the number leads to another process, and its sockets stay open */
    assert_false(ops->enter(a, p, 1000 + 20000000));
    assert_null(ops->find(a, gid, QPN_B));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    sn_local_close(a);
    munmap(mem, LENGTH);
    close(ready[0]);
    close(ready[1]);
}

/* Every process has queue pair 1: its number is no slot's. */
static void management_goes_over_the_wire(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(0, true);
    uint8_t data[64] = {[7] = 1};
    struct sn_frame f = {.len = sizeof(data), .data = data};

    (void)state;
    memcpy(f.dst_gid, gid, 16);
    ops->in_memory(a, gid, 9);
    serve(a, b);
    assert_true(ops->in_memory(a, gid, 9));
    assert_false(sn_local_reaches(a, &f));
    data[7] = 9;
    assert_true(sn_local_reaches(a, &f));
    sn_local_close(a);
    sn_local_close(b);
}

/* ---- taking back ---- */

static struct sn_local *user, *owner;
static struct sn_peer *used;
static int left; /* the user is out: atomic */

static void *leave_later(void *arg)
{
    const struct timespec nap = {.tv_nsec = 30000000};

    (void)arg;
    nanosleep(&nap, NULL);
    __atomic_store_n(&left, 1, __ATOMIC_SEQ_CST);
    ops->leave(user, used);
    return NULL;
}

static void taking_back_waits_for_who_is_inside(void **state)
{
    pthread_t thread;

    (void)state;
    user = open_host(A, true);
    owner = open_host(B, true);
    meet(user, owner);
    used = ops->find(user, gid, QPN_B);
    assert_non_null(used);
    ops->quiesce(owner); /* no one: returns at once */
    assert_true(ops->enter(user, used, 1000));
    assert_int_equal(pthread_create(&thread, NULL, leave_later, NULL), 0);
    ops->region(owner, KEY, NULL);
    ops->quiesce(owner);
    assert_int_equal(__atomic_load_n(&left, __ATOMIC_SEQ_CST), 1);
    pthread_join(thread, NULL);
    /* One that died inside is not waited for, though it had waked us before. */
    assert_true(ops->enter(user, used, 1000));
    assert_true(sn_local_doze(owner));
    send_frame(user, B, 1, 64);
    sn_local_close(user);
    ops->quiesce(owner);
    sn_local_close(owner);
}

/* A process that is inside an access to `owner`'s memory for as long as it lives. */
static pid_t start_user(int inside)
{
    pid_t pid = fork();

    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sn_local *a = open_host(A, true);
    struct sn_peer *p = find_owner(a);

    if (!ops->enter(a, p, sn_now_ns()) || write(inside, "", 1) != 1) _exit(1);
    for (;;) pause();
}

static void who_is_killed_inside_is_not_waited_for(void **state)
{
    int inside[2], status;
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(inside, O_CLOEXEC | O_NONBLOCK), 0);
    pid = start_user(inside[1]); /* before there is an owner, whose sockets it would have otherwise */
    owner = open_host(B, true);
    const struct sn_peer_queue q = {QPN_A, IBV_ACCESS_REMOTE_WRITE, 1, host_terms()};
    ops->queue(owner, QPN_B, &q);
    while (read(inside[0], &byte, 1) != 1) {
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
        sn_local_serve(owner, &guard);
    }
    kill(pid, SIGKILL);
    ops->quiesce(owner);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    sn_local_close(owner);
    close(inside[0]);
    close(inside[1]);
}

/* ---- strangers ---- */

static void who_says_nonsense_is_shown_the_door(void **state)
{
    struct sn_local *b = open_host(B, true);
    struct sn_hello hello = {.magic = SN_HELLO_MAGIC, .version = SN_SHARE_VERSION + 1, .slot = A};
    void *at;
    int fd = sn_meet_connect(name_of_slot(B)), memory = sn_share_make(4096, false, &at);

    (void)state;
    assert_true(fd >= 0 && memory >= 0);
    serve(b, NULL);
    assert_int_equal(sn_local_senders(b), 1);
    assert_int_equal(write(fd, "GET / HTTP/1.0\r\n", 16), 16);
    serve(b, NULL);
    assert_int_equal(sn_local_senders(b), 0);
    close(fd);
    for (uint32_t version = SN_SHARE_VERSION; version < SN_SHARE_VERSION + 2; version++) {
        hello.version = version; /* the right one, but with memory that is too small */
        fd = sn_meet_connect(name_of_slot(B));
        assert_int_equal(sn_meet_say(fd, &hello, memory), 0);
        serve(b, NULL);
        assert_int_equal(sn_local_senders(b), 0);
        close(fd);
    }
    munmap(at, 4096);
    close(memory);
    sn_local_close(b);
}

/* The fds that this process has. */
static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void an_empty_message_leaves_no_descriptor(void **state)
{
    struct sn_local *b = open_host(B, true);
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr msg = {.msg_control = &control, .msg_controllen = sizeof(control)};
    int before = open_fds(), fd = sn_meet_connect(name_of_slot(B));

    (void)state;
    assert_true(fd >= 0);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    assert_int_equal(sendmsg(fd, &msg, 0), 0);
    serve(b, NULL);
    assert_int_equal(sn_local_senders(b), 0);
    close(fd);
    assert_int_equal(open_fds(), before);
    sn_local_close(b);
}

/* ---- many, and too few ---- */

static void those_who_are_not_there_make_room(void **state)
{
    const struct timespec later = {.tv_nsec = 700000000};
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    uint8_t other[16];

    (void)state;
    memcpy(other, gid, 16);
    for (unsigned i = 0; i < 700; i++) {
        other[14] = (uint8_t)(1 + i / 256);
        other[15] = (uint8_t)i;
        ops->in_memory(a, other, QPN_B);
        if (i % 64 == 0) serve(a, NULL);
    }
    serve(a, NULL);
    nanosleep(&later, NULL);
    meet(a, b);
    sn_local_close(a);
    sn_local_close(b);
}

/* A peer answers a question that it was not asked: with no nonce, or another's. */
static void an_answer_that_was_not_asked_for_changes_nothing(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    uint8_t nonce[SN_MEET_NONCE] = {0}, name[SN_MEET_NAME] = {7}, right[SN_MEET_NAME];

    (void)state;
    memcpy(right, name_of_slot(B), sizeof(right));
    silence(true); /* there is no answer for now */
    assert_false(ops->in_memory(a, gid, QPN_B));
    serve(a, b);
    sn_local_told(a, gid, B, nonce, name);
    sn_local_told(a, gid, A, nonce, right);
    serve(a, b);
    assert_false(ops->in_memory(a, gid, QPN_B));
    silence(false);
    usleep(40000); /* until it asks again, as what it asked may have got lost */
    assert_false(ops->in_memory(a, gid, QPN_B));
    serve(a, b);
    assert_true(ops->in_memory(a, gid, QPN_B));
    sn_local_close(a);
    sn_local_close(b);
}

static void a_child_closes_the_nics_descriptors_alone(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    pid = fork();
    if (!pid) {
        int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int before = open_fds();
        struct sn_local *a = open_host(A, true);

        ops->in_memory(a, gid, QPN_B); /* wanted, and not met yet */
        sn_local_forked(a);
        _exit(in < 0 || fcntl(0, F_GETFD) < 0 || open_fds() != before);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void out_of_descriptors_it_sleeps_all_the_same(void **state)
{
    struct sn_local *b = open_host(B, true);
    struct rlimit limit, none;
    int fd = sn_meet_connect(name_of_slot(B));

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    serve(b, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(sn_local_senders(b), 0);
    assert_false(readable(sn_local_fd(b)));
    serve(b, NULL); /* there are some again */
    assert_int_equal(sn_local_senders(b), 1);
    close(fd);
    sn_local_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_meet_and_send_frames),
        cmocka_unit_test(nobody_is_met_who_is_not_there),
        cmocka_unit_test(a_sleeper_is_woken_once),
        cmocka_unit_test(frames_outlive_their_sender),
        cmocka_unit_test(frames_only_when_so_configured),
        cmocka_unit_test(pausing_sends_everything_over_the_wire),
        cmocka_unit_test(memory_is_reached_until_its_owner_dies),
        cmocka_unit_test(a_number_that_is_another_process_s_is_not_used),
        cmocka_unit_test(management_goes_over_the_wire),
        cmocka_unit_test(taking_back_waits_for_who_is_inside),
        cmocka_unit_test(who_is_killed_inside_is_not_waited_for),
        cmocka_unit_test(who_says_nonsense_is_shown_the_door),
        cmocka_unit_test(an_empty_message_leaves_no_descriptor),
        cmocka_unit_test(those_who_are_not_there_make_room),
        cmocka_unit_test(an_answer_that_was_not_asked_for_changes_nothing),
        cmocka_unit_test(a_child_closes_the_nics_descriptors_alone),
        cmocka_unit_test(out_of_descriptors_it_sleeps_all_the_same),
    };
    gid[14] = (uint8_t)(getpid() >> 8);
    gid[15] = (uint8_t)getpid();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
