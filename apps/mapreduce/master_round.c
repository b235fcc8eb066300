/* SPDX-License-Identifier: Apache-2.0 */
/* The master's rounds: epochs, tasks, what the ranks say, and the commit. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "master_impl.h"

enum { PATIENCE_S = 30 };

void master_dead(struct master *m, uint32_t rank, const char *why)
{
    struct member *r = &m->rank[rank];

    if (!r->alive) return;
    r->alive = false;
    wire_close(&r->wire);
    m->alive--;
    m->died = true;
    m->r->deaths++;
    if (m->alive)
        fprintf(stderr, "gpuwire app mapreduce: rank %u %s: its work is done again by the other %u\n", rank,
                why, m->alive);
}

void master_say(struct master *m, uint32_t type, struct pack *p)
{
    for (uint32_t i = 0; i < m->o.ranks; i++) {
        struct pack copy = {0};

        if (!m->rank[i].alive) continue;
        copy = (struct pack){(uint8_t *)malloc(p->bytes + 8), p->bytes, p->bytes + 8, p->failed};
        if (!copy.at) copy = (struct pack){.failed = true};
        if (copy.at && p->bytes) memcpy(copy.at, p->at, p->bytes);
        if (wire_send(&m->rank[i].wire, type, &copy)) master_dead(m, i, "cannot be reached");
    }
    pack_free(p);
}

/* ---- what ranks say ----------------------------------------------------------------------------------- */

/* With MR_KEEP a rank gets the tasks that it had before, and those of ranks that have died. */
static struct task kept_task(struct master *m, uint32_t rank)
{
    for (uint32_t i = 0; i < m->tasks.n; i++) {
        struct task *t = &m->tasks.task[i];

        if (m->tasks.given[i] || (t->rank != rank + 1 && m->rank[t->rank - 1].alive)) continue;
        m->tasks.given[i] = true;
        t->rank = rank + 1;
        return *t;
    }
    return (struct task){0};
}

static void give_task(struct master *m, uint32_t rank)
{
    struct task t = {0};
    struct pack p = {0};

    if (m->now->given)
        t = kept_task(m, rank);
    else if (m->now->next < m->now->n)
        t = m->now->task[m->now->next++];
    m->handed += t.bytes;
    pack_u32(&p, m->epoch);
    pack_u32(&p, t.file);
    pack_u64(&p, t.offset);
    pack_u64(&p, t.bytes);
    pack_u64(&p, t.number);
    if (wire_send(&m->rank[rank].wire, WIRE_TASK, &p)) master_dead(m, rank, "cannot be reached");
}

static int take_part(struct master *m, struct unpack *u)
{
    uint32_t part = unpack_u32(u);
    size_t n;
    const uint8_t *at = unpack_bytes(u, &n);

    if (u->bad || part >= m->r->parts) return -EPROTO;
    return n ? gathered_add(&m->part[part], at, n) : 0;
}

static int take_ends(struct master *m, struct member *r, struct unpack *u)
{
    free(r->ends);
    r->ends = (char(*)[MASTER_TEXT])calloc(m->size, sizeof(*r->ends));
    if (!r->ends) return -ENOMEM;
    for (uint32_t i = 0; i + 1 < m->size; i++) unpack_text(u, r->ends[i], sizeof(r->ends[i]));
    return u->bad ? -EPROTO : 0;
}

static int take_samples(struct master *m, struct unpack *u)
{
    size_t n;
    const uint8_t *at = unpack_bytes(u, &n);

    if (u->bad || n % MR_SAMPLE) return -EPROTO;
    return n ? gathered_add(&m->part[0], at, n) : 0;
}

static int take_fail(struct master *m, uint32_t code, struct unpack *u)
{
    char why[400];

    unpack_text(u, why, sizeof(why));
    (void)code;
    return master_fail(m, -ECANCELED, "%s", why);
}

/* A message of this epoch. -EPROTO: it makes no sense. */
static int member_message(struct master *m, uint32_t rank, uint32_t type, struct unpack *u)
{
    struct member *r = &m->rank[rank];
    uint32_t epoch = unpack_u32(u);
    char why[200];

    if (type == WIRE_FAIL) return take_fail(m, epoch, u);
    if (epoch != m->epoch) return u->bad ? -EPROTO : 0;
    r->got |= type == m->waiting;
    switch (type) {
    case WIRE_ENDS: return take_ends(m, r, u);
    case WIRE_JOINED:
    case WIRE_MAPPED:
    case WIRE_COMMITTED: return 0;
    case WIRE_ASK: give_task(m, rank); return 0;
    case WIRE_SAMPLES: return take_samples(m, u);
    case WIRE_PART: return take_part(m, u);
    case WIRE_DONE:
        r->counts.bytes = unpack_u64(u);
        r->counts.pairs = unpack_u64(u);
        r->counts.out = unpack_u64(u);
        return u->bad ? -EPROTO : 0;
    case WIRE_LOST:
        unpack_text(u, why, sizeof(why));
        if (m->o.verbose) fprintf(stderr, "gpuwire app mapreduce: %s\n", why);
        m->died = true; /* another epoch; who is dead is found out by its connection */
        return 0;
    default: return -EPROTO;
    }
}

