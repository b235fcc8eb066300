/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conversation with a hostile process of the same user, step by step. It connects, says hello or nonsense,
 * writes anything into the memory that is shared with it, and leaves. At the same time this process takes
 * frames, sends some, sleeps, and asks the hostile table for rights. The output is checked: frames lie in
 * their buffers, and access lies in a region. No step may take longer than its own work.
 *
 * The hostile process is us, over its own descriptors. Its table names memory of ours, so nothing is copied
 * here.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softnic/local/gate.h"
#include "softnic/local/meet.h"
#include "softnic/local/state.h"
#include "softnic/local/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum {
    VICTIM = 1,
    HOSTILE = 2,
    CALLERS = 4,
    QPN = HOSTILE << 16 | 0x222,
    OWN_QPN = VICTIM << 16 | 0x111,
    KEY = 5 << 12
};

static const struct sn_peer_ops *const ops = &sn_local_peer_ops;
static uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127};
static struct sn_local *victim;

/* The hostile side: what it connected, and the victim's connection to it with the memory that came over
 * it. */
static struct {
    int fd;
    struct sn_channel *channel;
} caller[CALLERS];
static int listener = -1, accepted = -1, table_fd = -1;
static uint8_t hostile_name[SN_MEET_NAME];
static struct sn_channel *given; /* the victim's channel to it */
static struct sn_table *table;   /* its own, which the victim reads */

/* ---- input --------------------------------------------------------------------------------------------- */

