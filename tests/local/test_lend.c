/* SPDX-License-Identifier: Apache-2.0 */
/* Files of GPU memory between processes: what is asked, who answers what, and what of it is believed. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/local/lend.h"
#include "softnic/local/meet.h"

enum { KEY = 0x5123, ROOM = 1 + SN_CUDA_FILES };

static const struct sn_gpu_share share = {{7}, {4}, 0x10000, 0x30000, SN_GPU_BY_FILES, 2};

/* The other process's words. */
static struct {
    int listener;
    uint8_t name[SN_MEET_NAME];
    unsigned files; /* copies of stderr */
    int silent;
    size_t length;
    uint64_t words[ROOM];
    struct sn_want heard;
} other;

static void send_files(int fd)
{
    struct iovec iov = {other.words, other.length};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * 2 * SN_CUDA_FILES)];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int files[2 * SN_CUDA_FILES];
    struct cmsghdr *c;

    memset(&control, 0, sizeof(control));
    for (unsigned i = 0; i < other.files; i++) files[i] = STDERR_FILENO;
    if (other.files) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * other.files);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * other.files);
        memcpy(CMSG_DATA(c), files, sizeof(int) * other.files);
    }
    (void)!sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static void *answer(void *arg)
{
    struct pollfd p = {.fd = other.listener, .events = POLLIN};
    int fd = -1;

    if (poll(&p, 1, 10000) == 1) fd = sn_meet_accept(other.listener);
    p.fd = fd;
    if (fd < 0) return arg;
    if (poll(&p, 1, 10000) == 1 && sn_lend_asked(fd, &other.heard) && !other.silent) send_files(fd);
    close(fd);
    return arg;
}

static int setup(void **state)
{
    (void)state;
    memset(&other, 0, sizeof(other));
    other.listener = sn_meet_listen(other.name);
    other.files = 2;
    other.length = sizeof(other.words);
    other.words[0] = SN_WANT_MAGIC;
    other.words[1] = 0x10000;
    other.words[2] = 0x20000;
    return other.listener < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return close(other.listener);
}

static int descriptors(void)
{
    int n = 0;

    for (int i = 0; i < 256; i++) n += fcntl(i, F_GETFD) >= 0;
    return n;
}

static bool borrow(pid_t pid, struct sn_cuda_files *files)
{
    pthread_t t;
    bool ok;

    assert_int_equal(pthread_create(&t, NULL, answer, NULL), 0);
    ok = sn_borrow(other.name, pid, KEY, &share, files);
    pthread_join(t, NULL);
    return ok;
}

static void the_question_says_which_memory(void **state)
{
    struct sn_cuda_files files;
    struct stat a, b;

    (void)state;
    assert_true(borrow(getpid(), &files));
    assert_int_equal(other.heard.key, KEY);
    assert_memory_equal(&other.heard.share, &share, sizeof(share));
    assert_int_equal(files.n, 2);
    assert_int_equal(files.size[0], 0x10000);
    assert_int_equal(files.size[1], 0x20000);
    assert_int_not_equal(files.fd[0], files.fd[1]);
    assert_false(fstat(files.fd[1], &a) || fstat(STDERR_FILENO, &b));
    assert_int_equal(a.st_ino, b.st_ino);
    assert_true(fcntl(files.fd[0], F_GETFD) & FD_CLOEXEC);
    sn_cuda_files_close(&files);
    assert_int_equal(files.n, 0);
}

static void wrong_answers_leave_nothing_behind(void **state)
{
    static const struct {
        unsigned files;
        size_t length;
        uint64_t magic;
        int silent;
    } wrong[] = {
        {1, sizeof(other.words), SN_WANT_MAGIC, 0},
        {3, sizeof(other.words), SN_WANT_MAGIC, 0},
        {0, sizeof(other.words), SN_WANT_MAGIC, 0},
        {2 * SN_CUDA_FILES, sizeof(other.words), SN_WANT_MAGIC, 0},
        {2, sizeof(other.words) - 8, SN_WANT_MAGIC, 0},
        {2, sizeof(other.words), SN_WANT_MAGIC + 1, 0},
        {2, sizeof(other.words), SN_WANT_MAGIC, 1},
    };
    struct sn_cuda_files files;
    int before = descriptors();

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        other.files = wrong[i].files;
        other.length = wrong[i].length;
        other.words[0] = wrong[i].magic;
        other.silent = wrong[i].silent;
        assert_false(borrow(getpid(), &files));
        assert_int_equal(files.n, 0);
        assert_int_equal(descriptors(), before);
    }
    /* Another process listens there. */
    assert_false(borrow(getppid(), &files));
    assert_int_equal(descriptors(), before);
    memset(other.name, 1, sizeof(other.name));
    assert_false(sn_borrow(other.name, getpid(), KEY, &share, &files));
    assert_int_equal(descriptors(), before);
}

static void a_hello_is_no_question(void **state)
{
    struct sn_want want = {.magic = SN_WANT_MAGIC, .version = SN_SHARE_VERSION, .key = KEY, .share = share},
                   got;
    uint64_t hello[4] = {SN_HELLO_MAGIC, 1, 2, 3}, again[4];
    int pair[2];

    (void)state;
    assert_false(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
    assert_false(sn_lend_asked(pair[0], &got));
    assert_int_equal(send(pair[1], hello, sizeof(hello), 0), sizeof(hello));
    assert_false(sn_lend_asked(pair[0], &got));
    assert_int_equal(recv(pair[0], again, sizeof(again), 0), sizeof(again)); /* it is still there */

    /* Of another version, too short, too long: it asks for nothing that there is. */
    want.version--;
    assert_int_equal(send(pair[1], &want, sizeof(want), 0), sizeof(want));
    assert_true(sn_lend_asked(pair[0], &got));
    assert_int_equal(got.share.size, 0);
    assert_int_equal(send(pair[1], &want, sizeof(want.magic), 0), sizeof(want.magic));
    assert_true(sn_lend_asked(pair[0], &got));
    assert_int_equal(got.share.size, 0);
    struct sn_want two[2] = {want, want};
    assert_int_equal(send(pair[1], two, sizeof(two), 0), sizeof(two));
    assert_true(sn_lend_asked(pair[0], &got));
    assert_int_equal(got.share.size, 0);
    /* Unshared memory is not lent, either. */
    sn_lend(pair[0], &share);
    assert_int_equal(recv(pair[1], again, sizeof(again), 0), -1);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_question_says_which_memory),
        T(wrong_answers_leave_nothing_behind),
        T(a_hello_is_no_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
