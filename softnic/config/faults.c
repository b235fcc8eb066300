/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and prints the keys that make the network unkind. */
#include "softnic/config/faults.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "softnic/base/values.h"

#define DELAY_MAX UINT64_C(1000000000)
#define DOWN_MAX  (UINT64_C(1000000000) * 86400)

/* ---- keys ---------------------------------------------------------------------------------------------- */

static bool set_loss(struct sn_fault_params *p, const char *v)
{
    return sn_read_probability(v, &p->loss);
}

static bool set_dup(struct sn_fault_params *p, const char *v)
{
    return sn_read_probability(v, &p->dup);
}

static bool set_reorder(struct sn_fault_params *p, const char *v)
{
    return sn_read_probability(v, &p->reorder);
}

static bool set_corrupt(struct sn_fault_params *p, const char *v)
{
    return sn_read_probability(v, &p->corrupt);
}

static bool set_delay(struct sn_fault_params *p, const char *v)
{
    return sn_read_time(v, DELAY_MAX, &p->delay_ns);
}

static bool set_jitter(struct sn_fault_params *p, const char *v)
{
    return sn_read_time(v, DELAY_MAX, &p->jitter_ns);
}

static bool set_rate(struct sn_fault_params *p, const char *v)
{
    return sn_read_size(v, 1000, &p->rate) && p->rate >= 1000;
}

/* "2s+500ms" or "2s". */
static bool read_down(char *text, struct sn_fault_down *d)
{
    char *plus = strchr(text, '+');
    uint64_t length;

    if (plus) *plus = 0;
    if (!sn_read_time(text, DOWN_MAX, &d->from)) return false;
    d->until = UINT64_MAX;
    if (!plus) return true;
    if (!sn_read_time(plus + 1, DOWN_MAX, &length) || !length) return false;
    d->until = d->from + length;
    return true;
}

static bool set_down(struct sn_fault_params *p, const char *v)
{
    char text[128], *rest = text, *one;

    if (!*v || strlen(v) >= sizeof(text)) return false;
    strcpy(text, v);
    for (p->downs = 0; (one = strsep(&rest, "/"));) {
        if (p->downs == SN_FAULT_DOWNS || !read_down(one, &p->down[p->downs])) return false;
        p->downs++;
    }
    return true;
}

#define PROBABILITY "a probability, as in 0.01 or 1%"
#define DELAY       "a time up to 1 s, as in 500, 20us or 3ms"
static const struct key {
    const char *name;
    bool (*set)(struct sn_fault_params *, const char *);
    const char *takes;
} keys[] = {
    {"loss", set_loss, PROBABILITY},
    {"dup", set_dup, PROBABILITY},
    {"reorder", set_reorder, PROBABILITY},
    {"corrupt", set_corrupt, PROBABILITY},
    {"delay", set_delay, DELAY},
    {"jitter", set_jitter, DELAY},
    {"rate", set_rate, "bits a second from 1k on, as in 500k, 100M or 2G"},
    {"down", set_down, "up to 4 periods FROM+LENGTH, as in 2s+500ms or 1s+1s/5s+1s; without length: forever"},
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]), TX = 1, RX = 2 };

const char *sn_faults_keys(void)
{
    return "loss, dup, reorder, corrupt, delay, jitter, rate, down (also as tx.loss, rx.loss, …)";
}

/* The key that a name means and the directions it is about; NULL: none. */
static const struct key *faults_find(const char *name, int *directions)
{
    *directions = strncmp(name, "tx.", 3) == 0 ? TX : strncmp(name, "rx.", 3) == 0 ? RX : 0;
    if (*directions) name += 3;
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0) continue;
        if (!*directions) *directions = keys[i].set == set_down ? TX | RX : TX;
        return &keys[i];
    }
    return NULL;
}

const char *sn_faults_takes(const char *name)
{
    int directions;
    const struct key *key = faults_find(name, &directions);

    return key ? key->takes : NULL;
}

int sn_faults_set(struct sn_faults *f, const char *name, const char *value)
{
    int directions;
    const struct key *key = faults_find(name, &directions);
    uint32_t bits;

    if (!key) return -ENOENT;
    bits = (uint32_t)directions << 2 * (key - keys);
    if (f->given & bits) return -EEXIST;
    f->given |= bits;
    if ((directions & TX) && !key->set(&f->tx, value)) return -EINVAL;
    if ((directions & RX) && !key->set(&f->rx, value)) return -EINVAL;
    return 0;
}

/* ---- lists --------------------------------------------------------------------------------------------- */

