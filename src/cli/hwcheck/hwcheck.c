/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire hwcheck: whether gpuwire works between two hosts, and how fast; one report, to be sent to its
 * authors. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/cli/cli.h"
#include "src/cli/hwcheck/hwcheck.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire hwcheck [OPTION...] HOST\n"
    "       gpuwire hwcheck --facts\n"
    "\n"
    "Runs every kind of operation between this host and HOST, with every byte looked at, then measures, and "
    "writes one\n"
    "report (JSON; its first member is for people). HOST is reached by ssh, and gpuwire must be there too. "
    "The report holds\n"
    "what both machines are (kernel, processor, NIC, firmware, GPU, rdma-core), and no addresses or names.\n"
    "\n"
    "  --address ADDRESS     HOST's address on the RDMA network (default: HOST)\n"
    "  --ssh COMMAND         instead of `ssh -o BatchMode=yes`; gets HOST and a command line\n"
    "  --remote PATH         gpuwire there (default: gpuwire)\n"
    "  -d, --ib-dev NAME     the RDMA device here; --remote-dev NAME: there (default: as gpuwire chooses)\n"
    "  -p, --port N          the first of the ports that are used there, one for each check (default: "
    "18600)\n"
    "  -o, --out FILE        the report (default: gpuwire-hwcheck.json)\n"
    "  --quick               fewer and shorter checks\n"
    "  --only TEXT           the checks whose name contains TEXT, or of that kind (conformance, each, "
    "figure)\n"
    "  --facts               only print what this machine is\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit code 0: all passed, 1: not, 2: wrong usage, 130: Ctrl-C (the report has what was done). "
    "docs/hwcheck.md.\n";

/* ---- what is run --------------------------------------------------------------------------------------- */

static const struct item items[] = {
    {"conformance", "bw -o put -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o put_imm -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o get -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o send -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o fetch_add -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o cmp_swap -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o masked_add -n 300 --verify", BETWEEN, true},
    {"conformance", "bw -o masked_swap -n 300 --verify", BETWEEN, true},
    {"conformance", "lat -o put_imm -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "lat -o send -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "lat -o signal -s 4k -n 300 --verify", BETWEEN, true},
    {"conformance", "lat -o datagram -s 900 -n 300 --verify", BETWEEN, true},
    {"conformance", "lat -o signal -a -s 64k -n 100 --verify", BETWEEN, false},
    {"conformance", "bw -o put -a -s 1m -n 20 --verify", BETWEEN, false},
    {"conformance", "bw -o get -a -s 1m -n 20 --verify", BETWEEN, false},
    {"conformance", "bw -o send -a -s 1m -n 20 --verify", BETWEEN, false},
    {"conformance", "bw -o put -m 256 -s 10000 -n 100 --verify", BETWEEN, true},
    {"conformance", "bw -o get -m 256 -s 10000 -n 100 --verify", BETWEEN, false},
    {"conformance", "msgrate -o put -q 3 --blocks 3 --threads 4 -l 5 -n 400 --verify", BETWEEN, true},
    {"conformance", "msgrate -o put -q 2 --by warp -n 640 --verify", BETWEEN, false},
    {"conformance", "msgrate -o get -q 2 --by block -n 640 --verify", BETWEEN, false},
    {"conformance", "post -q 2 -l 4 -n 5000 --verify", HERE, true},
    {"conformance", "test_verbs_loopback", PROGRAM, false},
    {"conformance", "test_verbs_differential", PROGRAM, false},
    {"conformance", "test_verbs_datagram", PROGRAM, false},
    {"conformance", "test_verbs_errors", PROGRAM, false},
    {"conformance", "test_verbs_stress", PROGRAM, false},
    {"conformance", "test_verbs_wait", PROGRAM, false},
    {"figure", "lat -o put -s 8 -n 1000", BETWEEN, true},
    {"figure", "lat -o put_imm -s 8 -n 1000", BETWEEN, false},
    {"figure", "lat -o get -s 8 -n 1000", BETWEEN, false},
    {"figure", "lat -o fetch_add -n 1000", BETWEEN, false},
    {"figure", "bw -o put -s 64k -n 2000", BETWEEN, true},
    {"figure", "bw -o put -a -s 8m -D 1", BETWEEN, false},
    {"figure", "bw -o get -s 64k -D 2", BETWEEN, false},
    {"figure", "msgrate -o put -l 16 -D 2", BETWEEN, false},
    {"figure", "msgrate -o put -q 8 -l 16 -D 2", BETWEEN, false},
    {"figure", "post -n 100000", HERE, false},
    {"figure", "post --by warp -n 320000", GPU_HERE, false},
};

/* ---- all of them --------------------------------------------------------------------------------------- */

