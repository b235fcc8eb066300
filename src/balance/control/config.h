/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file of `gpuwire balance`: keepalived's virtual_server and real_server, with what this
 * balancer has besides. docs/balance.md describes it. */
#ifndef GW_BALANCE_CONTROL_CONFIG_H
#define GW_BALANCE_CONTROL_CONFIG_H

#include <stddef.h>

#include "src/balance/control/model.h"
#include "src/balance/control/report.h"

#define GW_BAL_PORTS 8u /* network ports of the data plane */
#define GW_BAL_TEXT  256
#define GW_BAL_MAX   (1u << 24) /* bytes of a file, with those that it includes */
#define GW_BAL_API   9091
#define GW_BAL_CORES 64u

/* One network port. */
struct gw_bal_port {
    char interface[64];                    /* of the kernel's; or */
    char device[GW_BAL_TEXT];              /* DPDK's name and arguments, or a PCI address */
    char driver[16];                       /* of an interface: af_packet (the default), af_xdp or tap */
    struct gw_bal_addr address4, address6; /* its own: ARP, ND, tunnels; family 0: none */
    uint8_t prefix4, prefix6;
    struct gw_bal_addr gateway4, gateway6;
    uint16_t vlan, mtu; /* 0: none; 1500 */
};

/* How long flows live after their last packet, as bal_timeouts has them. */
enum {
    GW_BAL_T_SYN,
    GW_BAL_T_ESTABLISHED,
    GW_BAL_T_FIN,
    GW_BAL_T_CLOSE,
    GW_BAL_T_UDP,
    GW_BAL_T_UDP_STREAM,
    GW_BAL_T_QP,
    GW_BAL_TIMEOUTS
};

struct gw_bal_global {
    char api_host[GW_BAL_ADDR];
    uint16_t api_port;
    char token_file[GW_BAL_TEXT], tls_cert[GW_BAL_TEXT], tls_key[GW_BAL_TEXT];
    char run_dir[GW_BAL_TEXT];
    struct gw_bal_port port[GW_BAL_PORTS];
    unsigned ports;
    uint16_t core[GW_BAL_CORES];
    unsigned cores;
    uint8_t huge_pages;
    uint8_t vrrp;                         /* the kernel answers for VIPs, while it has them */
    uint8_t reject;                       /* tell clients that nothing can serve; by default */
    uint64_t flows, wide_flows;           /* of each core's tables; 0: the data plane's choice */
    uint64_t timeout_ns[GW_BAL_TIMEOUTS]; /* 0: the data plane's choice */
    /* The standby: where flows are sent to, or where they come in from. */
    struct gw_bal_addr standby, listen;
    uint16_t standby_port, listen_port;
    char sync_key_file[GW_BAL_TEXT];
    char seed_file[GW_BAL_TEXT]; /* seed.h */
    uint64_t maglev_seed;        /* that comes of it; the data plane sets it */
};

struct gw_bal_config {
    struct gw_bal_global global;
    struct gw_bal_model model; /* as the file says; nothing is up yet */
    struct gw_bal_report report;
};

void gw_bal_config_default(struct gw_bal_config *c);
/* Fills *c, which the caller frees in any case. A negative errno: the report has "FILE:LINE: what, and what
 * to do" for each mistake, and gw_last_error() the first. `text` may not include files. */
int gw_bal_config_parse(const char *file, char *text, struct gw_bal_config *c);
int gw_bal_config_read(const char *file, struct gw_bal_config *c);
/* Prints what was found in a file: mistakes to stderr, notes to stdout. Returns `err`, for which
 * gw_last_error() then counts the mistakes. */
int gw_bal_config_say(const char *file, const struct gw_bal_config *c, int err);
void gw_bal_config_free(struct gw_bal_config *c);

/* The model as a file that reads back into the same model; the caller frees it. NULL: no memory. */
char *gw_bal_config_write(const struct gw_bal_model *m);

#endif
