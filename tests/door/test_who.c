/* SPDX-License-Identifier: Apache-2.0 */
/* The names of clients: over real sockets, in a network namespace of the test's own, with clients of other
 * users. Nothing is told to the functions but the accepted socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/door/who.h"

enum { MALLORY = 1203, ALICE = 1204 };

enum manner {
    STAYS,
    HALF_CLOSES, /* says that it will send nothing more, and stays */
    CLOSES,      /* sends, and closes at once: the end is in TIME_WAIT before anybody looks */
    RESETS
};

struct client {
    int uid;
    const char *from, *to; /* numeric; from NULL: any */
    const char *device;    /* that it is bound to; NULL: none */
    size_t bytes;          /* that it sends first */
    enum manner manner;
};

static int door, port;

static socklen_t fill(const char *text, int at_port, const char *device, struct sockaddr_storage *a)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)a;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)a;
    memset(a, 0, sizeof(*a));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)at_port);
        return sizeof(*v4);
    }
    inet_pton(AF_INET6, text, &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)at_port);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) v6->sin6_scope_id = if_nametoindex(device);
    return sizeof(*v6);
}

/* One socket for both families. */
static int open_door(void)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    socklen_t n = sizeof(a);
    int off = 0;
    door = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(door, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(door, (struct sockaddr *)&a, n) || listen(door, 64)) return -1;
    if (getsockname(door, (struct sockaddr *)&a, &n)) return -1;
    port = ntohs(a.sin6_port);
    return 0;
}

/* In the child. 0, or the line that failed. */
static int be_client(const struct client *c)
{
    static const char data[4096];
    struct linger reset = {1, 0};
    struct sockaddr_storage a;
    if (setresgid((gid_t)c->uid, (gid_t)c->uid, (gid_t)c->uid)) return __LINE__;
    if (setresuid((uid_t)c->uid, (uid_t)c->uid, (uid_t)c->uid)) return __LINE__;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* which a change of user takes back */
    socklen_t n = fill(c->to, port, c->device, &a);
    int fd = socket(a.ss_family, SOCK_STREAM, 0);
    if (c->device && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->device, (socklen_t)strlen(c->device)))
        return __LINE__;
    struct sockaddr_storage from;
    if (c->from && bind(fd, (struct sockaddr *)&from, fill(c->from, 0, c->device, &from))) return __LINE__;
    if (connect(fd, (struct sockaddr *)&a, n)) return __LINE__;
    if (c->bytes && send(fd, data, c->bytes, c->manner == CLOSES ? MSG_MORE : 0) != (ssize_t)c->bytes)
        return __LINE__;
    if (c->manner == RESETS) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (c->manner == HALF_CLOSES) shutdown(fd, SHUT_WR);
    if (c->manner >= CLOSES) close(fd);
    return 0;
}

/* The client has done what it does first; it stays until let_go. */
static pid_t bring(const struct client *c)
{
    int told[2], line = -1;
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        line = be_client(c);
        if (write(told[1], &line, sizeof(line)) != sizeof(line)) _exit(1);
        for (;;) pause();
    }
    close(told[1]);
    assert_int_equal(read(told[0], &line, sizeof(line)), sizeof(line));
    close(told[0]);
    if (line) fail_msg("client: line %d of this file", line);
    return pid;
}

static void let_go(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The name that the door gets for such a client. */
static int ask(const struct client *c, char who[GW_WHO_TEXT], int *here)
{
    pid_t pid = bring(c);
    int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    int rc = gw_who(fd, who);
    *here = gw_who_is_here(fd, who);
    close(fd);
    let_go(pid);
    return rc;
}

static void expect(const struct client *c, const char *name)
{
    char who[GW_WHO_TEXT];
    int here;
    int rc = ask(c, who, &here);
    if (rc || strcmp(who, name)) fail_msg("from %s to %s: '%s' (%d)", c->from, c->to, who, rc);
}

static void a_user_has_one_name_at_every_address(void **state)
{
    static const char *const pairs[][2] = {{NULL, "127.0.0.1"},
                                           {"127.0.0.9", "127.0.0.1"},
                                           {"10.99.0.2", "127.0.0.1"},
                                           {"127.0.0.1", "10.99.0.2"},
                                           {"10.98.7.6", "127.0.0.1"},
                                           {"10.98.7.6", "10.99.0.2"},
                                           {NULL, "::1"},
                                           {"fd00:99::2", "::1"},
                                           {"fd00:99::2", "fd00:99::3"},
                                           {"::ffff:10.99.0.2", "::ffff:127.0.0.1"}};
    char who[GW_WHO_TEXT];
    int here;
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct client c = {MALLORY, pairs[i][0], pairs[i][1], NULL, 0, STAYS};
        expect(&c, "user 1203");
        c.device = "lo";
        expect(&c, "user 1203");
        c.uid = 0;
        expect(&c, "user 0");
    }
    struct client link = {MALLORY, "fe80::99", "fe80::99", "link0", 0, STAYS};
    assert_int_equal(ask(&link, who, &here), 0);
    assert_string_equal(who, "user 1203");
    assert_true(here);
}

