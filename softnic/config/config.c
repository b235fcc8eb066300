/* SPDX-License-Identifier: Apache-2.0 */
/* Reads GPUWIRE_NIC: one function for each key. */
#include "softnic/config/config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "softnic/base/values.h"

/* ---- keys ---------------------------------------------------------------------------------------------- */

/* With wire=eth it may say how much of it names the subnet. */
static bool config_set_addr(struct sn_config *c, const char *v)
{
    const char *slash = strchr(v, '/');
    size_t len = slash ? (size_t)(slash - v) : strlen(v);
    char ip[64];

    if (len >= sizeof(ip)) return false;
    memcpy(ip, v, len);
    ip[len] = 0;
    c->has_addr = true;
    if (sn_addr_parse(ip, &c->addr)) return false;
    return !slash || sn_eth_config_prefix(&c->eth, slash + 1, sn_gid_is_ipv4(c->addr.gid));
}

static bool set_wire(struct sn_config *c, const char *v)
{
    c->eth.on = strcmp(v, "eth") == 0;
    return c->eth.on || strcmp(v, "udp") == 0;
}

static bool set_if(struct sn_config *c, const char *v)
{
    return sn_eth_config_set(&c->eth, "if", v);
}

static bool config_set_bind(struct sn_config *c, const char *v)
{
    return sn_eth_config_set(&c->eth, "bind", v);
}

static bool set_peer(struct sn_config *c, const char *v)
{
    return sn_eth_config_set(&c->eth, "peer", v);
}

static bool config_set_mac(struct sn_config *c, const char *v)
{
    return sn_eth_config_set(&c->eth, "mac", v);
}

static bool set_gw(struct sn_config *c, const char *v)
{
    return sn_eth_config_set(&c->eth, "gw", v);
}

static bool set_poll(struct sn_config *c, const char *v)
{
    if (strcmp(v, "busy") != 0 && strcmp(v, "adaptive") != 0) return false;
    c->poll = *v == 'b' ? SN_POLL_BUSY : SN_POLL_ADAPTIVE;
    return true;
}

static bool set_cpu(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n >= CPU_SETSIZE) return false;
    c->cpu = (int)n;
    return true;
}

static bool set_threads(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n < 1 || n > SN_MAX_THREADS) return false;
    c->threads = (unsigned)n;
    return true;
}

static bool set_hostile(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n > 2) return false;
    c->hostile = n;
    c->overtake = n == 2;
    return true;
}

static bool config_set_seed(struct sn_config *c, const char *v)
{
    c->has_seed = true;
    return sn_read_u64(v, &c->seed);
}

static bool set_local(struct sn_config *c, const char *v)
{
    static const char *const names[] = {
        [SN_LOCAL_CMA] = "cma", [SN_LOCAL_RING] = "ring", [SN_LOCAL_OFF] = "off"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(v, names[i]) != 0) continue;
        c->local = (enum sn_local_way)i;
        return true;
    }
    return false;
}

static bool set_gso(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n > 1) return false;
    c->no_gso = !n;
    return true;
}

static bool set_ecn(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n > 1) return false;
    c->no_ecn = !n;
    return true;
}

static bool set_memlock(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n > 1) return false;
    c->memlock = n;
    return true;
}

static bool set_gids(struct sn_config *c, const char *v)
{
    return sn_tables_gids(&c->tables, v);
}

static bool set_pkeys(struct sn_config *c, const char *v)
{
    return sn_tables_pkeys(&c->tables, v);
}

static bool set_gpucopy(struct sn_config *c, const char *v)
{
    c->no_copy_kernel = !strcmp(v, "engine");
    return c->no_copy_kernel || !strcmp(v, "kernel");
}

static bool set_ring(struct sn_config *c, const char *v)
{
    c->by_index = !strcmp(v, "index");
    return c->by_index || !strcmp(v, "record");
}

