/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire nic: the software NICs that are in use, live; and how unkind their network is. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softnic/config/faults.h"
#include "src/cli/nic_ask.h"
#include "src/cli/nic_print.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire nic [--pid PID] [--qp NUMBER] [--json] [--watch [SECONDS]]\n"
    "       gpuwire nic --pid PID --fault KEY=VALUE,...|none\n"
    "       gpuwire nic --pid PID --event device-fatal|port-err|port-active\n"
    "\n"
    "Shows the software NICs of this user's processes: queue pairs, completion queues, what was sent, lost, "
    "refused\n"
    "and repeated. It disturbs them no more than a glance and answers for processes that are stuck, too.\n"
    "\n"
    "  --pid PID             that process's NIC alone (root: anybody's)\n"
    "  --qp NUMBER           all about one queue pair, as in 0x12abcd\n"
    "  --json                as a JSON array, one object a process\n"
    "  --watch [SECONDS]     again and again, with rates, until Ctrl-C; default: every second\n"
    "  --fault KEY=VALUE,... from now on the process's network is so unkind, as in loss=0.02,rx.delay=1ms; "
    "none: kind\n"
    "  --event NAME          the process's NIC dies, or says that its link went down or came up\n"
    "  -h, --help            this text\n";

struct asked {
    uint64_t pid, qpn, watch; /* 0: not said */
    bool json;
    const char *fault, *event;
    char request[SN_FAULTS_TEXT + 16];
};

/* ---- showing ------------------------------------------------------------------------------------------- */

static const json_t *same_nic(const json_t *all, const json_t *nic)
{
    const json_t *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        if (json_equal(json_object_get(one, "pid"), json_object_get(nic, "pid")) &&
            json_equal(json_object_get(one, "udp_port"), json_object_get(nic, "udp_port")) &&
            json_equal(json_object_get(one, "address"), json_object_get(nic, "address")))
            return one;
    }
    return NULL;
}

/* Only those NICs that have the queue pair. */
static void keep_with_qp(json_t *all)
{
    for (size_t i = json_array_size(all); i-- > 0;) {
        const json_t *nic = json_array_get(all, i);

        if (!json_array_size(json_object_get(nic, "qps")) && !json_is_true(json_object_get(nic, "stuck")))
            json_array_remove(all, i);
    }
}

static void cli_nic_print_all(const struct asked *a, const json_t *all, const json_t *before, double seconds)
{
    const json_t *nic;
    size_t i;

    if (a->json) {
        json_dumpf(all, stdout, a->watch ? JSON_COMPACT : JSON_INDENT(2));
        printf("\n");
        return;
    }
    if (a->watch && isatty(STDOUT_FILENO)) printf("\033[H\033[J");
    if (!json_array_size(all)) printf("no process of this user has a software NIC\n");
    json_array_foreach(all, i, nic)
    {
        if (i) printf("\n");
        gw_nic_print(nic, same_nic(before, nic), seconds, (unsigned)a->qpn);
    }
}

