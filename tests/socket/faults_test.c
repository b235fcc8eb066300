/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures outside of a process: a peer that stands still, the link, the helper's thread. A negative errno
 * for the sockets that are concerned, in time, and nothing for the others of the same set.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/ptrace.h>

#include "tests/socket/faults_peers.h"

static bool is_silence(int64_t err)
{
    return err == -ECONNRESET || err == -ETIMEDOUT;
}

/* Makes that process' NIC unkind, until `none`. */
static void fault(pid_t pid, const char *what)
{
    const char *tool = getenv("GPUWIRE");
    char line[600];

    snprintf(line, sizeof(line), "%s nic --pid %d --fault %s >/dev/null", tool ? tool : "gpuwire", pid, what);
    assert_int_equal(system(line), 0);
}

/* ---- a peer that is silent ----------------------------------------------------------------------------- */

/* Ways to wait for it; each tells within ten times what is promised. */
static int64_t wait_long(int s)
{
    char b[8];

    return recv_ours(s, b, sizeof(b));
}

/* The socket's own error: a call's may be its deadline. */
static int64_t wait_shortly(int s)
{
    uint64_t end = gw_clock_ns() + TEN_TIMES;
    socklen_t len = sizeof(int);
    int err = 0;
    char b[8];

    while (!err && gw_clock_ns() < end) {
        (void)gw_sock_recv_thread(net, s, b, sizeof(b), 0, gw_clock_ns() + 50 * MS);
        assert_int_equal(gw_sock_getsockopt_thread(net, s, SOL_SOCKET, SO_ERROR, &err, &len), 0);
    }
    return -err;
}

static int64_t wait_not(int s)
{
    uint64_t end = gw_clock_ns() + TEN_TIMES;
    int64_t n;
    char b[8];

    do n = gw_sock_recv_thread(net, s, b, sizeof(b), MSG_DONTWAIT, 0);
    while (n == -EAGAIN && gw_clock_ns() < end && !usleep(1000));
    return n;
}

static int64_t wait_by_poll(int s)
{
    struct pollfd f = {.fd = s, .events = POLLIN};
    char b[8];

    if (gw_sock_poll_thread(net, &f, 1, gw_clock_ns() + TEN_TIMES) != 1 || !(f.revents & POLLERR)) return 0;
    return gw_sock_recv_thread(net, s, b, sizeof(b), MSG_DONTWAIT, 0);
}

static int64_t wait_for_room(int s)
{
    static uint8_t much[1 << 20];
    uint64_t end = gw_clock_ns() + TEN_TIMES;
    int64_t n;

    do n = gw_sock_send_thread(net, s, much, sizeof(much), 0, soon());
    while (n > 0 && gw_clock_ns() < end);
    return n;
}

static void patience(int s)
{
    static const int name[] = {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT}, value[] = {1, 1, 2};

    for (int i = 0; i < 3; i++)
        assert_int_equal(gw_sock_setsockopt_thread(net, s, IPPROTO_TCP, name[i], &value[i], sizeof(value[i])),
                         0);
}

/* Its link is down: its NIC answers nothing more. */
static void test_silent_peer(void **state)
{
    static int64_t (*const waits[])(int s) = {wait_long, wait_shortly, wait_not, wait_by_poll, wait_for_room};
    enum { WAYS = sizeof(waits) / sizeof(waits[0]) };
    int s[WAYS], other = meet(BYSTANDER);
    struct tcp tcp = join_tcp();
    uint64_t begin;
    int64_t err;

    (void)state;
    for (int i = 0; i < WAYS; i++) {
        works(s[i] = meet(VICTIM));
        if (i) patience(s[i]);
    }
    fault(peer[VICTIM], "down=0");
    for (int i = 0; i < WAYS; i++) {
        begin = gw_clock_ns();
        err = waits[i](s[i]);
        if (!is_silence(err)) fail_msg("way %d: %lld", i, (long long)err);
        if (gw_clock_ns() - begin > TEN_TIMES) fail_msg("way %d is late", i);
        works(other);
        tcp_works(&tcp);
    }
    fault(peer[VICTIM], "none");
    for (int i = 0; i < WAYS; i++) close_ours(s[i]);
    works(s[0] = meet(VICTIM));
    close_ours(s[0]);
    close_ours(other);
    part_tcp(&tcp);
    assert_int_equal(gw_sockets_open(set), 1);
}

