/* SPDX-License-Identifier: Apache-2.0 */
/* A table of keepalived's words that mean nothing here, and where they may stand. */
#include "src/balance/control/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Where a word stands. */
enum {
    AT_TOP = 1,     /* outside of all blocks, or in global_defs: keepalived has moved some between them */
    AT_SERVICE = 2, /* virtual_server */
    AT_WORKER = 4,  /* real_server */
    AT_CHECK = 8,   /* TCP_CHECK, url and the like */
    AT_GROUP = 16,  /* virtual_server_group */
};

struct foreign {
    const char *word; /* a * at its end stands for any rest */
    unsigned where;
    const char *why; /* NULL: ignored */
};

#define NOT_THAT_CHECK "the balancer has no such check; use TCP_CHECK, UDP_CHECK or MISC_CHECK"
#define NO_MATCHING    "the balancer does not search in answers; use status_code or digest"
#define NO_MARK        "the balancer sees no firewall marks; name the addresses and ports"
#define NO_LIMIT       "the balancer does not limit connections of a worker; remove it, or use lb_algo lc"
#define NO_SCRIPTED                                                                                          \
    "no such parameter is defined in one line above, and there are no sequences and lists; write it out"

static const struct foreign words[] = {
    {"SMTP_CHECK", AT_WORKER | AT_SERVICE, NOT_THAT_CHECK},
    {"DNS_CHECK", AT_WORKER | AT_SERVICE, NOT_THAT_CHECK},
    {"BFD_CHECK", AT_WORKER | AT_SERVICE, NOT_THAT_CHECK},
    {"PING_CHECK", AT_WORKER | AT_SERVICE, NOT_THAT_CHECK},
    {"FILE_CHECK", AT_WORKER | AT_SERVICE, NOT_THAT_CHECK},
    /* mail, SNMP, scripts that are told, keepalived's own processes */
    {"notification_email*", AT_TOP, NULL},
    {"smtp_*", AT_TOP | AT_SERVICE | AT_WORKER, NULL},
    {"router_id", AT_TOP, NULL},
    {"lvs_*", AT_TOP, NULL},
    {"snmp_*", AT_TOP | AT_SERVICE | AT_WORKER, NULL},
    {"enable_*", AT_TOP, NULL},
    {"dbus_*", AT_TOP, NULL},
    {"notify*", AT_TOP | AT_WORKER, NULL},
    {"*_script", AT_TOP, NULL},
    {"*_script_timeout", AT_TOP, NULL},
    {"no_email_faults", AT_TOP, NULL},
    {"no_checker_emails", AT_TOP, NULL},
    {"checker_*", AT_TOP, NULL},
    {"process_*", AT_TOP, NULL},
    {"child_wait_time", AT_TOP, NULL},
    {"use_*", AT_TOP, NULL},
    {"reload_*", AT_TOP, NULL},
    {"include_check", AT_TOP, NULL},
    {"config_*", AT_TOP, NULL},
    {"data_use_instance", AT_TOP, NULL},
    {"*_dump_file", AT_TOP, NULL},
    {"json_*", AT_TOP, NULL},
    {"tmp_config_directory", AT_TOP, NULL},
    {"random_seed", AT_TOP, NULL},
    {"umask", AT_TOP, NULL},
    {"debug", AT_TOP, NULL},
    {"full_command", AT_TOP, NULL},
    {"fork_delay", AT_TOP, NULL},
    {"terminate_delay", AT_TOP, NULL},
    {"*timer_expired*", AT_TOP, NULL},
    {"rs_init_notifies", AT_TOP, NULL},
    {"instance", AT_TOP, NULL},
    /* VRRP, addresses and routes: keepalived beside the balancer goes on to care for them */
    {"vrrp_*", AT_TOP, NULL},
    {"static_*", AT_TOP, NULL},
    {"track_*", AT_TOP, NULL},
    {"bfd_*", AT_TOP, NULL},
    {"garp_*", AT_TOP, NULL},
    {"gna_*", AT_TOP, NULL},
    {"linkbeat_*", AT_TOP, NULL},
    {"interface_up_down_delays", AT_TOP, NULL},
    {"dynamic_interfaces", AT_TOP, NULL},
    {"default_interface", AT_TOP, NULL},
    {"max_auto_priority", AT_TOP, NULL},
    {"min_auto_priority_delay", AT_TOP, NULL},
    {"disable_local_igmp", AT_TOP, NULL},
    {"log_unknown_vrids", AT_TOP, NULL},
    {"old_unicast_checksum", AT_TOP, NULL},
    {"fifo_write_vrrp_states_on_reload", AT_TOP, NULL},
    {"promote_secondaries", AT_TOP, NULL},
    {"iproute_*", AT_TOP, NULL},
    {"net_namespace*", AT_TOP, NULL},
    {"namespace_with_ipsets", AT_TOP, NULL},
    {"nftables*", AT_TOP, NULL},
    /* of services and workers */
    {"ha_suspend", AT_SERVICE, NULL},
    {"alpha", AT_SERVICE | AT_WORKER | AT_CHECK, NULL}, /* workers begin as down anyway */
    {"omega", AT_SERVICE, NULL},
    {"warmup", AT_SERVICE | AT_WORKER | AT_CHECK, NULL},
    {"hysteresis", AT_SERVICE, NULL},
    {"sorry_server_inhibit", AT_SERVICE, NULL},
    {"quorum_up", AT_SERVICE, NULL},
    {"quorum_down", AT_SERVICE, NULL},
    {"nat_mask", AT_SERVICE, NULL},
    {"ip_family", AT_SERVICE, NULL},
    {"sh-fallback", AT_SERVICE, NULL}, /* sh and mh choose among those that are up */
    {"mh-fallback", AT_SERVICE, NULL},
    {"mh-port", AT_SERVICE, NULL}, /* mh looks at the port */
    {"log_all_failures", AT_CHECK, NULL},
    {"enable_sni", AT_CHECK, NULL}, /* virtualhost is said to TLS anyway */
    {"fast_recovery", AT_CHECK, NULL},
    {"http_protocol", AT_CHECK, NULL},
    {"tls_compliant", AT_CHECK, NULL},
    /* what would have a meaning */
    {"sh-port", AT_SERVICE, "sh looks at the client's address alone; use lb_algo mh"},
    {"flag-*", AT_SERVICE, "name the flag: sh-fallback, mh-fallback or mh-port; or remove it"},
    {"ops", AT_SERVICE, "datagrams of one client and port stay together here; remove it"},
    {"persistence_engine", AT_SERVICE, "the balancer looks at no SIP; remove it, clients stick by address"},
    {"uthreshold", AT_WORKER, NO_LIMIT},
    {"lthreshold", AT_WORKER, NO_LIMIT},
    {"regex*", AT_CHECK, NO_MATCHING},
    {"fwmark", AT_CHECK | AT_GROUP, NO_MARK},
    {"sni_name", AT_CHECK, "the name that TLS is asked for is the virtualhost's; give virtualhost"},
    {"bind_port", AT_CHECK, "checks come from any port; remove it"},
    {"bind_if", AT_CHECK, "the routes of the host choose the interface; remove it"},
    {"SSL", AT_TOP, "checks by SSL_GET bring no certificate of their own, and verify none; remove the block"},
    {"$*", AT_TOP | AT_SERVICE | AT_WORKER | AT_CHECK | AT_GROUP, NO_SCRIPTED},
    {"~*", AT_TOP | AT_SERVICE | AT_WORKER | AT_CHECK | AT_GROUP, NO_SCRIPTED},
};

