/* SPDX-License-Identifier: Apache-2.0 */
/* Processes meet at an address: they talk, die, do not come, and strangers come in their place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <gpuwire/ranks.h>

#include "src/ranks/wire.h"
#include "tests/child.h"

#define LIMIT     gw_deadline(UINT64_C(60000000000))
#define SECOND    UINT64_C(1000000000)
#define MAX_TRY   16
#define STRANGERS 200

static int listener; /* rank 0's, made before the forks */
static char rendezvous[32];

static void meeting_make(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);

    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    snprintf(rendezvous, sizeof(rendezvous), "127.0.0.1:%u", ntohs(a.sin_port));
}

static int meet(uint32_t rank, uint32_t size, uint64_t deadline, struct gw_ranks **r)
{
    struct gw_ranks_attr attr = {.how = GW_RANKS_PLAIN,
                                 .rank = rank,
                                 .size = size,
                                 .rendezvous = rendezvous,
                                 .secret = "s",
                                 .listener = rank ? 0 : 1 + (uint32_t)listener};

    return gw_ranks_join(&attr, deadline, r);
}

static int environment_part(uint32_t rank, uint32_t size);

/* Each of `size` processes runs it, less those from `come` on; it returns 0, or the line that failed. */
typedef int (*part_fn)(uint32_t rank, uint32_t size);

static pid_t part_start(part_fn part, uint32_t rank, uint32_t size)
{
    pid_t pid, parent = getpid();

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (rank && part != environment_part) close(listener);
    _exit(part(rank, size) ? 1 : 0);
}

static void parts_end(const pid_t *pid, uint32_t n, uint32_t killed)
{
    for (uint32_t i = 0; i < n; i++) {
        int status;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        if (i == killed)
            assert_true(WIFSIGNALED(status));
        else
            assert_int_equal(status, 0);
    }
}

static void play(part_fn part, uint32_t size, uint32_t come, uint32_t killed)
{
    pid_t pid[MAX_TRY];

    meeting_make();
    for (uint32_t i = 0; i < come; i++) pid[i] = part_start(part, i, size);
    close(listener);
    parts_end(pid, come, killed);
}

/* ---- all is well --------------------------------------------------------------------------------------- */

static int talk_rounds(struct gw_ranks *r, uint32_t rank, uint32_t size)
{
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t mine = rank + 100 * round, got, all[MAX_TRY];
        char key[16];

        snprintf(key, sizeof(key), "k%u", round);
        TRY(gw_ranks_publish(r, key, &mine, sizeof(mine)) == 0);
        if (round % 2) TRY(gw_ranks_fence(r, LIMIT) == 0);
        for (uint32_t i = 0; i < size; i++) {
            TRY(gw_ranks_lookup(r, i, key, &got, sizeof(got), LIMIT) == sizeof(got));
            TRY(got == i + 100 * round);
        }
        TRY(gw_ranks_gather(r, &mine, sizeof(mine), all, LIMIT) == 0);
        for (uint32_t i = 0; i < size; i++) TRY(all[i] == i + 100 * round);
    }
    return 0;
}

static int talk_part(uint32_t rank, uint32_t size)
{
    static char large[GW_RANKS_VALUE], got[GW_RANKS_VALUE];
    struct gw_ranks *r;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    TRY(gw_ranks_rank(r) == rank && gw_ranks_size(r) == size && gw_ranks_how(r) == GW_RANKS_PLAIN);
    TRY(gw_ranks_local_rank(r) == rank && gw_ranks_local_size(r) == size);
    TRY(talk_rounds(r, rank, size) == 0);
    memset(large, (int)rank, sizeof(large));
    TRY(gw_ranks_publish(r, "large", large, sizeof(large)) == 0);
    TRY(gw_ranks_publish(r, "empty", NULL, 0) == 0);
    TRY(gw_ranks_lookup(r, (rank + 1) % size, "large", got, sizeof(got), LIMIT) == sizeof(got));
    TRY(got[0] == (char)((rank + 1) % size) && got[sizeof(got) - 1] == got[0]);
    TRY(gw_ranks_lookup(r, (rank + 1) % size, "empty", NULL, 0, LIMIT) == 0);
    TRY(gw_ranks_publish(r, "more", large, sizeof(large) + 1) == -EINVAL);
    TRY(gw_ranks_publish(r, "", large, 1) == -EINVAL);
    TRY(gw_ranks_lookup(r, size, "large", got, 1, LIMIT) == -EINVAL);
    TRY(gw_ranks_dead(r, NULL, 0) == 0 && !gw_ranks_is_dead(r, 0));
    TRY(gw_ranks_leave(r, LIMIT) == 0); /* rank 0 may come here first, and waits */
    return 0;
}