static int faults_wrong(char why[256], const char *format, ...) __attribute__((format(printf, 2, 3)));
static int faults_wrong(char why[256], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, 256, format, args);
    va_end(args);
    return -EINVAL;
}

static int faults_read_item(char *item, struct sn_faults *f, uint64_t *seed, bool *has_seed, char why[256])
{
    char *value = strchr(item, '=');
    int err;

    if (value) *value++ = 0;
    if (strcmp(item, "seed") == 0) {
        if (*has_seed) return faults_wrong(why, "seed is given twice; keep one");
        *has_seed = true;
        return value && sn_read_u64(value, seed) ? 0 : faults_wrong(why, "seed takes a number");
    }
    err = sn_faults_set(f, item, value ? value : "");
    if (err == -ENOENT)
        return faults_wrong(why, "unknown fault '%.32s'; there are %s, seed", item, sn_faults_keys());
    if (err == -EEXIST) return faults_wrong(why, "%s is given twice; keep one", item);
    if (err)
        return faults_wrong(why, "%s=%.64s: %s takes %s", item, value ? value : "", item,
                            sn_faults_takes(item));
    return 0;
}

int sn_faults_parse(const char *text, struct sn_faults *f, uint64_t *seed, bool *has_seed, char why[256])
{
    char copy[SN_FAULTS_TEXT], *rest = copy, *item;

    memset(f, 0, sizeof(*f));
    *has_seed = false;
    why[0] = 0;
    if (strcmp(text, "none") == 0) return 0;
    if (strlen(text) >= sizeof(copy))
        return faults_wrong(why, "'%.32s…' is too long for a list of faults", text);
    strcpy(copy, text);
    while ((item = strsep(&rest, ","))) {
        if (faults_read_item(item, f, seed, has_seed, why)) return -EINVAL;
    }
    return 0;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

struct out {
    char *buf;
    size_t at;
};

static void faults_add(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void faults_add(struct out *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (o->at < SN_FAULTS_TEXT)
        o->at += (size_t)vsnprintf(o->buf + o->at, SN_FAULTS_TEXT - o->at, format, args);
    va_end(args);
}

/* In thousandths of a thousandth of a percent: as fine as anybody can want, and the same in every locale. */
static void add_probability(struct out *o, const char *dir, const char *key, double p)
{
    unsigned long long parts = (unsigned long long)(p * 1e9 + 0.5);
    char digits[32];
    size_t n;

    if (p <= 0) return;
    snprintf(digits, sizeof(digits), "%llu.%09llu", parts / 1000000000, parts % 1000000000);
    for (n = strlen(digits); digits[n - 1] == '0'; n--) digits[n - 1] = 0;
    if (digits[n - 1] == '.') digits[n - 1] = 0;
    faults_add(o, "%s%s.%s=%s", o->at ? "," : "", dir, key, digits);
}

static void add_time(struct out *o, const char *dir, const char *key, uint64_t ns)
{
    char text[32];

    if (ns) faults_add(o, "%s%s.%s=%s", o->at ? "," : "", dir, key, sn_time_text(ns, text, sizeof(text)));
}

static void add_downs(struct out *o, const char *dir, const struct sn_fault_params *p)
{
    char text[32];

    for (unsigned i = 0; i < p->downs; i++) {
        const struct sn_fault_down *d = &p->down[i];

        if (i)
            faults_add(o, "/");
        else
            faults_add(o, "%s%s.down=", o->at ? "," : "", dir);
        faults_add(o, "%s", sn_time_text(d->from, text, sizeof(text)));
        if (d->until != UINT64_MAX)
            faults_add(o, "+%s", sn_time_text(d->until - d->from, text, sizeof(text)));
    }
}

static void add_params(struct out *o, const char *dir, const struct sn_fault_params *p)
{
    add_probability(o, dir, "loss", p->loss);
    add_probability(o, dir, "dup", p->dup);
    add_probability(o, dir, "reorder", p->reorder);
    add_probability(o, dir, "corrupt", p->corrupt);
    add_time(o, dir, "delay", p->delay_ns);
    add_time(o, dir, "jitter", p->jitter_ns);
    if (p->rate) faults_add(o, "%s%s.rate=%llu", o->at ? "," : "", dir, (unsigned long long)p->rate);
    add_downs(o, dir, p);
}

const char *sn_faults_text(const struct sn_faults *f, char buf[SN_FAULTS_TEXT])
{
    struct out o = {buf, 0};

    add_params(&o, "tx", &f->tx);
    add_params(&o, "rx", &f->rx);
    if (!o.at) snprintf(buf, SN_FAULTS_TEXT, "none");
    return buf;
}
