/* SPDX-License-Identifier: Apache-2.0 */
/* Makes network namespaces on one switch for the balancer's demo. */
#include "src/cli/balance/demo_net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>

/* ---- processes in namespaces ---- */

static void child_begins(pid_t parent)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* however this process ends, nothing is left */
    pid_t mine = getppid();
    if (mine && mine != parent) _exit(1); /* 0: it has process ids of its own */
    setpgid(0, 0); /* the terminal's Ctrl-C is for the demo, which ends the others in order */
    sigemptyset(&none);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int demo_net_enter(pid_t keeper)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)keeper);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 || setns(fd, CLONE_NEWNET) ? -errno : 0;
    if (fd >= 0) close(fd);
    return err;
}

static pid_t fork_into(const struct gw_demo_net *n, int host, unsigned long flags)
{
    pid_t parent = getpid();
    fflush(stdout);
    fflush(stderr);
    pid_t pid = flags ? (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0) : fork();
    if (pid) return pid;
    child_begins(parent);
    if (demo_net_enter(n->keeper[host])) _exit(127);
    return 0;
}

pid_t gw_demo_fork(const struct gw_demo_net *n, int host)
{
    return fork_into(n, host, 0);
}

pid_t gw_demo_fork_all(const struct gw_demo_net *n, int host)
{
    pid_t pid = fork_into(n, host, CLONE_NEWPID);
    return pid < 0 ? fork_into(n, host, 0) : pid; /* a kernel may have no such namespaces */
}

int gw_demo_run(const struct gw_demo_net *n, int host, const char *const *argv)
{
    int status;
    pid_t pid = gw_demo_fork(n, host);
    if (!pid) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

/* Holds a namespace until it is killed. It says when there is one. */
static int demo_net_keep(struct gw_demo_net *n, int host)
{
    char ok = 0;
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC)) return gw_error_errno(-errno, "demo");
    n->keeper[host] = fork();
    if (!n->keeper[host]) {
        child_begins(parent);
        ok = !unshare(CLONE_NEWNET);
        if (write(ends[1], &ok, 1) == 1 && ok)
            for (;;) pause();
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &ok, 1) != 1) ok = 0;
    close(ends[0]);
    return ok ? 0
              : gw_error(-EPERM,
                         "no network namespace can be made; run the demo as root, on Linux with namespaces");
}

/* ---- the network ---- */

static int ip_in(const struct gw_demo_net *n, int host, const char *words)
{
    char text[256], *rest = text, *word;
    const char *argv[24] = {"ip"};
    int argc = 1;
    snprintf(text, sizeof(text), "%s", words);
    while (argc < 23 && (word = strsep(&rest, " "))) argv[argc++] = word;
    int code = gw_demo_run(n, host, argv);
    if (code == 127) return gw_error(-ENOENT, "the program ip is missing; install iproute2");
    return code ? gw_error(-EIO, "`ip %s` failed in a namespace", words) : 0;
}

static void set_feature(const char *name, uint32_t command)
{
    struct ethtool_value off = {.cmd = command};
    struct ifreq r = {.ifr_data = (void *)&off};
    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ioctl(fd, SIOCETHTOOL, &r); /* what a kernel does not know it does not do, either */
    close(fd);
}

/* veth leaves checksums and segments to hardware that is not there; a reader of the packets would see that.
 */
static int no_offload(const struct gw_demo_net *n, int host, const char *name)
{
    int status = 1;
    pid_t pid = gw_demo_fork(n, host);
    if (!pid) {
        set_feature(name, ETHTOOL_STXCSUM);
        set_feature(name, ETHTOOL_STSO);
        set_feature(name, ETHTOOL_SGSO);
        set_feature(name, ETHTOOL_SGRO);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        return gw_error(-EIO, "demo: %s cannot be set up", name);
    return 0;
}

static int write_settings(const struct gw_demo_net *n, int host)
{
    static const char *const files[][2] = {{"arp_ignore", "1"}, {"arp_announce", "2"}, {"rp_filter", "0"}};
    int status = 1;
    char path[64];
    pid_t pid = gw_demo_fork(n, host);
    if (!pid) {
        for (unsigned i = 0; i < 3; i++) {
            snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/all/%s", files[i][0]);
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            if (fd < 0 || write(fd, files[i][1], 1) != 1) _exit(1);
        }
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        return gw_error(-EIO, "the settings of a worker (/proc/sys/net/ipv4/conf) cannot be written");
    return 0;
}

static int plug_in(const struct gw_demo_net *n, int host, const char *address)
{
    char words[160], name[16];
    snprintf(name, sizeof(name), "h%d", host);
    snprintf(words, sizeof(words), "link add eth0 type veth peer name %s netns %d", name,
             (int)n->keeper[GW_DEMO_SWITCH]);
    int err = ip_in(n, host, words);
    snprintf(words, sizeof(words), "link set %s master br0 up", name);
    if (!err) err = ip_in(n, GW_DEMO_SWITCH, words);
    if (!err) err = no_offload(n, GW_DEMO_SWITCH, name);
    if (!err) err = no_offload(n, host, "eth0");
    if (!err) err = ip_in(n, host, "link set lo up");
    if (!err) err = ip_in(n, host, "link set eth0 up");
    snprintf(words, sizeof(words), "addr add %s/24 dev eth0", address);
    return err ? err : ip_in(n, host, words);
}

int gw_demo_net_make(struct gw_demo_net *n)
{
    char address[32];
    int err = 0;
    *n = (struct gw_demo_net){0};
    for (int i = 0; !err && i < GW_DEMO_HOSTS; i++) err = demo_net_keep(n, i);
    if (!err) err = ip_in(n, GW_DEMO_SWITCH, "link add br0 type bridge");
    if (!err) err = ip_in(n, GW_DEMO_SWITCH, "link set br0 up");
    if (!err) err = plug_in(n, GW_DEMO_BALANCER, "10.77.0.10");
    if (!err) err = plug_in(n, GW_DEMO_CLIENT, "10.77.0.1");
    for (int i = 0; !err && i < GW_DEMO_WORKERS; i++) {
        snprintf(address, sizeof(address), "10.77.0.%d", 21 + i);
        err = plug_in(n, GW_DEMO_WORKER + i, address);
        /* It has the service's address, and does not answer for it. */
        if (!err) err = write_settings(n, GW_DEMO_WORKER + i);
        if (!err) err = ip_in(n, GW_DEMO_WORKER + i, "addr add " GW_DEMO_VIP "/32 dev lo");
    }
    return err;
}

void gw_demo_net_drop(struct gw_demo_net *n)
{
    for (int i = 0; i < GW_DEMO_HOSTS; i++)
        if (n->keeper[i] > 0) {
            kill(n->keeper[i], SIGKILL);
            waitpid(n->keeper[i], NULL, 0);
        }
}