static void test_talk(void **state)
{
    (void)state;
    play(talk_part, 4, 4, UINT32_MAX);
    play(talk_part, 1, 1, UINT32_MAX);
    play(talk_part, MAX_TRY, MAX_TRY, UINT32_MAX);
}

/* As a launcher's environment says it. */
static int environment_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;
    char text[12];

    snprintf(text, sizeof(text), "%u", rank);
    setenv("GPUWIRE_RANK", text, 1);
    snprintf(text, sizeof(text), "%u", size);
    setenv("GPUWIRE_SIZE", text, 1);
    setenv("GPUWIRE_RENDEZVOUS", rendezvous, 1);
    TRY(gw_ranks_join(NULL, LIMIT, &r) == 0);
    TRY(gw_ranks_rank(r) == rank && gw_ranks_size(r) == size);
    TRY(gw_ranks_fence(r, LIMIT) == 0);
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

static void test_environment(void **state)
{
    struct gw_ranks *r;
    pid_t pid[3];

    (void)state;
    meeting_make();
    close(listener); /* rank 0 listens there itself */
    for (uint32_t i = 0; i < 3; i++) pid[i] = part_start(environment_part, i, 3);
    parts_end(pid, 3, UINT32_MAX);
    assert_int_equal(gw_ranks_join(NULL, LIMIT, &r), 0);
    assert_int_equal(gw_ranks_how(r), GW_RANKS_ALONE);
    assert_int_equal(gw_ranks_fence(r, LIMIT), 0);
    assert_int_equal(gw_ranks_leave(r, LIMIT), 0);
    setenv("GPUWIRE_RANK", "4", 1);
    assert_int_equal(gw_ranks_join(NULL, LIMIT, &r), -EINVAL);
    setenv("GPUWIRE_SIZE", "4", 1);
    assert_int_equal(gw_ranks_join(NULL, LIMIT, &r), -EINVAL); /* ranks begin at 0 */
    setenv("GPUWIRE_RANK", "1", 1);
    assert_int_equal(gw_ranks_join(NULL, LIMIT, &r), -EINVAL); /* no rendezvous */
    setenv("GPUWIRE_RENDEZVOUS", "nowhere", 1);
    assert_int_equal(gw_ranks_join(NULL, LIMIT, &r), -EINVAL);
    unsetenv("GPUWIRE_RANK");
    unsetenv("GPUWIRE_SIZE");
    unsetenv("GPUWIRE_RENDEZVOUS");
    assert_int_equal(gw_ranks_join(&(struct gw_ranks_attr){.how = GW_RANKS_PMIX}, LIMIT, &r), -ENOSYS);
}