static void who_has_gone_is_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        static const size_t sizes[] = {0, 1, 3000};
        char who[GW_WHO_TEXT];
        int here;
        struct client c = {MALLORY, NULL, i & 1 ? "::1" : "127.0.0.1", NULL, sizes[i % 3], CLOSES};
        if (i % 8 == 7) c.manner = RESETS;
        assert_int_equal(ask(&c, who, &here), -ENOTCONN);
        assert_string_equal(who, "this host");
        assert_false(here);
    }
}

static void a_half_closed_end_has_a_name_and_no_rights(void **state)
{
    struct client c = {MALLORY, NULL, "127.0.0.1", NULL, 10, HALF_CLOSES};
    char who[GW_WHO_TEXT];
    int here;
    (void)state;
    assert_int_equal(ask(&c, who, &here), 0);
    assert_string_equal(who, "user 1203");
    assert_false(here);
}

/* The name was given while the client was there. Then it goes, and root listens on its port. */
static void the_next_owner_of_a_port_is_not_the_client(void **state)
{
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct client c = {MALLORY, NULL, "127.0.0.1", NULL, 0, STAYS};
        struct sockaddr_storage at;
        struct sockaddr_in them;
        socklen_t n = sizeof(at);
        char who[GW_WHO_TEXT];
        int on = 1;
        pid_t pid = bring(&c);
        int fd = accept4(door, (struct sockaddr *)&at, &n, SOCK_CLOEXEC);
        assert_int_equal(gw_who(fd, who), 0);
        assert_true(gw_who_is_here(fd, who));
        assert_false(gw_who_is_here(fd, "user 0"));
        if (reset) send(fd, "x", 1, 0); /* what it has not read becomes a reset */
        let_go(pid);
        fill("127.0.0.1", ntohs(((struct sockaddr_in6 *)&at)->sin6_port), NULL,
             (struct sockaddr_storage *)&at);
        memcpy(&them, &at, sizeof(them));
        int next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(next, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        /* An end that was closed in order keeps its port for a while. */
        assert_int_equal(bind(next, (struct sockaddr *)&them, sizeof(them)) ? 0 : 1, reset);
        assert_int_equal(reset ? listen(next, 1) : 0, 0);
        assert_false(gw_who_is_here(fd, who));
        assert_int_equal(gw_who(fd, who), -ENOTCONN);
        assert_string_equal(who, "this host");
        close(next);
        close(fd);
    }
}

/* With addresses translated on the way the kernel does not know whose the other end is. */
static void a_translated_connection_is_of_this_host(void **state)
{
    char rule[300], who[GW_WHO_TEXT];
    struct client c = {MALLORY, NULL, "127.0.0.1", NULL, 0, STAYS};
    int here, served = port;
    (void)state;
    snprintf(
        rule, sizeof(rule),
        "nft 'table ip t { chain o { type nat hook output priority -100; tcp dport 9 redirect to :%d; }; }'",
        port);
    if (system(rule)) skip();
    port = 9;
    int rc = ask(&c, who, &here);
    port = served;
    assert_int_equal(system("nft delete table ip t"), 0);
    assert_int_equal(rc, 0);
    assert_string_equal(who, "this host");
    assert_false(here);
}

static void another_host_is_its_address(void **state)
{
    char who[GW_WHO_TEXT];
    int here, ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    (void)state;
    if (system("ip link add here0 type veth peer name there0 && ip addr add 192.0.2.1/24 dev here0 && "
               "ip addr add fd00:2::1/64 dev here0 nodad && ip link set here0 up"))
        skip();
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) { /* the other host */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) || write(ready[1], "x", 1) != 1) _exit(1);
        while (system("ip link set there0 up 2>/dev/null")) usleep(10000);
        if (system("ip addr add 192.0.2.2/24 dev there0; ip addr add fd00:2::2/64 dev there0 nodad"))
            _exit(1);
        struct client v4 = {MALLORY, "192.0.2.2", "192.0.2.1", NULL, 0, STAYS};
        if (!fork()) _exit(be_client(&v4) ? 1 : pause());
        struct client v6 = {MALLORY, "fd00:2::2", "fd00:2::1", NULL, 0, STAYS};
        _exit(be_client(&v6) ? 1 : pause());
    }
    char move[80];
    assert_int_equal(read(ready[0], who, 1), 1);
    snprintf(move, sizeof(move), "ip link set there0 netns %d", (int)pid);
    assert_int_equal(system(move), 0);
    for (int seen = 0, i = 0; i < 2; i++) {
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        assert_int_equal(gw_who(fd, who), 0);
        here = gw_who_is_here(fd, who);
        assert_false(here);
        seen |= !strcmp(who, "192.0.2.2") ? 1 : !strcmp(who, "fd00:2::/64") ? 2 : 4;
        assert_int_equal(seen & 4, 0);
        if (i) assert_int_equal(seen, 3);
        close(fd);
    }
    let_go(pid);
    close(ready[0]);
    close(ready[1]);
    close(ns);
}

