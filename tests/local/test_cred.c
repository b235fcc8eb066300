/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes a process takes for its own user's, in the initial user namespace and in others. Root alone
 * can be two users. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/base/cred.h"
#include "softnic/local/local.h"
#include "softnic/local/meet.h"

enum { OVERFLOW_UID = 65534, STRANGER = 65533, NO_NAMESPACE = 77 };
#define EVERYBODY "0 0 4294967295"

/* A socket whose other end belongs to that user. */
static int socket_of(uid_t uid)
{
    int pair[2];

    assert_int_equal(seteuid(uid), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(seteuid(0), 0);
    return pair[0];
}

static void write_map(pid_t pid, const char *map)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, map, strlen(map)), strlen(map));
    close(fd);
}

/* In a user namespace of its own with that map (NULL: none), as that user of the host, sees() is asked. */
static int in_namespace(const char *map, uid_t uid, int fd, bool (*sees)(int fd))
{
    int made[2], mapped[2], status;
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(made) | pipe(mapped), 0);
    pid = fork();
    if (!pid) {
        /* A process without a map cannot change its user any more. */
        if (!map && seteuid(uid)) _exit(NO_NAMESPACE);
        if (unshare(CLONE_NEWUSER) || write(made[1], &byte, 1) != 1) _exit(NO_NAMESPACE);
        if (read(mapped[0], &byte, 1) != 1 || (map && setresuid(uid, uid, uid))) _exit(NO_NAMESPACE);
        _exit(sees(fd));
    }
    close(made[1]);
    if (read(made[0], &byte, 1) == 1) {
        if (map) write_map(pid, map);
        assert_int_equal(write(mapped[1], &byte, 1), 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(made[0]);
    close(mapped[0]);
    close(mapped[1]);
    return WEXITSTATUS(status);
}

static bool meets(int fd)
{
    pid_t pid;

    return sn_meet_is_ours(fd, &pid);
}

static bool takes_for_root(int fd)
{
    struct ucred peer;

    return sn_cred_of_socket(fd, &peer) == 0 && sn_cred_is_user(&peer, 0);
}

static bool shares_memory(int fd)
{
    struct sn_local_config config = {.gid = {[10] = 0xff, [11] = 0xff, 127, 9, 9, 9}, .slot = 9};
    struct sn_local *local;
    char why[256] = "";

    (void)fd;
    if (sn_local_open(&config, &local, why) == 0) return true;
    return !strstr(why, "uid map");
}

static void need_two_users(void)
{
    if (geteuid()) skip();
}

static void only_the_own_user_is_ours(void **state)
{
    int mine, other;

    (void)state;
    need_two_users();
    mine = socket_of(0);
    other = socket_of(STRANGER);
    assert_true(meets(mine));
    assert_false(meets(other));
    assert_true(takes_for_root(mine));
    assert_false(takes_for_root(other));
    close(mine);
    close(other);
}

/* No user there has a number: the process and every stranger are the overflow uid. */
static void without_a_map_a_stranger_is_not_ours(void **state)
{
    int other, rc;

    (void)state;
    need_two_users();
    other = socket_of(STRANGER);
    rc = in_namespace(NULL, 0, other, meets);
    close(other);
    if (rc == NO_NAMESPACE) skip();
    assert_int_equal(rc, false);
}

static void without_a_map_no_memory_is_shared(void **state)
{
    int rc;

    (void)state;
    need_two_users();
    rc = in_namespace(NULL, 0, -1, shares_memory);
    if (rc == NO_NAMESPACE) skip();
    assert_int_equal(rc, false);
}

/* The overflow uid is mapped there, and the stranger is not. */
static void a_stranger_is_not_the_mapped_overflow_uid(void **state)
{
    int other, rc;

    (void)state;
    need_two_users();
    other = socket_of(STRANGER);
    rc = in_namespace("0 0 1\n65534 65534 1", OVERFLOW_UID, other, meets);
    close(other);
    if (rc == NO_NAMESPACE) skip();
    assert_int_equal(rc, false);
}

static void root_is_known_in_a_namespace(void **state)
{
    int mine, rc;

    (void)state;
    need_two_users();
    mine = socket_of(0);
    rc = in_namespace("0 0 1", 0, mine, takes_for_root);
    close(mine);
    if (rc == NO_NAMESPACE) skip();
    assert_int_equal(rc, true);
}

/* Where everybody has a number, the overflow uid is a user as any other. */
static void nobody_is_a_user_where_everybody_is_mapped(void **state)
{
    int nobody, rc;

    (void)state;
    need_two_users();
    nobody = socket_of(OVERFLOW_UID);
    rc = in_namespace(EVERYBODY, OVERFLOW_UID, nobody, meets);
    close(nobody);
    if (rc == NO_NAMESPACE) skip();
    assert_int_equal(rc, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_own_user_is_ours),
        cmocka_unit_test(without_a_map_a_stranger_is_not_ours),
        cmocka_unit_test(without_a_map_no_memory_is_shared),
        cmocka_unit_test(a_stranger_is_not_the_mapped_overflow_uid),
        cmocka_unit_test(root_is_known_in_a_namespace),
        cmocka_unit_test(nobody_is_a_user_where_everybody_is_mapped),
    };

    return cmocka_run_group_tests_name("whom a process takes for its own user", tests, NULL, NULL);
}