/* A fence is given up, and gone on with. */
static int late_part(uint32_t rank, uint32_t size)
{
    const struct timespec nap = {.tv_nsec = 600000000};
    struct gw_ranks *r;
    uint32_t got;
    int err;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    if (rank == 1) {
        nanosleep(&nap, NULL);
        TRY(gw_ranks_publish(r, "late", &rank, sizeof(rank)) == 0);
        TRY(gw_ranks_fence(r, LIMIT) == 0);
    } else {
        TRY(gw_ranks_lookup(r, 1, "late", &got, sizeof(got), gw_deadline(1000)) == -ETIMEDOUT);
        while ((err = gw_ranks_fence(r, gw_deadline(SECOND / 4))) == -ETIMEDOUT)
            TRY(strstr(gw_last_error(), "rank 1") || strstr(gw_last_error(), "(some)"));
        TRY(err == 0);
        TRY(gw_ranks_lookup(r, 1, "late", &got, sizeof(got), gw_deadline(SECOND * 10)) == sizeof(got));
    }
    TRY(gw_ranks_fence(r, LIMIT) == 0);
    TRY(gw_ranks_gather(r, &rank, rank == 1 ? 2 : 3, (char[16]){0}, LIMIT) == -EPROTO);
    TRY(gw_ranks_fence(r, LIMIT) == -EPROTO); /* and out of step they stay */
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

static void test_late(void **state)
{
    (void)state;
    play(late_part, 3, 3, UINT32_MAX);
}

/* ---- deaths -------------------------------------------------------------------------------------------- */

static int death_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;
    uint32_t dead = UINT32_MAX, word = rank;
    int fd;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    fd = gw_ranks_watch(r);
    TRY(fd >= 0);
    if (rank == 2) {
        TRY(gw_ranks_publish(r, "last word", &word, sizeof(word)) == 0);
        raise(SIGKILL);
    }
    TRY(gw_ranks_lookup(r, 2, "never said", &word, sizeof(word), LIMIT) == -ESRCH);
    TRY(gw_wait_fds(&fd, 1, LIMIT) == 1);
    TRY(read(fd, &dead, sizeof(dead)) == sizeof(dead) && dead == 2);
    close(fd);
    TRY(gw_ranks_is_dead(r, 2) && !gw_ranks_is_dead(r, 1));
    TRY(gw_ranks_dead(r, &dead, 1) == 1 && dead == 2);
    TRY(gw_ranks_fence(r, LIMIT) == -ECONNRESET && strstr(gw_last_error(), "rank 2"));
    TRY(gw_ranks_lookup(r, 2, "last word", &word, sizeof(word), LIMIT) == sizeof(word) && word == 2);
    /* The living go on. */
    TRY(gw_ranks_publish(r, "after", &rank, sizeof(rank)) == 0);
    for (uint32_t i = 0; i < size; i++)
        if (i != 2)
            TRY(gw_ranks_lookup(r, i, "after", &word, sizeof(word), LIMIT) == sizeof(word) && word == i);
    fd = gw_ranks_watch(r); /* who watches later hears of earlier deaths */
    TRY(fd >= 0 && read(fd, &dead, sizeof(dead)) == sizeof(dead) && dead == 2);
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    TRY(read(fd, &dead, sizeof(dead)) == 0);
    return 0;
}

static int first_dies_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;
    uint32_t dead, word;
    int fd;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    if (rank) TRY(gw_ranks_publish(r, "here", &rank, sizeof(rank)) == 0);
    /* What rank 0 has not yet sent dies with it: the others must know first that all have joined. */
    for (uint32_t i = 1; !rank && i < size; i++)
        TRY(gw_ranks_lookup(r, i, "here", &word, sizeof(word), LIMIT) == sizeof(word));
    if (!rank) raise(SIGKILL);
    fd = gw_ranks_watch(r);
    TRY(gw_ranks_lookup(r, 1, "never", &word, sizeof(word), LIMIT) == -ECONNRESET);
    TRY(read(fd, &dead, sizeof(dead)) == sizeof(dead) && !dead);
    close(fd);
    TRY(gw_ranks_fence(r, LIMIT) == -ECONNRESET && strstr(gw_last_error(), "rank 0"));
    TRY(gw_ranks_publish(r, "x", "", 1) == -ECONNRESET);
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

/* One breaks a rule: it is dropped, and told why; the others see it die. */
static int twice_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;
    uint32_t word;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    if (rank == 1) {
        TRY(gw_ranks_publish(r, "x", "", 1) == 0);
        TRY(gw_ranks_publish(r, "x", "", 1) == 0);
        TRY(gw_ranks_lookup(r, 0, "never", &word, sizeof(word), LIMIT) == -ECONNRESET);
    } else {
        TRY(gw_ranks_fence(r, LIMIT) == -ECONNRESET && gw_ranks_is_dead(r, 1));
    }
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

static int never_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;

    /* The others wait longer than rank 0: one that gives up first would count as dead there. */
    TRY(meet(rank, size, rank ? LIMIT : gw_deadline(2 * SECOND), &r) == (rank ? -ECONNRESET : -ETIMEDOUT));
    if (!rank) TRY(strstr(gw_last_error(), "rank 3") != NULL);
    return 0;
}

static void test_deaths(void **state)
{
    (void)state;
    play(death_part, 4, 4, 2);
    play(first_dies_part, 3, 3, 0);
    play(twice_part, 3, 3, UINT32_MAX);
    play(never_part, 4, 3, UINT32_MAX); /* rank 3 never comes */
}

