/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of open(), of files that are not the software NIC's. Prints the nanoseconds of one call: a tenth
 * of the rounds is faster. Run it alone, and by `gpuwire run`: bench/softnic.sh does.
 *     open_bench [PATH]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 2001, FILES = 100 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double ns[ROUNDS];
    const char *path = argc > 1 ? argv[1] : "/etc/hostname";
    int fds[FILES];

    for (int r = 0; r < ROUNDS; r++) {
        double start = now_ns();
        for (int i = 0; i < FILES; i++) fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        ns[r] = (now_ns() - start) / FILES;
        for (int i = 0; i < FILES; i++) {
            if (fds[i] < 0) {
                perror(path);
                return 1;
            }
            close(fds[i]);
        }
    }
    qsort(ns, ROUNDS, sizeof(ns[0]), compare);
    printf("%.1f\n", ns[ROUNDS / 10]);
    return 0;
}