static unsigned where_is(const char *block)
{
    if (!block || !strcmp(block, "global_defs")) return AT_TOP;
    if (!strcmp(block, "virtual_server")) return AT_SERVICE;
    if (!strcmp(block, "real_server")) return AT_WORKER;
    if (!strcmp(block, "virtual_server_group")) return AT_GROUP;
    static const char *const checks[] = {"TCP_CHECK", "HTTP_GET",  "SSL_GET",
                                         "url",       "UDP_CHECK", "MISC_CHECK"};
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (!strcmp(block, checks[i])) return AT_CHECK;
    return 0;
}

/* `pattern` may have a * at each end. */
static bool is_like(const char *word, const char *pattern)
{
    char core[40];
    size_t n = strlen(pattern), m = strlen(word);
    int head = pattern[0] == '*', tail = pattern[n - 1] == '*';
    n -= (size_t)(head + tail);
    memcpy(core, pattern + head, n);
    core[n] = 0;
    if (head && tail) return strcasestr(word, core) != NULL;
    if (m < n || (!head && !tail && m != n)) return false;
    return !strncasecmp(head ? word + m - n : word, core, n);
}

const char *gw_bal_foreign(const char *block, const char *word)
{
    unsigned where = where_is(block);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].where & where && is_like(word, words[i].word)) return words[i].why ? words[i].why : "";
    return NULL;
}
