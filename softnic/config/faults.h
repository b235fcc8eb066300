/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h: how unkind the network is to be, as text and as numbers. What does it is wire/fault.h.
 *
 *     `loss=P` `dup=P` `reorder=P` `corrupt=P`  Probabilities from 0 to 1, or 0% to 100%, per frame.
 *     `delay=T` `jitter=T`  Every frame is later by `delay`, and by a random time up to `jitter`.
 *     `rate=N`              Bits a second that the link carries (k, M, G), a frame as on Ethernet.
 *     `down=FROM[+LENGTH][/FROM+LENGTH…]`  The link is down from FROM on, for LENGTH or forever.
 *
 * With tx. or rx. before it a key is about one direction. Without, it is about what is sent; down is about
 * both. Times of `down` count from when it was set: the NIC's start, or now for a change of a live one.
 */
#ifndef SOFTNIC_CONFIG_FAULTS_H
#define SOFTNIC_CONFIG_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_FAULT_DOWNS = 4 };

struct sn_fault_down {
    uint64_t from, until; /* nanoseconds since it was set; until UINT64_MAX: forever */
};

struct sn_fault_params {
    double loss, dup, reorder, corrupt; /* 0 to 1, per frame and independent of each other */
    uint64_t delay_ns, jitter_ns;
    uint64_t rate; /* bits a second; 0: no limit */
    unsigned downs;
    struct sn_fault_down down[SN_FAULT_DOWNS];
};

struct sn_faults {
    struct sn_fault_params tx, rx;
    uint32_t given; /* which keys were set, so that none is given twice */
};

static inline bool sn_fault_any(const struct sn_fault_params *p)
{
    return p->loss > 0 || p->dup > 0 || p->reorder > 0 || p->corrupt > 0 || p->delay_ns || p->jitter_ns ||
           p->rate || p->downs;
}

static inline bool sn_faults_any(const struct sn_faults *f)
{
    return sn_fault_any(&f->tx) || sn_fault_any(&f->rx);
}

/* Sets one key. 0; -ENOENT: no such key; -EEXIST: it was given before; -EINVAL: not such a value. */
int sn_faults_set(struct sn_faults *f, const char *key, const char *value);
/* The values that a key accepts, in words; NULL: no such key. */
const char *sn_faults_takes(const char *key);
/* "loss, dup, …": the names there are. */
const char *sn_faults_keys(void);

/*
 * Reads "none", or "key=value,key=value". `seed` is another key; *has_seed says whether it is there. Returns
 * 0, or -EINVAL with one line in why (256 bytes). Any thread.
 */
int sn_faults_parse(const char *text, struct sn_faults *f, uint64_t *seed, bool *has_seed, char why[256]);

/* The text that reads back as *f; "none". Returns buf. */
enum { SN_FAULTS_TEXT = 1024 };
const char *sn_faults_text(const struct sn_faults *f, char buf[SN_FAULTS_TEXT]);

#endif