/* ---- strangers ----------------------------------------------------------------------------------------- */

static int stranger_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;

    TRY(meet(rank, size, LIMIT, &r) == 0);
    TRY(talk_rounds(r, rank, size) == 0);
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

static int stranger_connect(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_port = htons((uint16_t)atoi(strchr(rendezvous, ':') + 1));
    if (!connect(fd, (struct sockaddr *)&a, sizeof(a))) return fd;
    close(fd);
    return -1;
}

/* Connects and says something wrong, or nothing. A descriptor, or -1. */
static int stranger_come(uint32_t i)
{
    uint8_t text[4096];
    int fd = stranger_connect();

    memset(text, (int)i, sizeof(text));
    if (i % 4 == 1) memcpy(text, "gwr1\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 24);
    if (i % 4 == 2) memcpy(text, "gwr1\2\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\x50\0\0\0", 24);
    if (i % 4) send(fd, text, i % 8 < 4 ? 24 : sizeof(text), MSG_NOSIGNAL);
    return fd;
}

static void test_strangers(void **state)
{
    int fd[STRANGERS];
    pid_t pid[4];

    (void)state;
    meeting_make();
    for (uint32_t i = 0; i < 3; i++) pid[i] = part_start(stranger_part, i, 4);
    for (uint32_t i = 0; i < STRANGERS; i++) fd[i] = stranger_come(i);
    pid[3] = part_start(stranger_part, 3, 4);
    close(listener);
    parts_end(pid, 4, UINT32_MAX);
    for (uint32_t i = 0; i < STRANGERS; i++) close(fd[i]);
}

static int refused_join(uint32_t rank, uint32_t size, const char *secret)
{
    struct gw_ranks_attr attr = {
        .how = GW_RANKS_PLAIN, .rank = rank, .size = size, .rendezvous = rendezvous, .secret = secret};
    struct gw_ranks *r;

    return gw_ranks_join(&attr, LIMIT, &r);
}

/* A second rank 0 comes by hand: its library would listen. */
static int refused_again(uint32_t size)
{
    struct gw_ranks_hello hello = {.size = size, .secret = "s"};
    struct gw_ranks_head head = {.magic = GW_RANKS_MAGIC, .type = GW_RANKS_SAY_HELLO, .size = sizeof(hello)};
    int fd = stranger_connect();
    bool begun;

    TRY(fd >= 0 && gw_ranks_send(fd, &head, &hello, LIMIT, &begun) == 0);
    TRY(gw_ranks_recv(fd, &head, sizeof(head), LIMIT) == 0);
    TRY(head.type == GW_RANKS_SAY_REFUSED && head.err == EPROTO);
    close(fd);
    return 0;
}

/* Rank 1 tries all that is wrong before it comes. */
static int refused_part(uint32_t rank, uint32_t size)
{
    struct gw_ranks *r;

    if (rank) {
        TRY(refused_join(1, size, "t") == -EACCES);
        TRY(refused_join(1, size, "") == -EACCES);
        TRY(refused_join(1, size + 1, "s") == -EPROTO);
        TRY(refused_again(size) == 0);
    }
    TRY(meet(rank, size, LIMIT, &r) == 0);
    TRY(gw_ranks_leave(r, LIMIT) == 0);
    return 0;
}

/* What listens is something else: it says so, or says nothing. */
static void test_not_ranks(void **state)
{
    struct gw_ranks *r;
    pid_t pid;

    (void)state;
    play(refused_part, 2, 2, UINT32_MAX);
    meeting_make();
    pid = fork();
    if (!pid) {
        int fd = accept(listener, NULL, NULL);

        send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
        pause();
        _exit(0);
    }
    assert_int_equal(meet(1, 2, LIMIT, &r), -EPROTO);
    assert_int_equal(meet(1, 2, gw_deadline(SECOND / 2), &r), -ETIMEDOUT); /* silence */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(listener);
    assert_int_equal(meet(1, 2, gw_deadline(SECOND / 2), &r), -ETIMEDOUT); /* none listens */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_talk),   cmocka_unit_test(test_environment), cmocka_unit_test(test_late),
        cmocka_unit_test(test_deaths), cmocka_unit_test(test_strangers),   cmocka_unit_test(test_not_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