static void stop_peer(void)
{
    int status;

    kill(peer[VICTIM], SIGSTOP);
    assert_int_equal(waitpid(peer[VICTIM], &status, WUNTRACED), peer[VICTIM]); /* all its threads do */
    assert_true(WIFSTOPPED(status));
}

/* Its program stands still, and its NIC answers: as with TCP there is the deadline, and no error. */
static void test_peer_stands_still(void **state)
{
    int s = meet(VICTIM), other = meet(BYSTANDER);
    static uint8_t much[1 << 16];
    int64_t n;

    (void)state;
    stop_peer();
    do n = gw_sock_send_thread(net, s, much, sizeof(much), 0, gw_clock_ns() + 100 * MS);
    while (n > 0);
    assert_int_equal(n, -ETIMEDOUT);
    assert_int_equal(gw_sock_recv_thread(net, s, much, 1, 0, gw_clock_ns() + 1500 * MS), -ETIMEDOUT);
    works(other);
    kill(peer[VICTIM], SIGCONT);
    assert_int_equal(recv_ours(s, much, 1), 1);
    close_ours(s);
    close_ours(other);
}

/* ---- no peer there ------------------------------------------------------------------------------------- */

static void test_unreachable(void **state)
{
    int other = meet(BYSTANDER), s = open_rdma();
    struct sockaddr_in far = nowhere;
    int64_t err;

    (void)state;
    /* An unused address of this host; and one that no host has (RFC 5737). Its deadline may come first: then
     * it goes on, and may be closed. */
    assert_int_equal(connect_to(s, &nowhere, soon()), -ECONNREFUSED);
    close_ours(s);
    s = open_rdma();
    inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);
    err = connect_to(s, &far, gw_clock_ns() + 300 * MS);
    if (err != -ETIMEDOUT && err != -EHOSTUNREACH && err != -ENETUNREACH)
        fail_msg("unreachable: %lld", (long long)err);
    works(other);
    close_ours(s);
    /* A peer that stands still takes no connection. */
    stop_peer();
    s = open_rdma();
    assert_int_equal(connect_to(s, &at[1 + VICTIM], 0), -EINPROGRESS);
    assert_int_equal(connect_to(s, &at[1 + VICTIM], gw_clock_ns() + 300 * MS), -ETIMEDOUT);
    assert_int_equal(gw_sock_send_thread(net, s, "x", 1, 0, gw_clock_ns() + 20 * MS), -ETIMEDOUT);
    works(other);
    close_ours(s);
    kill(peer[VICTIM], SIGCONT);
    works(s = meet(VICTIM));
    close_ours(s);
    close_ours(other);
}

/* ---- our own link -------------------------------------------------------------------------------------- */

static void test_link_lost(void **state)
{
    int s[PEERS], l = open_rdma(), t;
    struct sockaddr_in own = at[0];
    struct tcp tcp = join_tcp();
    int64_t err;
    char b[8];

    (void)state;
    own.sin_port = 0;
    assert_int_equal(gw_sock_bind_thread(net, l, (struct sockaddr *)&own, sizeof(own), soon()), 0);
    assert_int_equal(gw_sock_listen_thread(net, l, 4, soon()), 0);
    for (int i = 0; i < PEERS; i++) {
        works(s[i] = meet(i));
        patience(s[i]);
    }
    fault(getpid(), "down=0");
    for (int i = 0; i < PEERS; i++) {
        err = gw_sock_recv_thread(net, s[i], b, sizeof(b), 0, gw_clock_ns() + TEN_TIMES);
        if (!is_silence(err)) fail_msg("peer %d: %lld", i, (long long)err);
        assert_int_equal(send_ours(s[i], b, 1), err);
        tcp_works(&tcp);
    }
    assert_int_equal(gw_sock_accept_thread(net, l, NULL, NULL, gw_clock_ns() + 50 * MS), -ETIMEDOUT);
    t = open_rdma();
    assert_int_equal(connect_to(t, &at[1 + BYSTANDER], gw_clock_ns() + 300 * MS), -ETIMEDOUT);
    close_ours(t);
    fault(getpid(), "none");
    for (int i = 0; i < PEERS; i++) {
        close_ours(s[i]);
        works(s[i] = meet(i));
        close_ours(s[i]);
    }
    close_ours(l);
    part_tcp(&tcp);
}

