/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, stops and asks etcds for tests. */
#include "tests/fleet/etcd/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#define START_MS 20000
#define MS       1000000u

bool rig_has_etcd(void)
{
    return !system("etcd --version >/dev/null 2>&1 && etcdctl version >/dev/null 2>&1");
}

static uint16_t rig_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is = fd >= 0 && !bind(fd, (struct sockaddr *)&a, n) && !getsockname(fd, (struct sockaddr *)&a, &n);
    if (fd >= 0) close(fd);
    return is ? ntohs(a.sin_port) : 0;
}

static void rig_exec(struct rig *r, int i)
{
    char name[8], data[128], client[64], peer[64], cluster[256] = "", log[128];
    snprintf(name, sizeof(name), "m%d", i);
    snprintf(data, sizeof(data), "%s/m%d", r->folder, i);
    snprintf(client, sizeof(client), "%s://127.0.0.1:%u", r->secret ? "https" : "http", r->port[i]);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", r->peer[i]);
    for (int k = 0; k < r->n; k++)
        snprintf(cluster + strlen(cluster), sizeof(cluster) - strlen(cluster), "%sm%d=http://127.0.0.1:%u",
                 k ? "," : "", k, r->peer[k]);
    snprintf(log, sizeof(log), "%s/m%d.log", r->folder, i);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    const char *argv[40] = {"etcd",   "--name",
                            name,     "--data-dir",
                            data,     "--logger",
                            "zap",    "--log-outputs",
                            "stderr", "--listen-client-urls",
                            client,   "--advertise-client-urls",
                            client,   "--listen-peer-urls",
                            peer,     "--initial-advertise-peer-urls",
                            peer,     "--initial-cluster",
                            cluster,  "--initial-cluster-state",
                            "new",    "--heartbeat-interval",
                            "50",     "--election-timeout",
                            "500"};
    int n = 25;
    for (int k = 0; r->more[k]; k++) argv[n++] = r->more[k];
    execvp("etcd", (char *const *)argv);
    _exit(127);
}

int rig_start(struct rig *r, int i)
{
    pid_t parent = getpid();
    r->pid[i] = fork();
    if (r->pid[i]) return r->pid[i] > 0 ? 0 : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    rig_exec(r, i);
    return -1;
}

void rig_kill(struct rig *r, int i)
{
    if (r->pid[i] <= 0) return;
    kill(r->pid[i], SIGKILL);
    waitpid(r->pid[i], NULL, 0);
    r->pid[i] = 0;
}

int rig_ctl(struct rig *r, const char *arguments, char *out, size_t size)
{
    char command[1024], nowhere[4096];
    if (!out) out = nowhere, size = sizeof(nowhere);
    snprintf(command, sizeof(command), "ETCDCTL_API=3 etcdctl --endpoints=%s --command-timeout=10s %s 2>&1",
             r->urls, arguments);
    FILE *f = popen(command, "re");
    size_t n = f ? fread(out, 1, size - 1, f) : 0;
    out[n] = 0;
    int status = f ? pclose(f) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int rig_raft_leader(struct rig *r)
{
    char out[4096];
    if (rig_ctl(r, "endpoint status -w fields", out, sizeof(out)) < 0) return -1;
    /* Of each member: "MemberID" : N ... "Leader" : N ... "Endpoint" : "http://127.0.0.1:PORT" */
    unsigned long long member = 0, leader = 1;
    unsigned port = 0;
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
        sscanf(line, "\"MemberID\" : %llu", &member);
        sscanf(line, "\"Leader\" : %llu", &leader);
        if (sscanf(line, "\"Endpoint\" : \"http://127.0.0.1:%u", &port) != 1 || member != leader) continue;
        for (int i = 0; i < r->n; i++)
            if (r->port[i] == port) return i;
    }
    return -1;
}

static int rig_wait(struct rig *r)
{
    char out[4096] = "";
    for (uint64_t until = gw_deadline((uint64_t)START_MS * MS); gw_deadline(0) < until; usleep(50000))
        if (r->secret || !rig_ctl(r, "endpoint health", out, sizeof(out))) return 0;
    fprintf(stderr, "etcd did not start: %s\n", out);
    return -1;
}

int rig_open(struct rig *r, int n)
{
    r->n = n;
    /* etcd waits for the disk at each write, and a busy disk makes it lose leases and leaders. */
    snprintf(r->folder, sizeof(r->folder), "%s/gpuwire-etcd.XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(r->folder) || fleet_loop_create(&r->loop)) return -1;
    for (int i = 0; i < n; i++) {
        r->port[i] = rig_free_port();
        r->peer[i] = rig_free_port();
        snprintf(r->urls + strlen(r->urls), sizeof(r->urls) - strlen(r->urls), "%s%s://127.0.0.1:%u",
                 i ? "," : "", r->secret ? "https" : "http", r->port[i]);
    }
    for (int i = 0; i < n; i++)
        if (rig_start(r, i)) return -1;
    return rig_wait(r);
}

void rig_close(struct rig *r)
{
    char command[128];
    for (int i = 0; i < r->n; i++) rig_kill(r, i);
    fleet_loop_destroy(r->loop);
    if (strstr(r->folder, "/gpuwire-etcd.")) {
        snprintf(command, sizeof(command), "rm -rf %s", r->folder);
        if (system(command)) fprintf(stderr, "%s stays\n", r->folder);
    }
    *r = (struct rig){0};
}

bool rig_until(struct rig *r, bool (*is)(void *ctx), void *ctx, int ms)
{
    for (uint64_t until = gw_deadline((uint64_t)ms * MS); !is(ctx);
         fleet_loop_run(r->loop, (int64_t)gw_deadline(5 * MS)))
        if (gw_deadline(0) >= until) return false;
    return true;
}

void rig_run(struct rig *r, int ms)
{
    fleet_loop_run(r->loop, (int64_t)gw_deadline((uint64_t)ms * MS));
}
