/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* ---- values: each reader returns whether it took the whole text
 * --------------------------------------------------- */

static bool read_u64(const char *text, uint64_t *value)
{
    uint64_t v = 0;

    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
    }
    *value = v;
    return true;
}

/* "0.01", "1", ".5" or "1%". Not strtod, whose decimal point depends on the locale. */
static bool read_probability(const char *text, double *value)
{
    double v = 0, scale = 1;
    int digits = 0;

    for (; *text >= '0' && *text <= '9'; text++, digits++) v = v * 10 + (*text - '0');
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, digits++) v += (*text - '0') * (scale /= 10);
    }
    if (*text == '%') {
        v /= 100;
        text++;
    }
    *value = v;
    return !*text && digits && v <= 1;
}

static bool read_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}};
    char number[24];
    size_t len = strspn(text, "0123456789");
    uint64_t factor = 0, v;

    if (len >= sizeof(number)) return false;
    memcpy(number, text, len);
    number[len] = 0;
    if (!text[len]) factor = 1;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text + len, units[i].unit) == 0) factor = units[i].ns;
    }
    if (!factor || !read_u64(number, &v) || v > 1000000000u / factor) return false;
    *ns = v * factor;
    return true;
}

/* ---- keys
 * -----------------------------------------------------------------------------------------------------------
 */

static bool set_addr(struct sn_config *c, const char *v)
{
    c->has_addr = true;
    return sn_addr_parse(v, &c->addr) == 0;
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

    if (!read_u64(v, &n) || n >= CPU_SETSIZE) return false;
    c->cpu = (int)n;
    return true;
}

static bool set_hostile(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!read_u64(v, &n) || n > 1) return false;
    c->hostile = n;
    return true;
}

static bool set_seed(struct sn_config *c, const char *v)
{
    c->has_seed = true;
    return read_u64(v, &c->seed);
}

static bool set_mtu(struct sn_config *c, const char *v)
{
    uint64_t n;

    if (!read_u64(v, &n) || n < 256 || n > 4096 || (n & (n - 1))) return false;
    c->mtu = (uint32_t)n;
    return true;
}

static bool set_loss(struct sn_config *c, const char *v)
{
    return read_probability(v, &c->fault.loss);
}

static bool set_dup(struct sn_config *c, const char *v)
{
    return read_probability(v, &c->fault.dup);
}

static bool set_reorder(struct sn_config *c, const char *v)
{
    return read_probability(v, &c->fault.reorder);
}

static bool set_corrupt(struct sn_config *c, const char *v)
{
    return read_probability(v, &c->fault.corrupt);
}

static bool set_delay(struct sn_config *c, const char *v)
{
    return read_time(v, &c->fault.delay_ns);
}

static const struct {
    const char *name;
    bool (*set)(struct sn_config *, const char *);
    const char *takes;
} keys[] = {
    {"addr", set_addr, "an IPv4 or IPv6 address of this host"},
    {"poll", set_poll, "adaptive or busy"},
    {"cpu", set_cpu, "the number of a CPU"},
    {"hostile", set_hostile, "0 or 1"},
    {"seed", set_seed, "a number"},
    {"mtu", set_mtu, "256, 512, 1024, 2048 or 4096"},
    {"loss", set_loss, "a probability, as in 0.01 or 1%"},
    {"dup", set_dup, "a probability, as in 0.01 or 1%"},
    {"reorder", set_reorder, "a probability, as in 0.01 or 1%"},
    {"corrupt", set_corrupt, "a probability, as in 0.01 or 1%"},
    {"delay", set_delay, "a time up to 1 s, as in 500, 20us or 3ms"},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static int unknown(const char *item, char *why)
{
    int n = snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: unknown key '%.32s'; there are", item);

    for (int i = 0; i < KEYS && n < SN_CONFIG_WHY; i++) {
        n += snprintf(why + n, SN_CONFIG_WHY - (size_t)n, "%s %s", i ? "," : "", keys[i].name);
    }
    return -EINVAL;
}

/* One "key=value". */
static int read_item(char *item, struct sn_config *config, uint32_t *seen, char *why)
{
    char *value = strchr(item, '=');

    if (value) *value++ = 0;
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(item, keys[i].name) != 0) continue;
        if (*seen & 1u << i) {
            snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: %s is given twice; keep one", keys[i].name);
            return -EINVAL;
        }
        *seen |= 1u << i;
        if (value && keys[i].set(config, value)) return 0;
        snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: %s=%.64s: %s takes %s", keys[i].name, value ? value : "",
                 keys[i].name, keys[i].takes);
        return -EINVAL;
    }
    return unknown(item, why);
}

int sn_config_parse(const char *text, struct sn_config *config, char why[SN_CONFIG_WHY])
{
    uint32_t seen = 0;

    memset(config, 0, sizeof(*config));
    config->cpu = -1;
    why[0] = 0;
    while (text && *text) {
        char item[128];
        size_t len = strcspn(text, ",");

        if (len >= sizeof(item)) {
            snprintf(why, SN_CONFIG_WHY, "GPUWIRE_NIC: '%.32s…' is too long to be a setting", text);
            return -EINVAL;
        }
        memcpy(item, text, len);
        item[len] = 0;
        if (read_item(item, config, &seen, why)) return -EINVAL;
        text += len + (text[len] == ',');
    }
    return 0;
}