/* Facts about the other machine; also whether it can be reached at all. */
static json_t *ask_there(const struct hwcheck *h)
{
    char line[PATH_MAX + 32];
    struct child c;
    json_t *facts = NULL;
    int code;

    snprintf(line, sizeof(line), "exec %s hwcheck --facts", h->remote);
    code = hwcheck_start_there(h, line, &c) ? 126 : child_finish(&c, gw_deadline(60000000000u));
    if (!code) facts = json_loads(c.said[0], 0, NULL);
    if (!json_is_object(facts) && !gw_interrupted()) {
        const char *said = c.said[1][0] ? c.said[1] : "it says nothing; is gpuwire installed there?\n";

        fprintf(stderr, "gpuwire hwcheck: `%s %s %s` does not work (exit code %d): %.300s", h->ssh, h->host,
                line, code, said);
    }
    if (!json_is_object(facts)) {
        json_decref(facts);
        facts = NULL;
    }
    child_free(&c);
    return facts;
}

static bool wanted(const struct hwcheck *h, const struct item *it)
{
    return h->only ? strstr(it->args, h->only) || !strcmp(it->kind, h->only) : !h->quick || it->quick;
}

static const struct item each = {"each", "lat -o put_imm -s 4k -n 300 --verify", BETWEEN, true};

/* The name of the n-th NIC that can be used; NULL: there are fewer. */
static const char *hwcheck_nic_name(const json_t *facts, size_t n)
{
    const json_t *nic;
    size_t i;

    json_array_foreach(json_object_get(facts, "NICs"), i, nic)
    {
        const char *state = json_string_value(json_object_get(nic, "state"));

        if (state && strstr(state, "ACTIVE") && !n--) return json_string_value(json_object_get(nic, "name"));
    }
    return NULL;
}

/* Each NIC here with each there, and each GPU here with one there: kernels of both ends look at what comes.
 * With a device's name, only that one is used. */
static uint64_t run_each(const struct hwcheck *h, const json_t *here, const json_t *there, const char *exec,
                         uint64_t port)
{
    size_t gpus = strcmp(exec, "gpu") ? 1 : json_array_size(json_object_get(here, "GPUs")),
           gpus_there = json_array_size(json_object_get(there, "GPUs"));
    bool nics = !h->dev && !h->remote_dev && (hwcheck_nic_name(here, 1) || hwcheck_nic_name(there, 1));

    for (size_t g = 0; g < (gpus ? gpus : 1); g++) {
        for (size_t i = 0; (nics ? hwcheck_nic_name(here, i) != NULL : !i) && !gw_interrupted(); i++) {
            for (size_t k = 0; (nics ? hwcheck_nic_name(there, k) != NULL : !k) && !gw_interrupted(); k++) {
                struct hwcheck one = *h;

                if (!nics && gpus < 2) return port; /* there is one of each, and that has been checked */
                one.dev = nics ? hwcheck_nic_name(here, i) : h->dev;
                one.remote_dev = nics ? hwcheck_nic_name(there, k) : h->remote_dev;
                one.by_device = nics;
                one.gpu = (unsigned)g;
                one.gpu_there = (unsigned)(gpus_there ? g % gpus_there : 0);
                hwcheck_run(&one, &each, exec, port++);
            }
        }
    }
    return port;
}

static void hwcheck_run_all(struct hwcheck *h, const json_t *there)
{
    const char *const execs[] = {"cpu", "gpu"};
    json_t *here = hwcheck_facts();
    uint64_t port = h->port;

    for (size_t e = 0; e < (gw_exec_gpu_available(NULL, 0) ? 2 : 1); e++) {
        h->placed = false;
        for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
            if (wanted(h, &items[i]) && (e || items[i].where != GPU_HERE) && !gw_interrupted())
                hwcheck_run(h, &items[i], execs[e], port++);
        if (wanted(h, &each) && !h->no_way) port = run_each(h, here, there, execs[e], port);
    }
    json_decref(here);
}

static int hwcheck_report(struct hwcheck *h, json_t *there)
{
    time_t now = time(NULL);
    char when[32];
    json_t *all = json_object(), *lines, *line;
    size_t i, failed = 0;
    const json_t *r;
    int err;

    strftime(when, sizeof(when), "%Y-%m-%d", gmtime(&now));
    json_object_set_new(all, "summary", json_null()); /* the first member, filled in last */
    json_object_set_new(all, "gpuwire hwcheck", json_integer(1));
    json_object_set_new(all, "date", json_string(when));
    json_object_set_new(all, "interrupted", json_boolean(gw_interrupted()));
    json_object_set_new(all, "here", hwcheck_facts());
    json_object_set_new(all, "there", there);
    json_object_set(all, "results", h->results);
    lines = hwcheck_summary(all);
    json_object_set(all, "summary", lines);
    json_array_foreach(h->results, i, r) failed += json_is_false(json_object_get(r, "ok"));
    printf("\n");
    json_array_foreach(lines, i, line) printf("%s\n", json_string_value(line));
    json_decref(lines);
    err = hwcheck_write(h->out, all);
    json_decref(all);
    if (err) return gw_failed("hwcheck");
    printf("\nThe report is %s.\n", h->out);
    return gw_exit_code(failed != 0);
}