/* ---- a server in a user namespace ---- */

static int put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), n = -1;
    if (fd >= 0) n = (int)write(fd, text, strlen(text));
    if (fd >= 0) close(fd);
    return n == (int)strlen(text) ? 0 : -1;
}

/* In the child, which has a user namespace: accepts `count` clients, and writes their names. */
static void accept_in_namespace(int ready, int names, int count)
{
    char who[GW_WHO_TEXT];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWUSER) || write(ready, "x", 1) != 1) _exit(1);
    for (int i = 0; i < count; i++) {
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        memset(who, 0, sizeof(who));
        if (gw_who(fd, who) || write(names, who, sizeof(who)) != sizeof(who)) _exit(1);
        if (gw_who_is_here(fd, "user 65534")) _exit(1);
        close(fd);
    }
    _exit(0);
}

static void users_without_a_number_are_nobody(void **state)
{
    /* One number; a range as containers have it, in which 65534 is a number, too; and all. */
    static const struct {
        const char *map, *mallory, *root;
    } cases[] = {{"0 0 1", "this host", "user 0"},
                 {"0 0 1000\n1000 2000 64536\n", "this host", "user 0"},
                 {"0 1203 1\n1 0 1\n", "user 0", "user 1"},
                 {"0 0 4294967295", "user 1203", "user 0"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int ready[2], names[2], status;
        char path[64], who[GW_WHO_TEXT], one;
        assert_int_equal(pipe2(ready, O_CLOEXEC) || pipe2(names, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (!pid) accept_in_namespace(ready[1], names[1], 3);
        close(ready[1]);
        if (read(ready[0], &one, 1) != 1) skip(); /* there are no user namespaces here */
        snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
        assert_int_equal(put_file(path, cases[i].map), 0);
        const struct {
            int uid;
            const char *name;
        } clients[] = {{MALLORY, cases[i].mallory},
                       {0, cases[i].root},
                       {ALICE, !strcmp(cases[i].mallory, "user 1203") ? "user 1204" : "this host"}};
        for (int k = 0; k < 3; k++) {
            struct client c = {clients[k].uid, NULL, "127.0.0.1", NULL, 0, STAYS};
            pid_t client = bring(&c);
            assert_int_equal(read(names[0], who, sizeof(who)), sizeof(who));
            if (strcmp(who, clients[k].name)) fail_msg("map %s: user %d is '%s'", cases[i].map, c.uid, who);
            let_go(client);
        }
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        close(ready[0]);
        close(names[0]);
        close(names[1]);
    }
}

static void only_a_users_name_is_one(void **state)
{
    static const char *const none[] = {"",
                                       "this host",
                                       "user",
                                       "user ",
                                       "user -1",
                                       "user 1x",
                                       "user  1",
                                       "user 4294967295",
                                       "user +1",
                                       "192.0.2.1",
                                       "user 99999999999999999999"};
    uint32_t uid = 7;
    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) assert_false(gw_who_user(none[i], &uid));
    assert_int_equal(uid, 7);
    assert_true(gw_who_user("user 4294967294", &uid));
    assert_true(uid == 4294967294u);
    assert_true(gw_who_user("user 0", &uid));
    assert_int_equal(uid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_has_one_name_at_every_address),
        cmocka_unit_test(who_has_gone_is_nobody),
        cmocka_unit_test(a_half_closed_end_has_a_name_and_no_rights),
        cmocka_unit_test(the_next_owner_of_a_port_is_not_the_client),
        cmocka_unit_test(a_translated_connection_is_of_this_host),
        cmocka_unit_test(another_host_is_its_address),
        cmocka_unit_test(users_without_a_number_are_nobody),
        cmocka_unit_test(only_a_users_name_is_one),
    };
    if (geteuid() || unshare(CLONE_NEWNET)) {
        puts("skipped: clients of other users, and a network of its own, need root");
        return 77;
    }
    if (system(
            "ip link set lo up && ip addr add 10.99.0.2/32 dev lo && ip route add local 10.98.0.0/16 dev lo "
            "&& "
            "ip addr add fd00:99::2/128 dev lo && ip addr add fd00:99::3/128 dev lo && "
            "ip link add link0 type veth peer name link1 && ip link set link1 up && ip link set link0 up && "
            "ip addr add fe80::99/64 dev link0 nodad") ||
        open_door())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