static bool set_atomics(struct sn_config *c, const char *v)
{
    c->no_atomics = !strcmp(v, "none");
    c->no_masked = c->no_atomics || !strcmp(v, "ib");
    return c->no_masked || !strcmp(v, "masked");
}

static bool set_lost(bool *lost, const char *v)
{
    *lost = !strcmp(v, "lost");
    return *lost || !strcmp(v, "kept");
}

static bool set_gpurings(struct sn_config *c, const char *v)
{
    return set_lost(&c->rings_lost, v);
}

static bool set_gpudma(struct sn_config *c, const char *v)
{
    return set_lost(&c->dma_lost, v);
}

static bool set_gpuorder(struct sn_config *c, const char *v)
{
    c->disordered = !strcmp(v, "none");
    return c->disordered || !strcmp(v, "promised");
}

static bool config_set_mtu(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n < 256 || n > 4096 || (n & (n - 1))) return false;
    c->mtu = (uint32_t)n;
    return true;
}

static bool set_pcap(struct sn_config *c, const char *v)
{
    return *v && snprintf(c->pcap, sizeof(c->pcap), "%s", v) < (int)sizeof(c->pcap);
}

static bool set_pcap_max(struct sn_config *c, const char *v)
{
    return sn_read_size(v, 1024, &c->pcap_max) && c->pcap_max >= SN_PCAP_MIN;
}

static bool set_verbose(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!sn_read_u64(v, &n) || n > 2) return false;
    c->verbose = (int)n;
    return true;
}

static const struct {
    const char *name;
    bool (*set)(struct sn_config *, const char *);
    const char *takes;
} keys[] = {
    {"addr", config_set_addr, "an IPv4 or IPv6 address of this host"},
    {"poll", set_poll, "adaptive or busy"},
    {"cpu", set_cpu, "the number of a CPU"},
    {"threads", set_threads, "a number from 1 to 16"},
    {"hostile", set_hostile, "0, 1 or 2"},
    {"seed", config_set_seed, "a number"},
    {"mtu", config_set_mtu, "256, 512, 1024, 2048 or 4096"},
    {"pcap", set_pcap, "the name of a file, in which %p becomes the process's number"},
    {"pcap_max", set_pcap_max, "a size from 64k on, as in 500M or 2G"},
    {"verbose", set_verbose, "0, 1 or 2"},
    {"gso", set_gso, "0 or 1"},
    {"ecn", set_ecn, "0 or 1"},
    {"gpucopy", set_gpucopy, "kernel or engine"},
    {"ring", set_ring, "record or index"},
    {"atomics", set_atomics, "masked, ib or none"},
    {"gpurings", set_gpurings, "kept or lost"},
    {"gpudma", set_gpudma, "kept or lost"},
    {"gpuorder", set_gpuorder, "promised or none"},
    {"wire", set_wire, "udp or eth"},
    {"if", set_if, "the name of an interface"},
    {"bind", config_set_bind, "IPv4:PORT"},
    {"peer", set_peer, "IPv4:PORT"},
    {"mac", config_set_mac, "a station's MAC address, as in 02:00:00:00:00:01"},
    {"gw", set_gw, "an IPv4 or IPv6 address"},
    {"local", set_local, "cma, ring or off"},
    {"memlock", set_memlock, "0 or 1"},
    {"gids", set_gids, "own, once, zero and [v1:]IP[%IFACE], up to 16 with slashes between them"},
    {"pkeys", set_pkeys, "up to 8 hexadecimal numbers from 1 to ffff, with slashes between them"},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static int config_unknown(const char *item, char *why)
{
    int n = snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: unknown key '%.32s'; there are", item);

    for (int i = 0; i < KEYS && n < SN_CONFIG_WHY; i++) {
        n += snprintf(why + n, SN_CONFIG_WHY - (size_t)n, "%s %s", i ? "," : "", keys[i].name);
    }
    if (n < SN_CONFIG_WHY) snprintf(why + n, SN_CONFIG_WHY - (size_t)n, ", %s", sn_faults_keys());
    return -EINVAL;
}

static int twice(const char *key, char *why)
{
    snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: %.64s is given twice; keep one", key);
    return -EINVAL;
}

static int not_such(const char *key, const char *value, const char *takes, char *why)
{
    snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: %.64s=%.64s: %.64s takes %s", key, value ? value : "", key,
             takes);
    return -EINVAL;
}

