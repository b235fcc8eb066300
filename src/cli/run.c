/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire run: any verbs program on the software NIC. */
#include "src/cli/cli.h"

#include <errno.h>
#include <fnmatch.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softnic/config/config.h"
#include "softnic/sysfs/tree.h"
#include "src/cli/attachable.h"
#include "src/cli/beside.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire run [--nic KEY=VALUE,...] [--fault KEY=VALUE,...] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Runs PROGRAM with the software NIC as its RDMA device (mlx5_0) and exits as it does.\n"
    "\n"
    "  --nic KEY=VALUE,...   settings of the NIC, as in GPUWIRE_NIC, which it overrides: addr=IP, mtu=N, "
    "local=off,\n"
    "                        pcap=FILE and more; a semicolon begins another NIC\n"
    "  --fault KEY=VALUE,... how unkind the network is to be: loss, dup, reorder, corrupt, delay, jitter, "
    "rate, down;\n"
    "                        as in loss=1%,rx.delay=2ms,seed=7\n"
    "  -h, --help            this text\n"
    "\n"
    "docs/softnic-config.md has all keys. In two terminals:\n"
    "  gpuwire run -- ibv_rc_pingpong -g 0\n"
    "  gpuwire run -- ibv_rc_pingpong -g 0 localhost\n";

/* Adds the faults to the other settings of each NIC. */
static int cli_run_append(const char *settings, const char *faults)
{
    size_t nics = 1;
    for (const char *p = settings; *p; p++) nics += *p == ';';
    char *all = malloc(strlen(settings) + nics * (strlen(faults) + 1) + 1), *to = all;

    if (!all) return -ENOMEM;
    for (;;) {
        size_t len = strcspn(settings, ";");
        memcpy(to, settings, len);
        to += len;
        to += sprintf(to, "%s%s", len ? "," : "", faults);
        settings += len;
        if (!*settings) break;
        *to++ = *settings++;
    }
    setenv("GPUWIRE_NIC", all, 1);
    free(all);
    return 0;
}

static int add_faults(const char *faults)
{
    const char *before = getenv("GPUWIRE_NIC");
    struct sn_faults read;
    uint64_t seed;
    bool has_seed;
    char why[256];

    if (sn_faults_parse(faults, &read, &seed, &has_seed, why)) {
        fprintf(stderr, "gpuwire run: --fault: %s\n", why);
        return -EINVAL;
    }
    return strcmp(faults, "none") == 0 ? 0 : cli_run_append(before ? before : "", faults);
}

static int set_environment(const char *nic, const char *faults)
{
    char library[PATH_MAX], why[SN_CONFIG_WHY];

    if (nic) setenv("GPUWIRE_NIC", nic, 1);
    if (faults && add_faults(faults)) return -EINVAL;
    if (sn_config_count(getenv("GPUWIRE_NIC"), why) < 0) {
        fprintf(stderr, "gpuwire run: %s\n", why);
        return -EINVAL;
    }
    gw_softnic_library(library);
    /* After what is there: a sanitizer's runtime has to come first, and the NIC need not. */
    const char *old = getenv("LD_PRELOAD");
    char *list = NULL;
    if (asprintf(&list, "%s%s%s", old ? old : "", old && *old ? ":" : "", library) < 0) return -ENOMEM;
    setenv("LD_PRELOAD", list, 1);
    free(list);
    return 0;
}

/* The signals that end or steer a program. Signals that stop and continue a job keep working on both of
 * us. */
static void steering(sigset_t *set)
{
    static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGCHLD};

    sigemptyset(set);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) sigaddset(set, list[i]);
}

/* The child's half: never returns. An errno that goes through the pipe says why the program did not start. */
static void cli_run_become(char **argv, const sigset_t *mask, int report, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a killed `gpuwire run` leaves no program running */
    /* Shells start background jobs with these ignored; sent to the tool, they are meant for the program. */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (getppid() == parent) execvp(argv[0], argv);
    int err = errno;
    if (write(report, &err, sizeof(err)) < 0) _exit(126);
    _exit(127);
}

static int cli_run_wait_for(pid_t child, const sigset_t *set)
{
    siginfo_t info;
    int status;

    for (;;) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (got < 0 && errno != EINTR) return 1;
        if (sigwaitinfo(set, &info) < 0 || info.si_signo == SIGCHLD) continue;
        /* A signal of the terminal reaches the whole foreground group: a second copy would be one too
         * many. */
        if (info.si_code != SI_KERNEL) kill(child, info.si_signo);
    }
}

/* Whose programs people run first, and which of Debian's packages has them. */
static const char *package_of(const char *program)
{
    static const char *const known[][2] = {
        {"ibv_*", "ibverbs-utils"},  {"ib_*_bw", "perftest"},
        {"ib_*_lat", "perftest"},    {"raw_eth*", "perftest"},
        {"rping", "rdmacm-utils"},   {"ucmatose", "rdmacm-utils"},
        {"udaddy", "rdmacm-utils"},  {"mckey", "rdmacm-utils"},
        {"rstream", "rdmacm-utils"}, {"riostream", "rdmacm-utils"},
        {"rcopy", "rdmacm-utils"},   {"udpong", "rdmacm-utils"},
        {"cmtime", "rdmacm-utils"},  {"ibstat*", "infiniband-diags"},
        {"ucx_*", "ucx-utils"},      {"fi_*", "libfabric-bin"},
        {"qperf", "qperf"},          {"mpirun", "openmpi-bin"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!fnmatch(known[i][0], program, 0)) return known[i][1];
    return NULL;
}

static int no_program(const char *program)
{
    const char *package = package_of(program);

    fprintf(stderr, "gpuwire run: %s: no such program", program);
    if (package) fprintf(stderr, " (on Debian: apt-get install %s)", package);
    fputc('\n', stderr);
    return 127;
}

static int cli_run_program(char **argv)
{
    sigset_t set, before;
    int report[2], err = 0;

    if (pipe2(report, O_CLOEXEC)) return gw_cli_fail("run", "pipe", errno);
    signal(SIGCHLD, SIG_DFL); /* inherited as ignored, children would vanish unseen */
    steering(&set);
    sigprocmask(SIG_BLOCK, &set, &before);
    pid_t parent = getpid(), child = fork();
    if (child < 0) return gw_cli_fail("run", "fork", errno);
    if (!child) cli_run_become(argv, &before, report[1], parent);
    close(report[1]);
    ssize_t n = read(report[0], &err, sizeof(err));
    close(report[0]);
    int code = cli_run_wait_for(child, &set);
    sn_tree_sweep(); /* of processes that were killed and could not do it */
    if (n != sizeof(err)) return code;
    if (err == ENOENT) return no_program(argv[0]);
    fprintf(stderr, "gpuwire run: %s: %s\n", argv[0], strerror(err));
    return 126;
}

int gw_cli_run(int argc, char **argv)
{
    static const struct option options[] = {{"nic", required_argument, NULL, 'n'},
                                            {"fault", required_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *nic = NULL, *faults = NULL;
    int c;

    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        switch (c) {
        case 'n': nic = optarg; break;
        case 'f': faults = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        default: return gw_option_wrong("run", argv, c);
        }
    }
    if (optind == argc) return gw_usage_error("run", "which program?");
    if (set_environment(nic, faults)) return 2;
    gw_cli_warn_unattachable(argv[optind]);
    return cli_run_program(argv + optind);
}
