/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the port's counters into the files that programs read. */
#include "softnic/attach/counters.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/nic/nic.h"
#include "softnic/runtime/process.h"
#include "softnic/sysfs/tree.h"

#define FOLDER_BYTES 160

/* The port's folder in a path that leads to it or into it, and the NIC's number; false: the path leads
 * elsewhere. */
static bool find_port(const char *path, char folder[FOLDER_BYTES], unsigned *index)
{
    const char *name = strstr(path, "/mlx5_"), *port = name ? strstr(name, "/ports/1") : NULL;
    size_t len = port ? (size_t)(port - path) + strlen("/ports/1") : 0;

    if (!len || len >= FOLDER_BYTES || (path[len] && path[len] != '/')) return false;
    snprintf(folder, FOLDER_BYTES, "%.*s", (int)len, path);
    *index = (unsigned)strtoul(name + strlen("/mlx5_"), NULL, 10);
    return *index < SN_MAX_NICS;
}

static void counters_put(const char *folder, const char *name, uint64_t value)
{
    char path[FOLDER_BYTES + 64], text[24];

    snprintf(path, sizeof(path), "%s/%s", folder + (folder[0] == '/'), name);
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
    sn_tree_put(path, text); /* a full disk: the old number stays */
}

static void put_port(const char *folder, const struct sn_counters *n, const struct sn_udp_stats *wire)
{
    static const char *const never[] = {"VL15_dropped",
                                        "excessive_buffer_overrun_errors",
                                        "link_downed",
                                        "link_error_recovery",
                                        "local_link_integrity_errors",
                                        "multicast_rcv_packets",
                                        "multicast_xmit_packets",
                                        "port_rcv_constraint_errors",
                                        "port_rcv_remote_physical_errors",
                                        "port_rcv_switch_relay_errors",
                                        "port_xmit_constraint_errors",
                                        "symbol_error"};
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {
        {"port_xmit_data", n->tx_bytes / 4}, /* by tradition in words of four bytes */
        {"port_rcv_data", n->rx_bytes / 4},
        {"port_xmit_packets", n->tx_packets},
        {"port_rcv_packets", n->rx_packets},
        {"unicast_xmit_packets", n->tx_packets},
        {"unicast_rcv_packets", n->rx_packets},
        {"port_xmit_wait", wire->tx_waits},
        {"port_xmit_discards", wire->tx_errors},
        {"port_rcv_errors", n->drop_malformed + n->drop_icrc + wire->rx_dropped},
    };
    char name[64];

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        snprintf(name, sizeof(name), "counters/%s", counters[i].name);
        counters_put(folder, name, counters[i].value);
    }
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        snprintf(name, sizeof(name), "counters/%s", never[i]);
        counters_put(folder, name, 0);
    }
}

static void put_hw(const char *folder, const struct sn_counters *n)
{
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {
        {"duplicate_request", n->duplicates},
        {"local_ack_timeout_err", n->timeouts},
        {"np_cnp_sent", n->cnp_sent},
        {"np_ecn_marked_roce_packets", n->ecn_marked},
        {"out_of_buffer", n->rnr_sent + n->drop_no_recv},
        {"out_of_sequence", n->naks_seq_sent},
        {"packet_seq_err", n->naks_received},
        {"resp_remote_access_errors", n->naks_access_sent},
        {"rnr_nak_retry_err", n->rnr_received},
        {"rp_cnp_handled", n->cnp_received},
        {"rx_icrc_encapsulated", n->drop_icrc},
    };
    char name[64];

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        snprintf(name, sizeof(name), "hw_counters/%s", counters[i].name);
        counters_put(folder, name, counters[i].value);
    }
}

/* A NIC that this process has not opened has counted nothing. */
void sn_counters_refresh(const char *path)
{
    struct sn_process_info info;
    char folder[FOLDER_BYTES];
    unsigned index;

    if (!find_port(path, folder, &index)) return;
    const char *rest = path + strlen(folder);
    if (*rest && strncmp(rest, "/counters", 9) && strncmp(rest, "/hw_counters", 12)) return;
    if (sn_process_nic_info(index, &info)) memset(&info, 0, sizeof(info));
    put_port(folder, &info.nic, &info.wire);
    put_hw(folder, &info.nic);
}