static int read_fault(const char *key, const char *value, struct sn_config *config, char *why)
{
    switch (sn_faults_set(&config->fault, key, value ? value : "")) {
    case 0: return 0;
    case -ENOENT: return config_unknown(key, why);
    case -EEXIST: return twice(key, why);
    default: return not_such(key, value, sn_faults_takes(key), why);
    }
}

/* One "key=value". */
static int config_read_item(char *item, struct sn_config *config, uint32_t *seen, char *why)
{
    char *value = strchr(item, '=');

    if (value) *value++ = 0;
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(item, keys[i].name) != 0) continue;
        if (*seen & 1u << i) return twice(keys[i].name, why);
        *seen |= 1u << i;
        return value && keys[i].set(config, value) ? 0 : not_such(keys[i].name, value, keys[i].takes, why);
    }
    return read_fault(item, value, config, why);
}

int sn_config_parse(const char *text, struct sn_config *config, char why[SN_CONFIG_WHY])
{
    uint32_t seen = 0;

    memset(config, 0, sizeof(*config));
    config->cpu = -1;
    config->threads = 1;
    config->verbose = 1;
    sn_tables_default(&config->tables);
    why[0] = 0;
    while (text && *text) {
        char item[SN_CONFIG_PCAP + 16];
        size_t len = strcspn(text, ",");

        if (len >= sizeof(item)) {
            snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: '%.32s…' is too long to be a setting", text);
            return -EINVAL;
        }
        memcpy(item, text, len);
        item[len] = 0;
        if (config_read_item(item, config, &seen, why)) return -EINVAL;
        text += len + (text[len] == ',');
    }
    if (!sn_eth_config_check(&config->eth, config->has_addr ? &config->addr : NULL, why, SN_CONFIG_WHY))
        return -EINVAL;
    if (config->eth.on && config->threads > 1) {
        snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: threads=%u: wire=eth has one thread; leave threads out",
                 config->threads);
        return -EINVAL;
    }
    return 0;
}

/* ---- several NICs ---- */

/* The text of one NIC; NULL when there are fewer. */
static const char *section(const char *text, unsigned index, size_t *len)
{
    if (!text) text = "";
    for (; index; index--) {
        text += strcspn(text, ";");
        if (!*text++) return NULL;
    }
    *len = strcspn(text, ";");
    return text;
}

int sn_config_nth(const char *text, unsigned index, struct sn_config *config, char why[SN_CONFIG_WHY])
{
    char part[SN_CONFIG_TEXT];
    size_t len;
    const char *at = section(text, index, &len);

    if (!at || len >= sizeof(part)) {
        snprintf(why, SN_CONFIG_WHY,
                 at ? "GPUWIRE_NIC: the settings of NIC %u are longer than %d characters"
                    : "GPUWIRE_NIC: there is no NIC %u",
                 index, SN_CONFIG_TEXT - 1);
        return -EINVAL;
    }
    memcpy(part, at, len);
    part[len] = 0;
    return sn_config_parse(part, config, why);
}

int sn_config_count(const char *text, char why[SN_CONFIG_WHY])
{
    struct sn_config config;
    size_t len;
    int n = 0;

    why[0] = 0;
    while (section(text, (unsigned)n, &len)) {
        if (n == SN_MAX_NICS) {
            snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: more than %d NICs; give fewer between semicolons",
                     SN_MAX_NICS);
            return -EINVAL;
        }
        if (sn_config_nth(text, (unsigned)n++, &config, why)) return -EINVAL;
    }
    return n;
}
