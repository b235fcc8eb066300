/* SPDX-License-Identifier: Apache-2.0 */
/* Prints software NICs, their counters and their queue pairs. */
#include "src/cli/nic_print.h"

#include <stdio.h>
#include <string.h>

enum { QP_LINES = 64 };

/* ---- values -------------------------------------------------------------------------------------------- */

static unsigned long long nic_print_number(const json_t *o, const char *name)
{
    return (unsigned long long)json_integer_value(json_object_get(o, name));
}

/* Another process may say anything: nothing of it steers the terminal. */
static const char *nic_print_text(const json_t *o, const char *name)
{
    static char buf[4][1200];
    static unsigned turn;
    const char *from = json_string_value(json_object_get(o, name));
    char *to = buf[turn++ % 4];

    snprintf(to, sizeof(buf[0]), "%s", from ? from : "");
    for (char *p = to; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    return to;
}

static const char *bytes(unsigned long long n, char buf[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double v = (double)n;
    int i = 0;

    for (; v >= 10000 && i < 4; i++) v /= 1000;
    snprintf(buf, 32, "%.*f %s", i && v < 100 ? 1 : 0, v, units[i]);
    return buf;
}

/* ---- a NIC --------------------------------------------------------------------------------------------- */

/* One way for bytes to go: the counters' names, and what the first of them counts. */
struct way {
    const char *what, *units, *count, *size;
};

static void print_traffic(const struct way *w, const json_t *now, const json_t *before, double seconds)
{
    char buf[32];

    printf("  %-9s %llu %s, %s", w->what, nic_print_number(now, w->count), w->units,
           bytes(nic_print_number(now, w->size), buf));
    if (before && seconds > 0) {
        double n = (double)(nic_print_number(now, w->count) - nic_print_number(before, w->count)) / seconds;
        double b = (double)(nic_print_number(now, w->size) - nic_print_number(before, w->size)) / seconds;

        printf(" (%.0f %s/s, %.3f Gbit/s)", n, w->units, b * 8e-9);
    }
    printf("\n");
}

enum { LINE_WIDTH = 118, LINE_INDENT = 12 };

/* The counters that are not 0, but for those that were printed. In brackets: per second. */
static void print_counters(const char *what, const json_t *now, const json_t *before, double seconds,
                           const char *const * not )
{
    const char *name;
    int column = 0;
    json_t *value;

    if (!now) return;
    json_object_foreach((json_t *)now, name, value)
    {
        unsigned long long v = (unsigned long long)json_integer_value(value);
        char item[96];
        unsigned i;
        int len;

        for (i = 0; not [i] && strcmp(not [i], name); i++) continue;
        if (!v || not [i]) continue;
        len = snprintf(item, sizeof(item), "%s %llu", name, v);
        if (before && seconds > 0 && v != nic_print_number(before, name))
            len += snprintf(item + len, sizeof(item) - (size_t)len, " (%.0f/s)",
                            (double)(v - nic_print_number(before, name)) / seconds);
        if (!column)
            column = printf("  %-9s ", what);
        else if (column + 2 + len > LINE_WIDTH)
            column = printf(",\n%*s", LINE_INDENT, "") - 2;
        else
            column += printf(", ");
        column += printf("%s", item);
    }
    if (column) printf("\n");
}

static void print_line(const char *what, const char *said)
{
    if (*said) printf("  %-9s %s\n", what, said);
}

/* The first two leave out what peers on this host get without packets. */
static const struct way ways[] = {{"sent", "packets", "tx_packets", "tx_bytes"},
                                  {"received", "packets", "rx_packets", "rx_bytes"},
                                  {"one-copy", "requests", "direct_requests", "direct_bytes"},
                                  {"fetched", "messages", "rndv_taken", "rndv_bytes"}};
enum { PACKET_WAYS = 2, WAYS = 4 };
static const char *const shown[] = {"tx_packets",   "tx_bytes",   "rx_packets", "rx_bytes", "direct_requests",
                                    "direct_bytes", "rndv_taken", "rndv_bytes", NULL};
static const char *const shown_wire[] = {"tx_frames", "tx_bytes", "rx_frames", "rx_bytes", NULL};
static const char *const none[] = {NULL};

static void print_head(const json_t *nic)
{
    const json_t *o = json_object_get(nic, "objects");
    char buf[32];

    printf("%llu %s  %s, slot %llu, UDP port %llu, path MTU %llu, up %.1f s%s\n",
           nic_print_number(nic, "pid"), nic_print_text(nic, "program"), nic_print_text(nic, "address"),
           nic_print_number(nic, "slot"), nic_print_number(nic, "udp_port"), nic_print_number(nic, "mtu"),
           (double)nic_print_number(nic, "uptime_ms") / 1000,
           json_is_true(json_object_get(nic, "stuck")) ? ": STUCK, inside one call all the time" : "");
    print_line("settings", nic_print_text(nic, "settings"));
    if (nic_print_number(nic, "threads") > 1)
        printf("  %-9s gw-nic and %llu gw-nic-rx\n", "threads", nic_print_number(nic, "threads") - 1);
    print_line("note", nic_print_text(nic, "note"));
    if (o)
        printf("  %-9s QPs %llu, CQs %llu, MRs %llu of %s, PDs %llu\n", "objects", nic_print_number(o, "qps"),
               nic_print_number(o, "cqs"), nic_print_number(o, "mrs"),
               bytes(nic_print_number(o, "mr_bytes"), buf), nic_print_number(o, "pds"));
}

static void print_statistics(const json_t *nic, const json_t *before, double seconds)
{
    const json_t *c = json_object_get(nic, "counters"), *b = json_object_get(before, "counters");

    for (int i = 0; i < WAYS; i++)
        if (i < PACKET_WAYS || nic_print_number(c, ways[i].count) || nic_print_number(c, ways[i].size))
            print_traffic(&ways[i], c, b, seconds);
    print_counters("counted", c, b, seconds, shown);
    print_counters("wire", json_object_get(nic, "wire"), json_object_get(before, "wire"), seconds,
                   shown_wire);
    if (strcmp(nic_print_text(nic, "faults"), "none")) print_line("faults", nic_print_text(nic, "faults"));
    print_counters("  sent", json_object_get(nic, "faults_tx"), json_object_get(before, "faults_tx"), seconds,
                   none);
    print_counters("  recvd", json_object_get(nic, "faults_rx"), json_object_get(before, "faults_rx"),
                   seconds, none);
    print_line("capture", nic_print_text(nic, "capture_file"));
    print_counters("", json_object_get(nic, "capture"), NULL, 0, none);
}

static void nic_print_gpus(const json_t *now, const json_t *before, double seconds)
{
    const json_t *gpu;
    char what[24];
    size_t i;

    json_array_foreach(now, i, gpu)
    {
        snprintf(what, sizeof(what), "GPU %llu", nic_print_number(gpu, "gpu"));
        printf("  %-9s copies: %s\n", what, nic_print_text(gpu, "copies"));
        if (*nic_print_text(gpu, "peers"))
            printf("  %-9s other GPUs: %s\n", "", nic_print_text(gpu, "peers"));
        print_counters("", json_object_get(gpu, "counters"),
                       json_object_get(json_array_get(before, i), "counters"), seconds, none);
    }
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

static const char *syndrome(const json_t *qp)
{
    static const struct {
        unsigned code;
        const char *what;
    } all[] = {{0, ""},
               {0x01, "local length"},
               {0x02, "local QP operation"},
               {0x04, "local protection"},
               {0x05, "flushed"},
               {0x06, "memory window bind"},
               {0x10, "bad response"},
               {0x11, "local access"},
               {0x12, "remote invalid request"},
               {0x13, "remote access"},
               {0x14, "remote operation"},
               {0x15, "retries exceeded"},
               {0x16, "RNR retries exceeded"},
               {0x22, "aborted"}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].code == nic_print_number(qp, "syndrome")) return all[i].what;
    return "unknown";
}

static void print_qp_line(const json_t *qp)
{
    const json_t *c = json_object_get(qp, "counters");

    printf("  0x%06llx %-8s %-5s 0x%06llx %-18s %8llu %8llu %6llu %6lld %8llu %8llu  %s%s\n",
           nic_print_number(qp, "number"), nic_print_text(qp, "type"), nic_print_text(qp, "state"),
           nic_print_number(qp, "peer"), nic_print_text(qp, "peer_address"), nic_print_number(qp, "next_psn"),
           nic_print_number(qp, "una_psn"),
           nic_print_number(qp, "outstanding") + nic_print_number(qp, "posted"),
           (long long)json_integer_value(json_object_get(qp, "receives")), nic_print_number(c, "retransmits"),
           nic_print_number(c, "timeouts"), syndrome(qp),
           json_is_true(json_object_get(qp, "rnr_wait")) ? " (waits: peer has no receive)" : "");
    if (*nic_print_text(qp, "report")) printf("           %s\n", nic_print_text(qp, "report"));
}

static void print_qps(const json_t *qps)
{
    size_t n = json_array_size(qps);

    if (!n) return;
    printf("  QP       type     state peer     at                 next PSN    acked    out   recv  retrans "
           "timeouts  first "
           "error\n");
    for (size_t i = 0; i < n && i < QP_LINES; i++) print_qp_line(json_array_get(qps, i));
    if (n > QP_LINES) printf("  … %zu more: --qp NUMBER shows one, --json all\n", n - QP_LINES);
}

/* All there is, a member a line. */
static void print_qp_detail(const json_t *qp)
{
    const char *name;
    json_t *value;

    printf("  QP 0x%06llx\n", nic_print_number(qp, "number"));
    json_object_foreach((json_t *)qp, name, value)
    {
        if (json_is_object(value))
            print_counters("  counted", value, NULL, 0, none);
        else if (!strcmp(name, "peer"))
            printf("    %-13s 0x%06llx\n", name, nic_print_number(qp, name));
        else if (!strcmp(name, "syndrome"))
            printf("    %-13s 0x%02llx %s\n", name, nic_print_number(qp, name), syndrome(qp));
        else if (json_is_string(value))
            printf("    %-13s %s\n", name, nic_print_text(qp, name));
        else if (json_is_boolean(value))
            printf("    %-13s %s\n", name, json_is_true(value) ? "yes" : "no");
        else if (strcmp(name, "number"))
            printf("    %-13s %lld\n", name, (long long)json_integer_value(value));
    }
}

static void print_cqs(const json_t *cqs)
{
    const json_t *cq;
    size_t i;

    json_array_foreach(cqs, i, cq)
    {
        if (i == QP_LINES) {
            printf("  … %zu more: --json shows all\n", json_array_size(cqs) - i);
            return;
        }
        printf("  CQ 0x%06llx of %llu entries: %llu written, %llu not polled%s%s\n",
               nic_print_number(cq, "number"), nic_print_number(cq, "entries"),
               nic_print_number(cq, "written"), nic_print_number(cq, "unpolled"),
               json_is_true(json_object_get(cq, "armed")) ? ", armed" : "",
               json_is_true(json_object_get(cq, "dead")) ? ", DEAD: overrun" : "");
    }
}

void gw_nic_print(const json_t *nic, const json_t *before, double seconds, unsigned qpn)
{
    const json_t *qps = json_object_get(nic, "qps"), *qp;
    size_t i;

    print_head(nic);
    if (!qpn) {
        print_statistics(nic, before, seconds);
        nic_print_gpus(json_object_get(nic, "gpus"), json_object_get(before, "gpus"), seconds);
        print_qps(qps);
        print_cqs(json_object_get(nic, "cqs"));
        return;
    }
    json_array_foreach(qps, i, qp) print_qp_detail(qp);
}