static int member_hear(struct master *m, uint32_t rank)
{
    struct member *r = &m->rank[rank];
    uint64_t patience = m->o.patience_ns ? m->o.patience_ns : PATIENCE_S * (uint64_t)1000000000;
    bool gone = wire_read(&r->wire) != 0;
    struct unpack u;
    uint32_t type;

    while (r->alive && wire_next(&r->wire, &type, &u)) {
        r->heard_ns = gw_clock_ns();
        int err = member_message(m, rank, type, &u);

        if (err == -ENOMEM) return master_fail(m, err, "no memory for the output on rank 0");
        if (err == -EPROTO)
            master_dead(m, rank, "sent what it must not");
        else if (err)
            return err;
    }
    if (gone && r->alive) master_dead(m, rank, "has died");
    if (r->alive && gw_clock_ns() - r->heard_ns > patience) master_dead(m, rank, "is silent");
    return m->alive ? 0 : master_fail(m, -ECANCELED, "no rank is left");
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

static bool wait_over(const struct master *m)
{
    for (uint32_t i = 0; i < m->o.ranks; i++)
        if (m->rank[i].alive && !m->rank[i].got) return false;
    return true;
}

static void show_progress(struct master *m)
{
    uint64_t now = gw_clock_ns();

    if (!m->o.progress || now - m->shown_ns < 200000000) return;
    m->shown_ns = now;
    fprintf(stderr, "\r%3.0f %% of %.1f MB, round %u, %u ranks  ",
            m->now && m->now->bytes ? 100.0 * (double)m->handed / (double)m->now->bytes : 100.0,
            m->now ? (double)m->now->bytes / 1e6 : 0.0, m->host.round + 1, m->alive);
}

int master_wait(struct master *m, uint32_t type)
{
    struct pollfd *p = (struct pollfd *)calloc(m->o.ranks + 1, sizeof(*p));
    int err = p ? 0 : master_fail(m, -ENOMEM, "no memory");

    m->waiting = type;
    for (uint32_t i = 0; i < m->o.ranks; i++) m->rank[i].got = false;
    for (uint32_t i = 0; i < m->o.ranks && !err; i++) /* what came along with a rank's first words */
        if (m->rank[i].alive) err = member_hear(m, i);
    while (!err && !m->died && !wait_over(m)) {
        for (uint32_t i = 0; i < m->o.ranks; i++)
            p[i] = (struct pollfd){m->rank[i].alive ? m->rank[i].wire.fd : -1, POLLIN, 0};
        p[m->o.ranks] = (struct pollfd){m->o.interrupt_fd, POLLIN, 0};
        poll(p, m->o.ranks + 1, 200);
        if (p[m->o.ranks].revents) err = master_fail(m, -EINTR, "interrupted");
        for (uint32_t i = 0; i < m->o.ranks && !err; i++)
            if (m->rank[i].alive) err = member_hear(m, i);
        show_progress(m);
    }
    m->waiting = 0;
    free(p);
    return err ? err : m->died ? -EAGAIN : 0;
}

/* ---- epochs ------------------------------------------------------------------------------------------- */

static void say_number(struct master *m, uint32_t rank)
{
    struct pack p = {0};

    pack_u32(&p, m->epoch);
    pack_u32(&p, m->size);
    pack_u32(&p, m->rank[rank].number);
    if (wire_send(&m->rank[rank].wire, WIRE_EPOCH, &p)) master_dead(m, rank, "cannot be reached");
}

/* Tells a rank the ends that the others have for it: of member r, the one for number `mine`. */
static void say_peers(struct master *m, uint32_t rank)
{
    uint32_t mine = m->rank[rank].number;
    struct pack p = {0};

    pack_u32(&p, m->epoch);
    for (uint32_t i = 0; i < m->o.ranks; i++) {
        struct member *r = &m->rank[i];

        if (!r->alive || i == rank) continue;
        /* its peers are the others, in order */
        pack_bytes(&p, r->ends[mine < r->number ? mine : mine - 1],
                   strlen(r->ends[mine < r->number ? mine : mine - 1]));
    }
    if (wire_send(&m->rank[rank].wire, WIRE_PEERS, &p)) master_dead(m, rank, "cannot be reached");
}

static int epoch_begin(struct master *m)
{
    uint32_t number = 0;
    int err;

    if (++m->epochs > MASTER_MAX_EPOCHS)
        return master_fail(m, -EIO, "ranks were lost %u times", m->epochs - 1);
    m->epoch++;
    m->died = false;
    for (uint32_t i = 0; i < m->o.ranks; i++)
        if (m->rank[i].alive) m->rank[i].number = number++;
    m->size = number;
    for (uint32_t i = 0; i < m->o.ranks; i++)
        if (m->rank[i].alive) say_number(m, i);
    if (m->died) return -EAGAIN; /* numbers are of those that were alive */
    err = master_wait(m, WIRE_ENDS);
    for (uint32_t i = 0; i < m->o.ranks && !err && !m->died; i++)
        if (m->rank[i].alive) say_peers(m, i);
    if (m->died) return -EAGAIN;
    return err ? err : master_wait(m, WIRE_JOINED);
}

/* An epoch of those that are alive; another one when one of them dies. */
static int epoch_make(struct master *m)
{
    int err;

    while ((err = epoch_begin(m)) == -EAGAIN)
        if (!m->alive) return master_fail(m, -ECANCELED, "no rank is left");
    return err;
}

/* ---- rounds ------------------------------------------------------------------------------------------- */

static void round_say(struct master *m, bool sample)
{
    struct pack p = {0};

    if (!m->began_ns) m->began_ns = gw_clock_ns(); /* from the first read to the last write */
    m->now = sample ? &m->sample : &m->tasks;
    m->now->next = 0;
    if (m->now->given) memset(m->now->given, 0, m->now->n);
    m->handed = 0;
    for (uint32_t i = 0; i < m->r->parts; i++) m->part[i].bytes = 0;
    pack_u32(&p, m->epoch);
    pack_u32(&p, m->host.round);
    pack_u32(&p, sample);
    pack_bytes(&p, m->host.state, m->host.state_bytes);
    pack_bytes(&p, m->splits, m->splits ? (size_t)(m->r->parts - 1) * MR_SAMPLE : 0);
    master_say(m, WIRE_ROUND, &p);
}

static int sample_compare(const void *a, const void *b)
{
    uint16_t an, bn;
    int c;

    memcpy(&an, a, 2);
    memcpy(&bn, b, 2);
    if (an > MR_SAMPLE_KEY) an = MR_SAMPLE_KEY;
    if (bn > MR_SAMPLE_KEY) bn = MR_SAMPLE_KEY;
    c = memcmp((const char *)a + 2, (const char *)b + 2, an < bn ? an : bn);
    return c ? c : an < bn ? -1 : an > bn;
}

/* The keys between partitions, of the sampled ones. */
static int sample_splits(struct master *m)
{
    uint64_t n = m->part[0].bytes / MR_SAMPLE;
    uint32_t parts = m->r->parts;

    m->splits = (uint8_t *)calloc(parts, MR_SAMPLE);
    if (!m->splits) return master_fail(m, -ENOMEM, "no memory");
    if (!n) return 0; /* no key: empty splits, and all goes to the last partition */
    qsort(m->part[0].at, n, MR_SAMPLE, sample_compare);
    for (uint32_t i = 0; i + 1 < parts; i++)
        memcpy(m->splits + (size_t)i * MR_SAMPLE, m->part[0].at + n * (i + 1) / parts * MR_SAMPLE, MR_SAMPLE);
    return 0;
}

int master_sample(struct master *m)
{
    int err = 0;

    if (!(m->o.job->flags & MR_ORDER) || m->r->parts == 1) return 0;
    do {
        if (m->died || !m->epochs) err = epoch_make(m);
        if (err) return err;
        round_say(m, true);
        err = m->died ? -EAGAIN : master_wait(m, WIRE_SAMPLES);
    } while (err == -EAGAIN);
    return err ? err : sample_splits(m);
}

int master_round(struct master *m)
{
    int err = 0;

    do {
        if (m->died || !m->epochs) err = epoch_make(m);
        if (err) return err;
        round_say(m, false);
        err = m->died ? -EAGAIN : master_wait(m, WIRE_DONE);
    } while (err == -EAGAIN);
    return err;
}

int master_commit(struct master *m)
{
    struct pack p = {0};

    pack_u32(&p, m->epoch);
    master_say(m, WIRE_COMMIT, &p);
    return m->died ? -EAGAIN : master_wait(m, WIRE_COMMITTED);
}
