/* SPDX-License-Identifier: Apache-2.0 */
/* The values of options, right and wrong, and what is said about them; a command that signals interrupt. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/options.h>
#include <gpuwire/signals.h>

static FILE *said; /* takes the place of standard error during a call */
static int real_stderr;

static void stderr_take(void)
{
    fflush(stderr);
    said = tmpfile();
    real_stderr = dup(2);
    if (said) dup2(fileno(said), 2);
}

/* Was the usage wrong, and does this stand in what was said? */
static void stderr_holds(int err, const char *words)
{
    char text[1024];
    size_t n;

    dup2(real_stderr, 2);
    close(real_stderr);
    rewind(said);
    n = fread(text, 1, sizeof(text) - 1, said);
    text[n] = 0;
    fclose(said);
    assert_int_equal(err, GW_EXIT_USAGE);
    if (!strstr(text, words)) fail_msg("\"%s\" is not in \"%s\"", words, text);
}

#define assert_wrong(call, words)                                                                            \
    do {                                                                                                     \
        stderr_take();                                                                                       \
        int err_ = (call);                                                                                   \
        stderr_holds(err_, words);                                                                           \
    } while (0)

static void numbers(void **state)
{
    uint64_t n = 7;
    uint32_t u = 7;

    (void)state;
    assert_int_equal(gw_option_number("try", "--n", "0", 0, 9, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(gw_option_number("try", "--n", "18446744073709551615", 0, UINT64_MAX, &n), 0);
    assert_true(n == UINT64_MAX);
    assert_int_equal(gw_option_u32("try", "--n", "4294967295", 1, UINT32_MAX, &u), 0);
    assert_int_equal(u, UINT32_MAX);
    static const char *const bad[] = {"",   "-1", " 1", "+1", "1x", "0x1", "1.5", "18446744073709551616",
                                      "10", "1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_wrong(gw_option_number("try", "--n", bad[i], 2, 9, &n),
                     "must be a number from 2 to 9; see `gpuwire try --help`\n");
    assert_wrong(gw_option_u32("try", "--n", "4294967297", 1, UINT32_MAX, &u), "--n 4294967297: ");
    assert_true(n == UINT64_MAX && u == UINT32_MAX); /* unchanged */
}

static void sizes(void **state)
{
    uint64_t n = 7;

    (void)state;
    assert_int_equal(gw_option_bytes("try", "--n", "12", 1, 99, &n), 0);
    assert_int_equal(n, 12);
    assert_int_equal(gw_option_bytes("try", "--n", "3k", 1, 1 << 20, &n), 0);
    assert_int_equal(n, 3 << 10);
    assert_int_equal(gw_option_bytes("try", "--n", "2M", 1, 1 << 30, &n), 0);
    assert_int_equal(n, 2 << 20);
    assert_int_equal(gw_option_bytes("try", "--n", "1g", 1, 1 << 30, &n), 0);
    assert_int_equal(n, 1 << 30);
    static const char *const bad[] = {
        "", "k", "1kk", "1T", "-1k", "2G", "18014398509481985k", "17179869184G"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_wrong(gw_option_bytes("try", "--n", bad[i], 1, 1 << 30, &n), "k, M or G");
    assert_int_equal(n, 1 << 30);
}

static void reals_and_words(void **state)
{
    double x = 0;
    uint32_t w = 9;

    (void)state;
    assert_int_equal(gw_option_real("try", "--x", "0.25", 0, 1, &x), 0);
    assert_true(x == 0.25);
    static const char *const bad[] = {"", "x", "1.5", "-0.1", "nan", "0.5s"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_wrong(gw_option_real("try", "--x", bad[i], 0, 1, &x), "must be a number from 0 to 1");
    assert_int_equal(gw_option_word("try", "--w", "cpu", "auto cpu gpu", &w), 0);
    assert_int_equal(w, 1);
    assert_int_equal(gw_option_word("try", "--w", "gpu", "auto cpu gpu", NULL), 0);
    static const char *const words[] = {"", "a", "autos", "cp", "auto cpu", "GPU"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_wrong(gw_option_word("try", "--w", words[i], "auto cpu gpu", &w),
                     "one of these: auto cpu gpu");
    assert_int_equal(w, 1);
}

/* What getopt says about these words, which end with a mistake. */
static int wrong(char **argv)
{
    static const struct option options[] = {{"with", 1, NULL, 'w'}, {"no", 0, NULL, 'n'}, {0}};
    int argc = 0, c;

    while (argv[argc]) argc++;
    optind = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":w:n", options, NULL)) >= 0)
        if (c == '?' || c == ':') return gw_option_wrong("try", argv, c);
    return 0;
}

static void getopt_mistakes(void **state)
{
    (void)state;
    assert_wrong(wrong((char *[]){"x", "--with", NULL}), "gpuwire try: --with: it wants a value; see");
    assert_wrong(wrong((char *[]){"x", "-w", NULL}), "-w: it wants a value");
    assert_wrong(wrong((char *[]){"x", "--no=1", NULL}), "--no: it takes no value");
    assert_wrong(wrong((char *[]){"x", "--other", NULL}), "--other: no such option");
    assert_wrong(wrong((char *[]){"x", "-nz", NULL}), "-z: no such option");
    assert_int_equal(wrong((char *[]){"x", "-n", "--with", "1", NULL}), 0);
    assert_wrong(gw_usage_error("try", "which one?"), "which one? See `gpuwire try --help`\n");
}

static void addresses(void **state)
{
    struct sockaddr_storage a = {0};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a;
    socklen_t len = 0;

    (void)state;
    assert_int_equal(gw_option_address("try", "127.0.0.2:80", 7, &a, &len), 0);
    assert_int_equal(len, sizeof(*v4));
    assert_int_equal(v4->sin_addr.s_addr, htonl(0x7f000002));
    assert_int_equal(v4->sin_port, htons(80));
    assert_int_equal(gw_option_address("try", "127.0.0.2", 7, &a, &len), 0);
    assert_int_equal(v4->sin_port, htons(7));
    assert_int_equal(gw_option_address("try", "[::1]:80", 7, &a, &len), 0);
    assert_int_equal(v6->sin6_family, AF_INET6);
    assert_int_equal(v6->sin6_port, htons(80));
    assert_int_equal(gw_option_address("try", "::1", 7, &a, &len), 0);
    assert_int_equal(v6->sin6_port, htons(7));
    assert_wrong(gw_option_address("try", ":80", 7, &a, &len), ":80: the host is missing");
    static const char *const bad[] = {"127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:", "127.0.0.1:x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_wrong(gw_option_address("try", bad[i], 7, &a, &len), "must be a number from 1 to 65535");
    assert_wrong(gw_option_address("try", "[::1", 7, &a, &len), "no address");
    assert_wrong(gw_option_address("try", "[::1]7", 7, &a, &len), "no address");
    char longest[400];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[399] = 0;
    assert_wrong(gw_option_address("try", longest, 7, &a, &len), "too long");
    assert_wrong(gw_option_listen("try", longest, 7, &a, &len), "too long");
    assert_int_equal(gw_option_address("try", "no host has blanks", 7, &a, &len), GW_EXIT_FAILURE);
}

static void places_to_listen(void **state)
{
    struct sockaddr_storage a = {0};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
    socklen_t len = 0;

    (void)state;
    assert_int_equal(gw_option_listen("try", "80", 7, &a, &len), 0);
    assert_int_equal(v4->sin_addr.s_addr, htonl(INADDR_LOOPBACK)); /* not all the world */
    assert_int_equal(v4->sin_port, htons(80));
    assert_int_equal(gw_option_listen("try", ":80", 7, &a, &len), 0);
    assert_int_equal(v4->sin_addr.s_addr, INADDR_ANY);
    assert_int_equal(v4->sin_port, htons(80));
    assert_int_equal(gw_option_listen("try", "127.0.0.3", 7, &a, &len), 0);
    assert_int_equal(v4->sin_addr.s_addr, htonl(0x7f000003));
    assert_int_equal(v4->sin_port, htons(7));
    assert_int_equal(gw_option_listen("try", "127.0.0.3:0", 7, &a, &len), 0);
    assert_int_equal(v4->sin_port, 0);
    assert_wrong(gw_option_listen("try", "65536", 7, &a, &len), "from 0 to 65535");
}

/* A child that catches signals: its exit code, or the number of the signal that ended it, negative. */
static int signalled(int first, int second)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        struct pollfd p = {.events = POLLIN};

        gw_catch_signals();
        p.fd = gw_interrupt_fd();
        raise(SIGPIPE);
        if (gw_interrupted() || poll(&p, 1, 0) || gw_exit_code(true) != 1 || gw_exit_code(false)) _exit(99);
        raise(first);
        if (!gw_interrupted() || poll(&p, 1, 0) != 1) _exit(98);
        if (second) raise(second);
        _exit(gw_exit_code(true));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void signals_interrupt(void **state)
{
    (void)state;
    assert_int_equal(gw_interrupt_fd(), -1);
    assert_int_equal(signalled(SIGINT, 0), GW_EXIT_INTERRUPTED);
    assert_int_equal(signalled(SIGTERM, 0), GW_EXIT_INTERRUPTED);
    assert_int_equal(signalled(SIGHUP, 0), GW_EXIT_INTERRUPTED);
    assert_int_equal(signalled(SIGINT, SIGTERM), -SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),           cmocka_unit_test(sizes),     cmocka_unit_test(reals_and_words),
        cmocka_unit_test(getopt_mistakes),   cmocka_unit_test(addresses), cmocka_unit_test(places_to_listen),
        cmocka_unit_test(signals_interrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