struct input {
    const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint32_t word(struct input *in)
{
    uint32_t w = 0;

    for (int i = 0; i < 4; i++) w = w << 8 | byte(in);
    return w;
}

/* Values that are near something. */
static uint32_t value(struct input *in)
{
    static const uint32_t good[] = {
        0, 1, 2, 64, 255, 256, 257, SN_FRAME_MAX, SN_FRAME_MAX + 1, 0x7fffffff, 0x80000000, ~0u};
    uint8_t which = byte(in);

    return which < sizeof(good) / sizeof(good[0]) ? good[which] : word(in);
}

/* ---- the hostile side ---------------------------------------------------------------------------------- */

static void hang_up(unsigned i)
{
    if (caller[i].fd >= 0) close(caller[i].fd);
    if (caller[i].channel) munmap(caller[i].channel, sizeof(struct sn_channel));
    caller[i].fd = -1;
    caller[i].channel = NULL;
}

static void call(unsigned i)
{
    hang_up(i);
    caller[i].fd = sn_meet_connect(sn_local_name(victim));
}

/* With memory of the right size or another, sealed or not, that says the right things or others. */
static void say_hello(struct input *in, unsigned i)
{
    struct sn_hello hello = {.magic = SN_HELLO_MAGIC, .version = SN_SHARE_VERSION, .slot = byte(in) % 4};
    uint8_t how = byte(in);
    size_t size = how & 1 ? value(in) % (1 << 22) + 1 : sizeof(struct sn_channel);
    void *at = NULL;
    int fd;

    if (caller[i].fd < 0 || caller[i].channel) return;
    fd = sn_share_make(size, false, &at);
    if (fd < 0) return;
    memcpy(hello.gid, gid, 16);
    if (how & 2) hello.version = value(in);
    if (how & 4) hello.slot = value(in);
    if (size == sizeof(struct sn_channel)) {
        caller[i].channel = at;
        caller[i].channel->magic = how & 8 ? word(in) : SN_SHARE_CHANNEL_MAGIC;
        caller[i].channel->version = SN_SHARE_VERSION;
        caller[i].channel->slots = how & 16 ? value(in) : SN_SHARE_FRAMES;
    } else {
        munmap(at, size);
    }
    if (how & 32)
        sn_meet_wake(caller[i].fd); /* a byte instead */
    else
        sn_meet_say(caller[i].fd, &hello, fd);
    close(fd);
}

/* Any word of what matters in a channel: counts, a frame's head, what the gate holds. */
static void scribble(struct input *in, struct sn_channel *ch)
{
    unsigned which = byte(in) % 10;
    uint32_t v = value(in);

    if (!ch) return;
    switch (which) {
    case 0: __atomic_store_n(&ch->head, v, __ATOMIC_RELAXED); break;
    case 1: __atomic_store_n(&ch->tail, v, __ATOMIC_RELAXED); break;
    case 2: ch->pulls = v; break;
    case 3: ch->ungated = v; break;
    case 4: ch->revoked = v; break;
    case 5: ch->version = v; break;
    case 6: ch->slots = v; break;
    case 7: ch->frame[byte(in)].len = v; break;
    case 8: ch->there[v % SN_SHARE_PIECES].iov_len = word(in); break;
    default: ch->frame[ch->tail++ % SN_SHARE_FRAMES].len = 64 + v % 5000; break; /* as if it sent one */
    }
}

static void scribble_table(struct input *in)
{
    uint8_t which = byte(in), offset = byte(in);
    uint32_t v = value(in);
    void *const parts[] = {&table->head, &table->queue[QPN % SN_SHARE_QUEUES],
                           &table->region[KEY >> SN_SHARE_KEY_SHIFT], &table->gpu[KEY >> SN_SHARE_KEY_SHIFT]};
    const size_t sizes[] = {sizeof(table->head), sizeof(table->queue[0]), sizeof(table->region[0]),
                            sizeof(table->gpu[0])};
    size_t size = sizes[which % 4];

    memcpy((uint8_t *)parts[which % 4] + offset % (size / 4) * 4, &v, 4);
}

/* A table in which the access below is granted. */
static void mend_table(void)
{
    const struct sn_peer_region r = {
        .iova = 0x1000, .addr = 0x7000, .length = 0x1000, .access = IBV_ACCESS_REMOTE_WRITE, .pd = 1};
    struct sn_peer_queue q = {.dest_qpn = OWN_QPN, .access = IBV_ACCESS_REMOTE_WRITE, .pd = 1};

    memcpy(q.terms.gid, gid, sizeof(gid));
    table->head.magic = SN_SHARE_TABLE_MAGIC;
    table->head.version = SN_SHARE_VERSION;
    table->head.sleeps = table->head.paused = 0;
    sn_table_region(table, KEY, &r);
    sn_table_queue(table, QPN, &q);
}

static void forget_victim(void)
{
    if (accepted >= 0) close(accepted);
    if (given) munmap(given, sizeof(*given));
    accepted = -1;
    given = NULL;
}

/* Answers the victim that wants to send to it; rightly or not. */
static void answer(struct input *in)
{
    struct sn_hello hello, mine = {.magic = SN_HELLO_MAGIC, .version = SN_SHARE_VERSION, .slot = HOSTILE};
    uint8_t how = byte(in);
    int fd;

    if (accepted < 0) accepted = sn_meet_accept(listener);
    if (accepted < 0) return;
    if (!given && sn_meet_hear(accepted, &hello, &fd) == 0) {
        if (sn_share_map(fd, sizeof(*given), true, (void **)&given)) given = NULL;
        close(fd);
    }
    memcpy(mine.gid, gid, 16);
    if (how & 1) mine.version = value(in);
    if (how & 2)
        sn_meet_wake(accepted);
    else
        sn_meet_say(accepted, &mine, how & 4 ? listener : table_fd);
    if (how & 8) forget_victim();
}

/* ---- the victim ---------------------------------------------------------------------------------------- */

static void no_lock(struct sn_nic *nic)
{
    (void)nic;
}
static const struct sn_local_guard guard = {no_lock, no_lock, NULL};

static void take_frames(void)
{
    struct sn_frame f[SN_LOCAL_RX];
    int n = sn_local_recv(victim, f, SN_LOCAL_RX);

    for (int i = 0; i < n; i++) {
        uint8_t *rx = &victim->rx[0][0];

        if (f[i].data < rx || f[i].data + f[i].len > rx + sizeof(victim->rx)) abort();
        if (f[i].len < 1 || f[i].len > SN_FRAME_MAX) abort();
    }
    if (n < 0 || n > SN_LOCAL_RX) abort();
}

static void send_frames(struct input *in)
{
    static uint8_t data[SN_FRAME_MAX] = {[5] = HOSTILE, [7] = 0x22};
    struct sn_frame f = {.len = 64 + value(in) % (SN_FRAME_MAX - 64), .data = data};

    memcpy(f.dst_gid, gid, 16);
    for (int n = byte(in); n >= 0; n--) sn_local_send(victim, &f);
    sn_local_sent(victim);
    ops->room(victim, gid, QPN, sn_now_ns());
}

static void access_peer(struct input *in)
{
    struct sn_peer_access a = {.src_qpn = OWN_QPN,
                               .dst_qpn = QPN,
                               .rkey = KEY,
                               .access = IBV_ACCESS_REMOTE_WRITE,
                               .va = 0x1000 + value(in) % 0x2000,
                               .length = value(in) % 0x2000};
    struct sn_peer *p = ops->find(victim, gid, QPN);
    struct sn_share_region *r = &table->region[KEY >> SN_SHARE_KEY_SHIFT];
    struct iovec there[2] = {{table, 1}, {table, 1}};
    struct sn_reach by;
    uint64_t addr;

    memcpy(a.terms.gid, gid, sizeof(gid));
    if (!p || !ops->enter(victim, p, sn_now_ns())) return;
    if (ops->grant(victim, p, &a, &addr, &by) && a.length)
        if (r->key != KEY || addr < r->addr || addr + a.length > r->addr + r->length) abort();
    sn_gate_lay(p->channel, p->epoch, there, 2);
    sn_gate_pass(p->channel, p->epoch);
    ops->leave(victim, p);
}

/* ---- the conversation ---------------------------------------------------------------------------------- */

static void step(struct input *in)
{
    unsigned what = byte(in), i = what / 16 % CALLERS;

    switch (what % 16) {
    case 0: call(i); break;
    case 1: say_hello(in, i); break;
    case 2: hang_up(i); break;
    case 3:
    case 4: scribble(in, caller[i].channel); break;
    case 5: scribble(in, given); break;
    case 6: scribble_table(in); break;
    case 7: mend_table(); break;
    case 8: answer(in); break;
    case 9: forget_victim(); break;
    case 10: take_frames(); break;
    case 11: send_frames(in); break;
    case 12: access_peer(in); break;
    case 13:
        sn_local_doze(victim);
        sn_local_wake(victim);
        break;
    case 14: ops->quiesce(victim); break;
    default: sn_local_serve(victim, &guard); break;
    }
}

/* Connected both ways, as an honest pair is. */
static void begin(void)
{
    struct input none = {NULL, NULL};

    call(0);
    say_hello(&none, 0);
    ops->in_memory(victim, gid, QPN);
    for (int i = 0; i < 3; i++) {
        sn_local_serve(victim, &guard);
        answer(&none);
    }
    sn_local_serve(victim, &guard);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint64_t number = (uint64_t)getpid();

    (void)argc;
    (void)argv;
    memcpy(gid + 13, &number, 3); /* of its own: several may run */
    for (int i = 0; i < CALLERS; i++) caller[i].fd = -1;
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

/* The wire's part: the slot's owner tells its name at once. */
static bool ask(void *ctx, const uint8_t at[16], unsigned slot, const uint8_t nonce[SN_MEET_NONCE])
{
    (void)ctx;
    if (slot != HOSTILE) return false;
    sn_local_told(victim, at, slot, nonce, hostile_name);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sn_local_config config = {.slot = VICTIM, .copy = true, .ask = ask};
    struct input in = {data, data + size};
    char why[256];

    memcpy(config.gid, gid, 16);
    table_fd = sn_share_make(sizeof(*table), true, (void **)&table);
    listener = sn_meet_listen(hostile_name);
    if (table_fd < 0 || listener < 0 || sn_local_open(&config, &victim, why)) abort();
    mend_table();
    begin();
    while (in.at < in.end) step(&in);
    for (unsigned i = 0; i < CALLERS; i++) hang_up(i);
    forget_victim();
    close(listener);
    for (int i = 0; i < 3; i++) sn_local_serve(victim, &guard);
    sn_local_close(victim);
    munmap(table, sizeof(*table));
    close(table_fd);
    return 0;
}
