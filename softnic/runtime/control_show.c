/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC as JSON. Numbers that are names (queue pairs, PSNs) are numbers; the program that shows them picks
 * the base. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <errno.h>

#include "softnic/cuda/cuda.h"
#include "softnic/nic/introspect.h"
#include "softnic/runtime/control.h"
#include "src/roce/icrc.h"

/* The engine is inside one call for that long only if something is very wrong. */
#define LOCK_NS UINT64_C(500000000)

/* ---- writing ------------------------------------------------------------------------------------------- */

void sn_json_string(FILE *f, const char *text)
{
    putc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\u%04x", *p);
        else
            putc(*p, f);
    }
    putc('"', f);
}

static void member(FILE *f, const char *name, const char *text)
{
    fprintf(f, "\"%s\": ", name);
    sn_json_string(f, text);
    fprintf(f, ", ");
}

static void control_show_number(FILE *f, const char *name, uint64_t value)
{
    fprintf(f, "\"%s\": %llu, ", name, (unsigned long long)value);
}

static void truth(FILE *f, const char *name, bool value)
{
    fprintf(f, "\"%s\": %s, ", name, value ? "true" : "false");
}

/* An object of counters: a struct of nothing but uint64_t, and their names in order. */
static void counters(FILE *f, const char *name, const void *values, const char *const *names, size_t n)
{
    fprintf(f, "\"%s\": {", name);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\"%s\": %llu", i ? ", " : "", names[i],
                (unsigned long long)((const uint64_t *)values)[i]);
    fprintf(f, "}, ");
}

