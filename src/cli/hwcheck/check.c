/* SPDX-License-Identifier: Apache-2.0 */
/* One check: a measurement between both hosts or here, or a test program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/cli/beside.h"
#include "src/cli/hwcheck/hwcheck.h"
#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

#define WORDS 40

/* Adds the text's words to argv; they live in `room`. */
static size_t hwcheck_check_split(const char *text, char *room, const char **argv, size_t n)
{
    char *save;

    strcpy(room, text);
    for (char *w = strtok_r(room, " ", &save); w && n + 1 < WORDS; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    argv[n] = NULL;
    return n;
}

static bool is_test(const struct item *it, const char *test)
{
    return !strncmp(it->args, test, strlen(test));
}

static uint64_t patience_s(const struct item *it)
{
    return strstr(it->args, "-a") ? 240 : 90;
}

/* `sh -c 'COMMAND "$@"' ssh HOST LINE` */
int hwcheck_start_there(const struct hwcheck *h, const char *line, struct child *c)
{
    char command[1024];
    const char *argv[] = {"sh", "-c", command, "ssh", h->host, line, NULL};

    snprintf(command, sizeof(command), "%s \"$@\"", h->ssh);
    return child_start(c, argv);
}

struct outcome {
    int code, code_there;
    json_t *rows, *head; /* what perf printed: figures, and what it was measured with */
    char said[700];
};

static void keep_said(const struct hwcheck *h, struct outcome *o, const char *said)
{
    const char *const words[] = {h->host, h->address, NULL};
    size_t n;

    if (o->said[0]) return;
    snprintf(o->said, sizeof(o->said), "%s", said);
    n = strcspn(o->said, "\n");
    o->said[n] = 0;
    hwcheck_scrub(o->said, words);
}

static void take_rows(struct outcome *o, const char *said)
{
    json_t *all = json_loads(said, 0, NULL), *rows = json_object_get(all, "rows");

    if (json_array_size(rows)) {
        o->rows = json_incref(rows);
        o->head = json_incref(all);
    }
    json_decref(all);
}

/* The measuring side; `where`: HOST's address, or NULL. */
static void run_here(const struct hwcheck *h, const struct item *it, const char *exec, const char *port,
                     const char *where, struct outcome *o)
{
    const char *argv[WORDS] = {h->self, "perf"};
    char room[200], gpu[12];
    size_t n = hwcheck_check_split(it->args, room, argv, 2);
    struct child c;

    argv[n++] = "--json";
    argv[n++] = "--exec";
    argv[n++] = exec;
    if (h->dev && it->where == BETWEEN) argv[n++] = "-d", argv[n++] = h->dev;
    snprintf(gpu, sizeof(gpu), "%u", h->gpu);
    if (h->gpu) argv[n++] = "--gpu", argv[n++] = gpu;
    if (where) argv[n++] = "-p", argv[n++] = port, argv[n++] = where;
    argv[n] = NULL;
    o->code = child_start(&c, argv) ? 126 : child_finish(&c, gw_deadline(patience_s(it) * 1000000000u));
    take_rows(o, c.said[0]);
    if (o->code) keep_said(h, o, o->code == 124 ? "it did not end in time" : c.said[1]);
    child_free(&c);
}

/* The address that a waiting perf says its device has. */
static bool hwcheck_check_own_address(const struct child *there, char address[INET6_ADDRSTRLEN])
{
    const char *at = strstr(there->said[1], PERF_ADDRESS);

    return at && sscanf(at + strlen(PERF_ADDRESS), "%45[0-9a-fA-F.:]", address) == 1;
}

static void run_between(const struct hwcheck *h, const struct item *it, const char *exec, uint64_t port,
                        struct outcome *o)
{
    const char *test = is_test(it, "lat") ? "lat" : is_test(it, "bw") ? "bw" : "msgrate";
    char line[PATH_MAX + 400], number[24], address[INET6_ADDRSTRLEN];
    struct child there;

    snprintf(number, sizeof(number), "%llu", (unsigned long long)port);
    /* It ends with its standard input, and so with the connection to us. */
    snprintf(line, sizeof(line),
             "exec 3<&0; timeout -k 5 %llu %s perf %s --exec %s --gpu %u -p %s%s%s & p=$!; { read x <&3; "
             "kill $p; } "
             "2>/dev/null & "
             "w=$!; wait $p; r=$?; kill $w 2>/dev/null; exit $r",
             (unsigned long long)patience_s(it) + 30, h->remote, test, strcmp(exec, "cpu") ? "auto" : "cpu",
             h->gpu_there, number, h->remote_dev ? " -d " : "", h->remote_dev ? h->remote_dev : "");
    if (hwcheck_start_there(h, line, &there)) {
        keep_said(h, o, "cannot start a process");
        o->code = 126;
    } else if (!child_says(&there, "waiting for a client", gw_deadline(30000000000u))) {
        o->code = 125;
        o->code_there = child_finish(&there, gw_deadline(0));
        keep_said(h, o, there.said[1][0] ? there.said[1] : "the other side does not start within 30 s");
    } else {
        run_here(h, it, exec, number,
                 h->by_device && hwcheck_check_own_address(&there, address) ? address : h->address, o);
        o->code_there = child_finish(&there, gw_deadline(o->code ? 1000000000u : 20000000000u));
        if (!o->code && o->code_there) keep_said(h, o, there.said[1]);
    }
    child_free(&there);
}

/* Masked atomics are a ConnectX's own. */
static bool not_known(const struct item *it, const struct outcome *o)
{
    return o->code && strstr(it->args, "masked") &&
           (strstr(o->said, "not supported") || strstr(o->said, "does not accept such a request") ||
            strstr(o->said, "does not know"));
}

static const char *hwcheck_check_text_of(const json_t *head, const char *name)
{
    const char *s = json_string_value(json_object_get(head, name));

    return s ? s : "?";
}

/*
 * How the executor's requests reach the NIC, and where the buffers lie: a row of its own. A check that
 * works because the library has fallen back is no pass: it is slower, and the host was bought for more.
 */
static void note_placement(struct hwcheck *h, const json_t *head, const char *exec)
{
    const char *posting = hwcheck_check_text_of(head, "posting"),
               *buffers = hwcheck_check_text_of(head, "buffers"),
               *peer_posting = hwcheck_check_text_of(head, "peer posting"),
               *peer_buffers = hwcheck_check_text_of(head, "peer buffers");
    bool gpu = !strcmp(exec, "gpu"),
         peer_gpu = !strncasecmp(hwcheck_check_text_of(head, "peer executor"), "gpu", 3);
    bool here = strcmp(posting, "direct") || (gpu && strcmp(buffers, "GPU memory"));
    bool there = strcmp(peer_posting, "direct") || (peer_gpu && strcmp(peer_buffers, "GPU memory"));
    bool fell_back = here || there, because = json_object_get(head, "posting because") != NULL;
    char said[700];
    json_t *r;

    if (h->placed) return;
    h->placed = true;
    h->foreign = !strcmp(posting, "proxy-post") || !strcmp(peer_posting, "proxy-post");
    snprintf(said, sizeof(said), "here %s, buffers in %s; there %s, buffers in %s%s%s%s", posting, buffers,
             peer_posting, peer_buffers, because ? "; here because: " : "",
             because ? hwcheck_check_text_of(head, "posting because") : "",
             there              ? "; `gpuwire info` there says why"
             : here && !because ? "; `gpuwire info` here says why"
                                : "");
    printf("%-7s posting and buffers, %s: %s\n", fell_back ? "FELL BACK" : "ok", exec, said);
    r = json_pack("{ss ss ss ss so}", "name", "posting and buffers", "kind", "placement", "executor", exec,
                  "said", said, "ok", fell_back ? json_null() : json_true());
    if (fell_back) json_object_set_new(r, "fell back", json_string(said));
    json_array_append_new(h->results, r);
}

/* NULL: it was run; else why not. */
static const char *hwcheck_check_run_program(const struct hwcheck *h, const struct item *it, const char *exec,
                                             struct outcome *o)
{
    static const char *const places[] = {".", "../tests", "../libexec/gpuwire"};
    char path[PATH_MAX], device[300];
    struct child c;

    if (gw_beside(places, sizeof(places) / sizeof(places[0]), it->args, X_OK, path))
        return "it is not installed with gpuwire; a bundle or a build tree has it";
    if (strcmp(exec, "cpu") && !strcmp(it->args, "test_verbs_wait"))
        return "it runs on the CPU alone, and did";
    /* On the device that the other checks use: by themselves the programs take the software NIC. Empty: as
     * gpuwire chooses. */
    const char *named = h->dev ? h->dev : getenv("GPUWIRE_DEVICE");
    snprintf(device, sizeof(device), "GPUWIRE_DEVICE=%s", named ? named : "");
    const char *argv[] = {"env", device, path, strcmp(exec, "cpu") ? "--exec" : NULL, exec, NULL};
    o->code = child_start(&c, argv) ? 126 : child_finish(&c, gw_deadline(120000000000u));
    if (o->code) keep_said(h, o, c.said[1][0] ? c.said[1] : "see what it prints");
    child_free(&c);
    return NULL;
}

/* The first check between the hosts has not got through: what there is to look at. */
static void advise(struct outcome *o)
{
    size_t n = strlen(o->said);

    snprintf(
        o->said + n, sizeof(o->said) - n,
        "%sDoes `gpuwire info` find all well on both hosts, is --address HOST's address on the RDMA network, "
        "does it answer `ping`, and does a firewall pass UDP port 4791 (RoCE)?",
        n ? ". " : "");
}

/* Its place in the report is kept, so that it does not look passed. */
static void skip(struct hwcheck *h, const struct item *it, const char *exec, const char *why)
{
    printf("skipped %s, %s: %s\n", it->args, exec, why);
    json_array_append_new(h->results, json_pack("{ss ss ss sn ss}", "name", it->args, "kind", it->kind,
                                                "executor", exec, "ok", "skipped", why));
}

/* Between the hosts: why a check need not be tried, or NULL. Another NIC answers no masked atomic. */
static const char *in_vain(const struct hwcheck *h, const struct item *it)
{
    if (h->no_way) return "the first one between the hosts did not get through";
    if (h->foreign && strstr(it->args, "masked"))
        return "masked atomics are a ConnectX's own, and one of the NICs is another";
    return NULL;
}

void hwcheck_run(struct hwcheck *h, const struct item *it, const char *exec, uint64_t port)
{
    struct outcome o = {0};
    uint64_t start = gw_clock_ns();
    const char *skipped = it->where == PROGRAM   ? hwcheck_check_run_program(h, it, exec, &o)
                          : it->where == BETWEEN ? in_vain(h, it)
                                                 : NULL;
    json_t *r;
    bool ok;

    if (skipped) {
        skip(h, it, exec, skipped);
        return;
    }
    if (it->where == HERE || it->where == GPU_HERE) run_here(h, it, exec, NULL, NULL, &o);
    if (it->where == BETWEEN) run_between(h, it, exec, port, &o);
    if (gw_interrupted()) { /* in the middle: it says nothing */
        json_decref(o.rows);
        json_decref(o.head);
        return;
    }
    if (not_known(it, &o)) {
        skip(h, it, exec, o.said);
        json_decref(o.rows);
        json_decref(o.head);
        return;
    }
    ok = !o.code && !o.code_there && (it->where == PROGRAM || o.rows);
    if (!ok) keep_said(h, &o, "it printed no figures");
    if (it->where == BETWEEN && !h->between++) {
        h->no_way = !ok && !o.rows;
        if (h->no_way) advise(&o);
    }
    printf("%-7s %s, %s%s%s%s%s%s%s\n", ok ? "ok" : "FAILED", it->args, exec, h->by_device ? ", " : "",
           h->by_device ? h->dev : "", h->by_device ? " to " : "", h->by_device ? h->remote_dev : "",
           ok ? "" : ": ", o.said);
    fflush(stdout);
    r = json_pack("{ss ss ss sb si si sf}", "name", it->args, "kind", it->kind, "executor", exec, "ok", ok,
                  "exit", o.code, "exit there", o.code_there, "seconds",
                  (double)(gw_clock_ns() - start) * 1e-9);
    if (o.rows) json_object_set_new(r, "rows", o.rows);
    if (o.said[0]) json_object_set_new(r, "said", json_string(o.said));
    if (h->by_device) json_object_set_new(r, "NICs", json_pack("[ss]", h->dev, h->remote_dev));
    if (!strcmp(it->kind, "each"))
        json_object_set_new(r, "GPUs", json_pack("[ii]", (int)h->gpu, (int)h->gpu_there));
    json_array_append_new(h->results, r);
    if (ok && it->where == BETWEEN) note_placement(h, o.head, exec);
    json_decref(o.head);
}
