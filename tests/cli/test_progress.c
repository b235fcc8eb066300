/* SPDX-License-Identifier: Apache-2.0 */
/* The progress bar: what the line says, that it fits, and that nothing shows where there is no terminal. */
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/cli/progress.h"

#define SECOND 1000000000ull

static void the_line_says_it(void **state)
{
    (void)state;
    struct gw_progress p = {.what = "tiles", .total = 200, .began_ns = 5 * SECOND};
    char line[256];
    gw_progress_line(&p, 50, 10 * SECOND, 60, line, sizeof(line));
    assert_string_equal(line, "tiles  [######..................]  50/200  10.0/s  0:15 left");
    gw_progress_line(&p, 200, 10 * SECOND, 60, line, sizeof(line));
    assert_non_null(strstr(line, "[#######################]"));
    assert_non_null(strstr(line, "200/200  40.0/s  0:00 left"));
    gw_progress_line(&p, 0, 5 * SECOND, 60, line, sizeof(line));
    assert_non_null(strstr(line, "0/200  0.0/s  -:-- left"));
    gw_progress_line(&p, 900, 10 * SECOND, 60, line, sizeof(line)); /* more than all is all */
    assert_non_null(strstr(line, "200/200"));
    p.total = 100000;
    gw_progress_line(&p, 50, 10 * SECOND, 80, line, sizeof(line));
    assert_non_null(strstr(line, "2:46:35 left"));
    p.total = 0;
    gw_progress_line(&p, 5000, 15 * SECOND, 60, line, sizeof(line));
    assert_string_equal(line, "tiles  5000  500/s");
}

static void it_never_is_too_wide(void **state)
{
    (void)state;
    struct gw_progress p = {.what = "a rather long name", .total = UINT64_MAX};
    char line[512];
    for (unsigned columns = 0; columns < 300; columns++) {
        for (size_t room = 1; room < 300; room += 13) {
            memset(line, 'x', sizeof(line));
            size_t n = gw_progress_line(&p, UINT64_MAX / 3, SECOND, columns, line, room);
            assert_true(n <= columns && n < room && n == strlen(line));
        }
    }
    assert_int_equal(gw_progress_line(&p, 1, SECOND, 80, line, 0), 0);
}

/* Runs the bar for a while with standard error going to `fd`. */
static void run_on(int fd)
{
    struct gw_progress p;
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fd, STDERR_FILENO);
    gw_progress_begin(&p, "tiles", 3);
    for (uint64_t i = 1; i <= 3; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
        gw_progress_at(&p, i);
    }
    gw_progress_end(&p);
    gw_progress_end(&p);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void a_file_gets_nothing(void **state)
{
    (void)state;
    FILE *f = tmpfile();
    assert_non_null(f);
    run_on(fileno(f));
    assert_int_equal(lseek(fileno(f), 0, SEEK_END), 0);
    fclose(f);
}

/* All that has come to the other end of a terminal by now. */
static size_t arrived(int master, char *to, size_t room)
{
    struct pollfd p = {.fd = master, .events = POLLIN};
    size_t n = 0;
    while (n < room - 1 && poll(&p, 1, 200) > 0) {
        ssize_t got = read(master, to + n, room - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    to[n] = 0;
    return n;
}

static void a_terminal_gets_the_bar_and_is_cleared(void **state)
{
    (void)state;
    int master, slave;
    char seen[1024];
    if (openpty(&master, &slave, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = 60}))
        skip(); /* no terminals to be had here */
    setenv("TERM", "xterm", 1);
    run_on(slave);
    size_t n = arrived(master, seen, sizeof(seen));
    assert_true(n > 4);
    assert_non_null(strstr(seen, "tiles  ["));
    assert_non_null(strstr(seen, "2/3"));
    assert_string_equal(seen + n - 4, "\r\033[K");
    setenv("TERM", "dumb", 1);
    run_on(slave);
    assert_int_equal(write(slave, "!", 1), 1);
    assert_int_equal(arrived(master, seen, sizeof(seen)), 1);
    close(master);
    close(slave);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_says_it),
        cmocka_unit_test(it_never_is_too_wide),
        cmocka_unit_test(a_file_gets_nothing),
        cmocka_unit_test(a_terminal_gets_the_bar_and_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
