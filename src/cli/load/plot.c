/* SPDX-License-Identifier: Apache-2.0 */
/* Latencies over throughput, drawn by gnuplot. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/load/load.h"

static const double percents[] = {50, 90, 99, 99.9};
static const char *const names[] = {"p50", "p90", "p99", "p99.9"};
#define PERCENTS 4

bool gw_plot_possible(void)
{
    char path[4096];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/gnuplot", (int)length, at);
        if (length && !access(path, X_OK)) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void plot_write_script(FILE *f, const struct gw_load *l)
{
    fprintf(f, "set terminal svg size 800,500 background 'white'\nset key left top\nset grid\n"
               "set xlabel 'requests/s'\nset ylabel 'latency, ms'\nset logscale y\nset xrange [0:*]\n");
    fprintf(f, "$d << END\n");
    for (uint32_t i = 0; i < l->levels; i++) {
        const struct gw_level *v = &l->level[i];
        const struct gw_histogram *total = &v->latency->part[GW_TOTAL];
        if (!total->count || v->seconds <= 0) continue;
        fprintf(f, "%g %g", v->value, (double)total->count / v->seconds);
        for (int k = 0; k < PERCENTS; k++)
            fprintf(f, " %g", (double)gw_histogram_percentile(total, percents[k]) / 1e6);
        fputc('\n', f);
    }
    fprintf(f, "END\nplot");
    for (int k = 0; k < PERCENTS; k++)
        fprintf(f, "%s $d using 2:%d with linespoints title '%s'", k ? "," : "", 3 + k, names[k]);
    if (l->o.mode != GW_LOAD_REQUESTS) fprintf(f, ", $d using 2:3:1 with labels offset 0,-1 notitle");
    fprintf(f, "\n");
}

/* Its script comes by a pipe, and the picture goes to the file that is open: no name is put into the
 * script. */
static pid_t start_gnuplot(int script, int picture)
{
    pid_t pid = fork();
    if (pid) return pid;
    dup2(script, STDIN_FILENO);
    dup2(picture, STDOUT_FILENO);
    execlp("gnuplot", "gnuplot", "-", (char *)NULL);
    _exit(127);
}

int gw_plot_svg(const struct gw_load *l, const char *path)
{
    int pipes[2], status = 0;
    int picture = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (picture < 0) return gw_error_errno(-errno, "%s", path);
    if (pipe2(pipes, O_CLOEXEC)) {
        int err = -errno;
        close(picture);
        return gw_error_errno(err, "gnuplot");
    }
    pid_t pid = start_gnuplot(pipes[0], picture);
    close(pipes[0]);
    close(picture);
    FILE *f = fdopen(pipes[1], "w");
    if (f) {
        plot_write_script(f, l);
        fclose(f);
    } else {
        close(pipes[1]);
    }
    if (pid > 0) waitpid(pid, &status, 0);
    if (pid < 0 || !f || !WIFEXITED(status) || WEXITSTATUS(status))
        return gw_error(-EIO, "%s: gnuplot made no picture", path);
    return 0;
}