/* ---- the helper ---------------------------------------------------------------------------------------- */

/* The thread of that name, of this process. */
static pid_t thread_named(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    char path[300], text[32];
    pid_t found = 0;
    FILE *f;

    while (d && !found && (e = readdir(d))) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (!f) continue;
        if (fgets(text, sizeof(text), f) && !strncmp(text, name, strlen(name))) found = atoi(e->d_name);
        fclose(f);
    }
    if (d) closedir(d);
    return found;
}

/* Holds one thread of this process, until the pipe is closed: a child that traces it. -1: not allowed
 * here. */
static pid_t hold(pid_t thread, int *release)
{
    int p[2], said[2], status;
    char ok = 0;
    pid_t pid;

    assert_int_equal(pipe(p), 0);
    assert_int_equal(pipe(said), 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid = fork();
    if (!pid) {
        close(p[1]);
        ok = !ptrace(PTRACE_SEIZE, thread, 0, 0) && !ptrace(PTRACE_INTERRUPT, thread, 0, 0) &&
             waitpid(thread, &status, __WALL) == thread;
        if (write(said[1], &ok, 1) == 1 && ok) (void)!read(p[0], &ok, 1);
        _exit(0); /* which lets it go on */
    }
    close(p[0]);
    close(said[1]);
    assert_int_equal(read(said[0], &ok, 1), 1);
    close(said[0]);
    *release = p[1];
    if (ok) return pid;
    close(p[1]);
    waitpid(pid, NULL, 0);
    return -1;
}

static void *ask(void *arg)
{
    *(int *)arg = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, 0);
    return NULL;
}

/* More threads ask than can at a time. Each gives up, and what they asked for is taken back once the helper
 * goes on. */
static void test_helper_stands_still(void **state)
{
    int s = meet(BYSTANDER), release, got[GW_SOCK_ASKS_ + 1];
    pthread_t thread[GW_SOCK_ASKS_ + 1];
    struct tcp tcp = join_tcp();
    uint32_t open = gw_sockets_open(set);
    uint64_t limit = soon();
    pid_t holder = hold(thread_named("gw-sockets"), &release);
    char b[8];

    (void)state;
    if (holder < 0) skip();
    for (int i = 0; i < GW_SOCK_ASKS_ + 1; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &got[i]), 0);
    works(s); /* no CPU is spent on data over RDMA */
    assert_int_equal(gw_sock_recv_thread(net, tcp.s[0], b, 1, 0, gw_clock_ns() + 20 * MS), -ETIMEDOUT);
    assert_int_equal(send_ours(tcp.s[1], "later", 5), 5);
    for (int i = 0; i < GW_SOCK_ASKS_ + 1; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(got[i], -ETIMEDOUT);
    }
    close(release);
    waitpid(holder, NULL, 0);
    assert_int_equal(gw_sock_recv_thread(net, tcp.s[0], b, 5, MSG_WAITALL, soon()), 5);
    tcp_works(&tcp);
    works(s);
    close_ours(s);
    part_tcp(&tcp);
    while (gw_sockets_open(set) > open - 3) {
        close_ours(open_ours()); /* who asks sees to what was asked before */
        assert_true(gw_clock_ns() < limit);
    }
    for (int i = 0; i < SOCKETS - 1; i++) got[0] = open_ours();
    for (int i = 0; i < SOCKETS; i++)
        if (i != listener) close_ours(i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_peer),         cmocka_unit_test(test_peer_stands_still),
        cmocka_unit_test(test_unreachable),         cmocka_unit_test(test_link_lost),
        cmocka_unit_test(test_helper_stands_still),
    };
    int rc;

    if (start_peers()) {
        fprintf(stderr, "the peers do not start\n");
        return 1;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    rc = cmocka_run_group_tests(tests, make, unmake);
    return end_peers() || rc;
}
