/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/server/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "tests/server/ask.h"

enum { READY_S = 60, MAX_ARGS = 32 };

static void become(const char *folder, const char *const options[], int output)
{
    const char *argv[MAX_ARGS] = {"gpuwire", "serve", "--port", "0", "--exec", "cpu", "--models", folder};
    int n = 8;
    for (int i = 0; options && options[i] && n < MAX_ARGS - 1; i++) argv[n++] = options[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execv(getenv("GPUWIRE"), (char **)argv);
    perror(getenv("GPUWIRE"));
    _exit(127);
}

int worker_start(struct worker_process *w, const char *models, const char *const options[])
{
    const char *source = getenv("GPUWIRE_SOURCE"), *port, *grpc;
    char folder[512], line[512];
    int pipes[2];
    if (!getenv("GPUWIRE") || !source || pipe2(pipes, O_CLOEXEC)) {
        fprintf(stderr, "set GPUWIRE and GPUWIRE_SOURCE\n");
        return -1;
    }
    snprintf(folder, sizeof(folder), "%s/%s", source, models);
    fflush(stdout);
    w->pid = fork();
    if (!w->pid) become(folder, options, pipes[1]);
    close(pipes[1]);
    w->says = pipes[0];
    ssize_t n = 0;
    if (gw_wait_fds(&w->says, 1, gw_deadline(READY_S * 1000000000ull)) > 0)
        n = read(w->says, line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = 0;
    port = strstr(line, "port ");
    if (!port) {
        fprintf(stderr, "the worker is not ready: %s\n", line);
        return -1;
    }
    snprintf(w->server, sizeof(w->server), "127.0.0.1:%u", (unsigned)strtoul(port + 5, NULL, 10));
    w->grpc[0] = 0;
    grpc = strstr(line, "gRPC on port ");
    if (grpc) snprintf(w->grpc, sizeof(w->grpc), "127.0.0.1:%u", (unsigned)strtoul(grpc + 13, NULL, 10));
    return 0;
}

int worker_alive(const struct worker_process *w)
{
    return waitpid(w->pid, NULL, WNOHANG) == 0;
}

int worker_stop(struct worker_process *w)
{
    int status = 0;
    kill(w->pid, SIGTERM);
    for (int i = 0; i < 1000; i++, usleep(10000)) {
        if (waitpid(w->pid, &status, WNOHANG) != w->pid) continue;
        close(w->says);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    fprintf(stderr, "the worker does not end within ten seconds\n");
    kill(w->pid, SIGKILL);
    waitpid(w->pid, &status, 0);
    close(w->says);
    return -1;
}

int64_t worker_stat(const struct worker_process *w, const char *model, const char *name)
{
    struct gw_http *http;
    char path[128];
    json_t *reply;
    int64_t value = -1;
    if (ask_open(w->server, &http)) return -1;
    snprintf(path, sizeof(path), "v2/models/%s/stats", model);
    if (!gw_http_call(http, "GET", path, NULL, &reply)) {
        json_t *number = json_object_get(reply, name);
        if (json_is_integer(number)) value = json_integer_value(number);
        json_decref(reply);
    }
    gw_http_close(http);
    return value;
}