static bool any_wanted(const struct hwcheck *h)
{
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
        if (wanted(h, &items[i])) return true;
    return wanted(h, &each);
}

static bool plain(const char *s)
{
    return *s && *s != '-' &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-") == strlen(s);
}

static int hwcheck_check(const struct hwcheck *h)
{
    if (h->facts) return h->host ? gw_usage_error("hwcheck", "--facts takes no HOST") : 0;
    if (!h->host || h->host[0] == '-' || !h->host[0]) return gw_usage_error("hwcheck", "which HOST?");
    if (!plain(h->remote))
        return gw_usage_error("hwcheck", "--remote %s: must be a path of plain characters", h->remote);
    if (h->remote_dev && !plain(h->remote_dev))
        return gw_usage_error("hwcheck", "--remote-dev %s: must be a device's name", h->remote_dev);
    if (!any_wanted(h)) return gw_usage_error("hwcheck", "--only %s: no check has that in its name", h->only);
    return 0;
}

static int hwcheck_parse(int argc, char **argv, struct hwcheck *h)
{
    enum { ADDRESS = 256, SSH, REMOTE, REMOTE_DEV, QUICK, ONLY, FACTS };
    static const struct option options[] = {
        {"address", 1, NULL, ADDRESS},
        {"ssh", 1, NULL, SSH},
        {"remote", 1, NULL, REMOTE},
        {"ib-dev", 1, NULL, 'd'},
        {"remote-dev", 1, NULL, REMOTE_DEV},
        {"port", 1, NULL, 'p'},
        {"out", 1, NULL, 'o'},
        {"quick", 0, NULL, QUICK},
        {"only", 1, NULL, ONLY},
        {"facts", 0, NULL, FACTS},
        {"help", 0, NULL, 'h'},
        {0},
    };
    int c, err = 0;

    optind = 1;
    opterr = 0;
    while (!err && (c = getopt_long(argc, argv, ":d:p:o:h", options, NULL)) >= 0) {
        switch (c) {
        case ADDRESS: h->address = optarg; break;
        case SSH: h->ssh = optarg; break;
        case REMOTE: h->remote = optarg; break;
        case REMOTE_DEV: h->remote_dev = optarg; break;
        case QUICK: h->quick = true; break;
        case ONLY: h->only = optarg; break;
        case FACTS: h->facts = true; break;
        case 'd': h->dev = optarg; break;
        case 'o': h->out = optarg; break;
        case 'p': err = gw_option_number("hwcheck", "-p", optarg, 1024, 65000, &h->port); break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("hwcheck", argv, c);
        }
    }
    if (err) return err;
    if (optind < argc) h->host = argv[optind++];
    if (optind < argc) return gw_usage_error("hwcheck", "%s: not understood", argv[optind]);
    if (!h->address) h->address = h->host;
    err = hwcheck_check(h);
    return err ? err : -1;
}

int gw_cli_hwcheck(int argc, char **argv)
{
    struct hwcheck h = {
        .ssh = "ssh -o BatchMode=yes", .remote = "gpuwire", .out = "gpuwire-hwcheck.json", .port = 18600};
    int done = hwcheck_parse(argc, argv, &h);
    json_t *there;

    if (done >= 0) return done;
    if (h.facts) {
        json_t *facts = hwcheck_facts();

        json_dumpf(facts, stdout, JSON_INDENT(1));
        printf("\n");
        json_decref(facts);
        return GW_EXIT_OK;
    }
    if (readlink("/proc/self/exe", h.self, sizeof(h.self) - 1) <= 0)
        return gw_cli_fail("hwcheck", "/proc/self/exe", errno);
    if (gw_option_writable("-o", h.out)) return gw_failed("hwcheck");
    gw_catch_signals();
    there = ask_there(&h);
    if (!there) return gw_exit_code(1);
    h.results = json_array();
    hwcheck_run_all(&h, there);
    done = json_array_size(h.results) || gw_interrupted()
               ? hwcheck_report(&h, there)
               : gw_usage_error("hwcheck", "--only %s: no check has that in its name", h.only);
    json_decref(h.results);
    return done;
}