static int cli_nic_nothing(const struct asked *a)
{
    if (a->qpn)
        fprintf(stderr, "gpuwire nic: no software NIC%s has a queue pair 0x%06llx\n",
                a->pid ? " of that process" : "", (unsigned long long)a->qpn);
    else
        fprintf(stderr, "gpuwire nic: process %llu has no software NIC, or does not answer\n",
                (unsigned long long)a->pid);
    return GW_EXIT_FAILURE;
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int show(const struct asked *a)
{
    json_t *all, *before = NULL;
    double at, before_at = 0;

    for (;;) {
        all = gw_nic_ask(a->request, (pid_t)a->pid);
        if (!all) return gw_cli_fail("nic", "/proc/net/unix", errno);
        at = now_s();
        if (a->qpn) keep_with_qp(all);
        if (!json_array_size(all) && (a->pid || a->qpn) && !before) {
            json_decref(all);
            return cli_nic_nothing(a);
        }
        cli_nic_print_all(a, all, before, at - before_at);
        fflush(stdout);
        json_decref(before);
        before = all;
        before_at = at;
        if (!a->watch) break;
        struct pollfd p = {.fd = gw_interrupt_fd(), .events = POLLIN};
        poll(&p, 1, (int)a->watch * 1000);
        if (gw_interrupted() || ferror(stdout)) break;
    }
    json_decref(before);
    return GW_EXIT_OK;
}

/* ---- changing ------------------------------------------------------------------------------------------ */

static int cli_nic_change(const struct asked *a)
{
    json_t *all = gw_nic_ask(a->request, (pid_t)a->pid), *one;
    const char *error;
    int code = GW_EXIT_OK;

    if (!all) return gw_cli_fail("nic", "/proc/net/unix", errno);
    if (!json_array_size(all)) code = cli_nic_nothing(a);
    one = json_array_get(all, 0);
    error = json_string_value(json_object_get(one, "error"));
    if (one && error) {
        fprintf(stderr, "gpuwire nic: process %llu: %s\n", (unsigned long long)a->pid, error);
        code = GW_EXIT_FAILURE;
    } else if (one) {
        const char *what = a->fault ? "faults" : "event";

        printf("%s of process %llu: %s\n", what, (unsigned long long)a->pid,
               json_string_value(json_object_get(one, what)));
    }
    json_decref(all);
    return code;
}

/* ---- options ------------------------------------------------------------------------------------------- */

static int read_qpn(struct asked *a, const char *said)
{
    char *end;
    unsigned long n = strtoul(said, &end, 0);

    if (said[0] < '0' || said[0] > '9' || *end || !n || n > 0xffffff)
        return gw_usage_error("nic", "--qp %s: must be a queue pair's number, as in 0x12abcd", said);
    a->qpn = n;
    return 0;
}

/* --watch, --watch=2 and --watch 2. */
static int read_watch(struct asked *a, int argc, char **argv)
{
    const char *said = optarg;

    if (!said && optind < argc && argv[optind][0] >= '0' && argv[optind][0] <= '9') said = argv[optind++];
    a->watch = 1;
    return said ? gw_option_number("nic", "--watch", said, 1, 3600, &a->watch) : 0;
}

static int cli_nic_check(struct asked *a)
{
    struct sn_faults faults;
    uint64_t seed;
    bool has_seed;
    char why[256];

    if (!a->fault && !a->event) {
        snprintf(a->request, sizeof(a->request), a->qpn ? "show %llu" : "show", (unsigned long long)a->qpn);
        return 0;
    }
    if (!a->pid)
        return gw_usage_error("nic", "%s: which process's? Say --pid PID", a->fault ? "--fault" : "--event");
    if (a->qpn || a->watch || a->json || (a->fault && a->event))
        return gw_usage_error("nic", "%s goes with --pid alone", a->fault ? "--fault" : "--event");
    if (a->event) {
        snprintf(a->request, sizeof(a->request), "event %s", a->event);
        return 0;
    }
    if (sn_faults_parse(a->fault, &faults, &seed, &has_seed, why))
        return gw_usage_error("nic", "--fault: %s", why);
    snprintf(a->request, sizeof(a->request), "fault %s", a->fault);
    return 0;
}

int gw_cli_nic(int argc, char **argv)
{
    static const struct option options[] = {
        {"pid", required_argument, NULL, 'p'},   {"qp", required_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},        {"watch", optional_argument, NULL, 'w'},
        {"fault", required_argument, NULL, 'f'}, {"event", required_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    struct asked a = {0};
    int c, err = 0;

    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (c) {
        case 'p': err = gw_option_number("nic", "--pid", optarg, 1, 1u << 30, &a.pid); break;
        case 'q': err = read_qpn(&a, optarg); break;
        case 'j': a.json = true; break;
        case 'w': err = read_watch(&a, argc, argv); break;
        case 'f': a.fault = optarg; break;
        case 'e': a.event = optarg; break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("nic", argv, c);
        }
    }
    if (!err && optind != argc) err = gw_usage_error("nic", "%s: not understood", argv[optind]);
    if (!err) err = cli_nic_check(&a);
    if (err) return err;
    if (a.watch) gw_catch_signals();
    return a.fault || a.event ? cli_nic_change(&a) : show(&a);
}