#define COUNT(names) (sizeof(names) / sizeof(names[0]))
/* A counter without a name here would shift those after it. */
#define ALL_NAMED(type, names)                                                                               \
    _Static_assert(sizeof(type) == COUNT(names) * sizeof(uint64_t),                                          \
                   "every counter of " #type " has its name here")

static const char *const nic_names[] = {"doorbells",        "cq_arms",        "wqes",
                                        "bad_wqes",         "cqes",           "error_cqes",
                                        "cq_events",        "tx_packets",     "tx_bytes",
                                        "rx_packets",       "rx_bytes",       "retransmits",
                                        "go_backs",         "timeouts",       "probes",
                                        "acks_sent",        "naks_seq_sent",  "naks_inv_sent",
                                        "naks_access_sent", "naks_op_sent",   "rnr_sent",
                                        "naks_received",    "rnr_received",   "duplicates",
                                        "direct_requests",  "direct_bytes",   "direct_copies",
                                        "direct_gpu_bytes", "direct_refused", "rndv_sent",
                                        "rndv_taken",       "rndv_refused",   "rndv_bytes",
                                        "eager_sent",       "eager_taken",    "eager_refused",
                                        "drop_malformed",   "drop_icrc",      "drop_no_qp",
                                        "drop_state",       "drop_address",   "drop_pkey",
                                        "drop_opcode",      "drop_psn",       "drop_stale",
                                        "wrong_keys",       "drop_qkey",      "drop_no_recv",
                                        "drop_refused",     "lost_messages",  "ecn_marked",
                                        "cnp_sent",         "cnp_received"};
static const char *const udp_names[] = {
    "tx_frames",    "tx_bytes",  "tx_errors",   "tx_waits",   "rx_frames", "rx_bytes",   "rx_checked",
    "rx_unwrapped", "passed_on", "pass_failed", "rx_dropped", "refused",   "memory_lost"};
static const char *const fault_names[] = {"passed",  "lost", "doubled",   "overtaken",
                                          "damaged", "cut",  "overflowed"};
static const char *const pcap_names[] = {"packets", "bytes", "missing", "stopped"};
static const char *const qp_names[] = {"tx_packets",    "tx_bytes",     "rx_packets", "rx_bytes",
                                       "retransmits",   "go_backs",     "timeouts",   "probes",
                                       "naks_received", "rnr_received", "naks_sent",  "rnr_sent"};
static const char *const gpu_names[] = {
    "copies_in", "bytes_in", "copies_out", "bytes_out",   "read_hits",  "kernel_copies", "kernel_bytes",
    "launches",  "slow",     "refused",    "peer_copies", "peer_bytes", "unshared"};
ALL_NAMED(struct sn_cuda_stats, gpu_names);
ALL_NAMED(struct sn_counters, nic_names);
ALL_NAMED(struct sn_udp_stats, udp_names);
ALL_NAMED(struct sn_fault_stats, fault_names);
ALL_NAMED(struct sn_pcap_stats, pcap_names);
ALL_NAMED(struct sn_qp_counters, qp_names);

/* ---- the parts ----------------------------------------------------------------------------------------- */

static void control_show_gid_text(const uint8_t gid[16], char text[SN_ADDR_TEXT])
{
    struct sn_addr addr = {.scope = 0};

    memcpy(addr.gid, gid, 16);
    sn_addr_text(&addr, text);
}

static void program(FILE *f)
{
    char name[64] = "";
    FILE *comm = fopen("/proc/self/comm", "re");

    if (comm) {
        if (!fgets(name, sizeof(name), comm)) name[0] = 0;
        fclose(comm);
    }
    name[strcspn(name, "\n")] = 0;
    member(f, "program", name);
}

static void control_show_identity(const struct sn_control_parts *p, FILE *f)
{
    char text[SN_ADDR_TEXT], seed[24];
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    control_show_number(f, "pid", (uint64_t)getpid());
    program(f);
    member(f, "address", sn_addr_text(&p->config->addr, text));
    control_show_number(f, "slot", sn_port_slot(p->port));
    control_show_number(f, "udp_port", sn_port_udp_port(p->port));
    control_show_number(f, "mtu", p->config->mtu);
    member(f, "wire_kind", p->config->eth.on ? "Ethernet" : "UDP");
    truth(f, "port_4791", sn_port_has_rocev2(p->port));
    truth(f, "segmentation", sn_port_segments(p->port));
    member(f, "crc", roce_crc32_impl());
    member(f, "poll", p->config->poll == SN_POLL_BUSY ? "busy" : "adaptive");
    control_show_number(f, "threads", p->config->threads);
    truth(f, "hostile", p->config->hostile);
    snprintf(seed, sizeof(seed), "%llu",
             (unsigned long long)p->config->seed); /* too large a number for some */
    member(f, "seed", seed);
    member(f, "settings", p->settings);
    member(f, "note", sn_port_note(p->port));
    control_show_number(f, "uptime_ms",
                        ((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - p->started) / 1000000u);
}

static void control_show_statistics(const struct sn_control_parts *p, FILE *f)
{
    struct sn_counters nic;
    struct sn_udp_stats udp;
    struct sn_pcap_stats pcap;

    sn_nic_counters(p->nic, &nic);
    sn_port_stats(p->port, &udp);
    counters(f, "counters", &nic, nic_names, COUNT(nic_names));
    counters(f, "wire", &udp, udp_names, COUNT(udp_names));
    if (!sn_port_pcap(p->port)) return;
    sn_pcap_stats(sn_port_pcap(p->port), &pcap);
    member(f, "capture_file", sn_pcap_name(sn_port_pcap(p->port)));
    counters(f, "capture", &pcap, pcap_names, COUNT(pcap_names));
}

/* All of the process's, whichever of its NICs copies. */
static void control_show_gpus(FILE *f)
{
    struct sn_cuda_view v;

    fprintf(f, "\"gpus\": [");
    for (unsigned i = 0; sn_cuda_introspect(i, &v); i++) {
        fprintf(f, "%s{", i ? ", " : "");
        member(f, "copies", v.copies);
        member(f, "peers", v.peers);
        counters(f, "counters", &v.stats, gpu_names, COUNT(gpu_names));
        fprintf(f, "\"gpu\": %d}", v.gpu);
    }
    fprintf(f, "], ");
}

static int faults(const struct sn_control_parts *p, FILE *f)
{
    struct sn_port_faults now;
    char text[SN_FAULTS_TEXT];

    if (sn_introspect_lock(p->nic, LOCK_NS)) return -ETIMEDOUT;
    sn_port_faults(p->port, &now);
    sn_nic_unlock(p->nic);
    member(f, "faults", sn_faults_text(&now.set, text));
    counters(f, "faults_tx", &now.tx, fault_names, COUNT(fault_names));
    counters(f, "faults_rx", &now.rx, fault_names, COUNT(fault_names));
    return 0;
}

static void qp(const struct sn_qp_view *v, FILE *f)
{
    char peer[SN_ADDR_TEXT];

    control_show_gid_text(v->peer_gid, peer);
    fprintf(f, "{");
    control_show_number(f, "number", v->number);
    member(f, "type", sn_qp_type_text(v->type));
    member(f, "state", sn_qp_state_text(v->state));
    control_show_number(f, "peer", v->peer);
    member(f, "peer_address", peer);
    control_show_number(f, "mtu", v->mtu);
    control_show_number(f, "send_cq", v->send_cq);
    control_show_number(f, "recv_cq", v->recv_cq);
    control_show_number(f, "una_psn", v->una_psn);
    control_show_number(f, "next_psn", v->next_psn);
    control_show_number(f, "expected_psn", v->expected_psn);
    control_show_number(f, "posted", v->posted);
    control_show_number(f, "outstanding", v->outstanding);
    control_show_number(f, "reads", v->reads);
    fprintf(f, "\"receives\": %d, ", v->receives);
    control_show_number(f, "window", v->window);
    truth(f, "rnr_wait", v->rnr_wait);
    control_show_number(f, "retries", v->retries);
    control_show_number(f, "rnr_retries", v->rnr_retries);
    control_show_number(f, "srtt_ns", v->srtt_ns);
    counters(f, "counters", &v->count, qp_names, COUNT(qp_names));
    member(f, "report", v->line);
    fprintf(f, "\"syndrome\": %u}", v->syndrome);
}

static int qps(struct sn_nic *nic, uint32_t only, FILE *f)
{
    struct sn_qp_view *views = calloc(SN_SEE_QPS, sizeof(*views));
    uint32_t cursor = 0;
    bool any = false;
    int n = views ? 1 : -ENOMEM;

    fprintf(f, "\"qps\": [");
    while (n > 0 && (n = sn_introspect_qps(nic, &cursor, views, SN_SEE_QPS, LOCK_NS)) > 0) {
        for (int i = 0; i < n; i++) {
            if (only && views[i].number != only) continue;
            fprintf(f, "%s", any ? ", " : "");
            qp(&views[i], f);
            any = true;
        }
    }
    fprintf(f, "], ");
    free(views);
    return n;
}

static int cqs(struct sn_nic *nic, FILE *f)
{
    struct sn_cq_view views[SN_SEE_CQS];
    uint32_t cursor = 0;
    bool any = false;
    int n;

    fprintf(f, "\"cqs\": [");
    while ((n = sn_introspect_cqs(nic, &cursor, views, SN_SEE_CQS, LOCK_NS)) > 0) {
        for (int i = 0; i < n; i++) {
            const struct sn_cq_view *v = &views[i];

            fprintf(f, "%s{", any ? ", " : "");
            control_show_number(f, "number", v->number);
            control_show_number(f, "entries", v->entries);
            control_show_number(f, "entry_size", v->entry_size);
            control_show_number(f, "written", v->written);
            control_show_number(f, "unpolled", v->unpolled);
            truth(f, "armed", v->armed);
            truth(f, "dead", v->dead);
            fprintf(f, "\"events\": %u}", v->events);
            any = true;
        }
    }
    fprintf(f, "], ");
    return n;
}

static int totals(struct sn_nic *nic, FILE *f)
{
    struct sn_totals t;
    int err = sn_introspect_totals(nic, &t, LOCK_NS);

    if (err) return err;
    fprintf(f, "\"objects\": {\"qps\": %u, \"cqs\": %u, \"mrs\": %u, \"mr_bytes\": %llu, \"pds\": %u}, ",
            t.qps, t.cqs, t.mrs, (unsigned long long)t.mr_bytes, t.pds);
    return 0;
}

void sn_control_show(const struct sn_control_parts *p, uint32_t qpn, FILE *f)
{
    int err;

    fprintf(f, "{");
    control_show_identity(p, f);
    control_show_statistics(p, f);
    control_show_gpus(f);
    /* The rest needs the lock. A thread that does not release it in time will hardly do so for the next. */
    err = totals(p->nic, f);
    if (!err) err = faults(p, f);
    if (!err) err = qps(p->nic, qpn, f);
    if (!err) err = cqs(p->nic, f);
    fprintf(f, "\"stuck\": %s}\n", err ? "true" : "false");
}
