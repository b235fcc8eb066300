/* SPDX-License-Identifier: Apache-2.0 */
/* Receives UDP datagrams, and passes on those that are another process's. */
#include "softnic/wire/udp_state.h"

#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "src/roce/hdr.h"

/* After the first byte: the version of its layout. */
static const uint8_t wrapper_magic[4] = {SN_UDP_WRAPPED, 'g', 'w', 1};

/* A wrapper: magic, ECN bits, a zero, source port (big-endian), source GID, destination GID. Then the frame.
 */
enum { WRAP_ECN = 4, WRAP_PORT = 6, WRAP_SRC = 8, WRAP_DST = 24 };

/* ---- wrappers ------------------------------------------------------------------------------------------ */

/* A message that passes a frame on to the process that has the slot. */
static void wrap(struct sn_udp *udp, const struct sn_frame *frame, int slot)
{
    int message = sn_udp_out_new(&udp->out, &udp->addr, (uint16_t)(SN_SLOT_PORT + slot));
    uint8_t *w = udp->wrapper[message];

    memset(w, 0, SN_UDP_WRAPPER);
    memcpy(w, wrapper_magic, sizeof(wrapper_magic));
    w[WRAP_ECN] = frame->ecn;
    w[WRAP_PORT] = (uint8_t)(frame->sport >> 8);
    w[WRAP_PORT + 1] = (uint8_t)frame->sport;
    memcpy(w + WRAP_SRC, frame->src_gid, 16);
    memcpy(w + WRAP_DST, udp->addr.gid, 16);
    sn_udp_out_add(&udp->out, message, w, SN_UDP_WRAPPER);
    sn_udp_out_add(&udp->out, message, frame->data, frame->len);
}

static void udp_recv_pass_on(struct sn_udp *udp)
{
    int n = udp->out.messages, done;
    uint64_t lost;
    bool full;

    if (!n) return;
    done = sn_udp_out_send(udp, &lost, &full);
    sn_udp_count(&udp->stats.passed_on, (uint64_t)done - lost);
    sn_udp_count(&udp->stats.pass_failed, (uint64_t)(n - done) + lost);
}

/*
 * Is the frame in a wrapper from that port to be believed? The user of port 4791 gets the flows from other
 * hosts and could change them anyhow, so that user's processes may pass them on. For an address of this host
 * only our own user's processes, or root's, may speak.
 */
static bool may_pass_on(struct sn_udp *udp, uint16_t port, const struct sn_frame *frame)
{
    struct sn_owner who = sn_owners_ask(&udp->senders, &udp->addr, port), holder;

    if (frame->same_host && !sn_is_slot_port(frame->sport)) return false;
    if (who.kind == SN_OWNER_UNKNOWN)
        return !frame->same_host; /* the system does not tell: no worse than before */
    if (who.kind != SN_OWNER_PROCESS) return false;
    if (frame->same_host) return who.uid == 0 || who.uid == geteuid();
    holder = sn_owners_ask(&udp->senders, &udp->addr, ROCE_UDP_PORT);
    return holder.kind == SN_OWNER_PROCESS && holder.uid == who.uid;
}

/* Takes the wrapper off. A wrapped frame is never passed on again, so nothing can go round in circles. */
static bool unwrap(struct sn_udp *udp, struct sn_frame *frame)
{
    const uint8_t *w = frame->data;
    uint16_t from = frame->sport;

    if (frame->len < SN_UDP_WRAPPER + ROCE_MIN_PACKET) return false;
    if (memcmp(w + WRAP_DST, udp->addr.gid, 16) != 0) return false;
    frame->sport = (uint16_t)(w[WRAP_PORT] << 8 | w[WRAP_PORT + 1]);
    memcpy(frame->src_gid, w + WRAP_SRC, 16);
    frame->same_host = sn_udp_is_here(udp, frame->src_gid);
    frame->ecn = w[WRAP_ECN] & 3;
    frame->has_ip_id = false;
    frame->data += SN_UDP_WRAPPER;
    frame->len -= SN_UDP_WRAPPER;
    return may_pass_on(udp, from, frame);
}

/* ---- frames -------------------------------------------------------------------------------------------- */

static bool udp_recv_is_ours(const struct sn_udp *udp, const struct sn_frame *frame)
{
    int slot = sn_udp_slot_of(frame->data, frame->len);

    return slot < 0 || slot == (int)udp->slot.slot;
}

/*
 * A frame that came to the slot's port. It is from a NIC of this host, or passed on by a process at this
 * address, in a wrapper, which no other may make. Its ICRC was computed with IPv4 ID 0, whatever the kernel
 * put there.
 */
static bool take_direct(struct sn_udp *udp, struct sn_frame *frame)
{
    bool wrapped = memcmp(frame->data, wrapper_magic, sizeof(wrapper_magic)) == 0;

    if (!sn_is_slot_port(frame->sport) || !sn_udp_is_here(udp, frame->src_gid)) return false;
    frame->has_ip_id = frame->same_host = true;
    if (wrapped) {
        if (memcmp(frame->src_gid, udp->addr.gid, 16) != 0 || !unwrap(udp, frame)) return false;
        if (!udp_recv_is_ours(udp, frame)) return false;
        sn_udp_count(&udp->stats.rx_unwrapped, 1);
    }
    return true;
}

/*
 * A frame that came to port 4791. Another host may send from any port. On this one the kernel lets only a
 * slot's owner send from its port. A frame from another port has a forged address.
 */
static bool take_shared(struct sn_udp *udp, struct sn_frame *frame)
{
    frame->same_host = sn_udp_is_here(udp, frame->src_gid);
    return !frame->same_host || sn_is_slot_port(frame->sport);
}

/* ---- batches ------------------------------------------------------------------------------------------- */

static struct sn_udp_in *batch(const struct sn_udp *udp, uint32_t at)
{
    return udp->in[at % udp->batches];
}

/* Acquire, with the release by the thread that moved it: then the batch before it is seen, too. */
static uint32_t tail_of(const struct sn_udp *udp)
{
    return __atomic_load_n(&udp->tail, __ATOMIC_ACQUIRE);
}

/* The oldest batch that has frames left, from udp->head on; sets *at. NULL: none. It need not be ready. */
static struct sn_udp_in *oldest(const struct sn_udp *udp, uint32_t *at)
{
    uint32_t tail = tail_of(udp);

    for (*at = udp->head; *at != tail; ++*at) {
        struct sn_udp_in *in = batch(udp, *at);

        /* Acquire: what its receiver wrote into it is seen. */
        if (!__atomic_load_n(&in->ready, __ATOMIC_ACQUIRE) || in->next != in->messages) return in;
    }
    return NULL;
}

enum sn_udp_left sn_udp_left(const struct sn_udp *udp)
{
    return udp->left;
}

bool sn_udp_holds_frames(const struct sn_udp *udp)
{
    uint32_t at;
    const struct sn_udp_in *in = oldest(udp, &at);

    return (in && __atomic_load_n(&in->ready, __ATOMIC_ACQUIRE)) ||
           __atomic_load_n(&udp->errors, __ATOMIC_RELAXED);
}

/* From the sockets, unless another thread is about to do that: then it brings the engine to look again. */
static struct sn_udp_in *fetch_here(struct sn_udp *udp)
{
    struct sn_udp_in *in = NULL;

    udp->left = SN_UDP_ANOTHERS;
    if (pthread_mutex_trylock(&udp->fetch_lock)) return NULL;
    if (udp->tail == udp->head) {
        in = batch(udp, udp->tail);
        udp->left = sn_udp_fill(udp, in, true) ? SN_UDP_NOTHING : SN_UDP_PERHAPS;
        if (in->messages) {
            __atomic_store_n(&in->ready, 1, __ATOMIC_RELAXED); /* seen with tail */
            __atomic_store_n(&udp->tail, udp->tail + 1, __ATOMIC_RELEASE);
        } else {
            in = NULL; /* it is anybody's again */
        }
    }
    pthread_mutex_unlock(&udp->fetch_lock);
    return in;
}

/* What is to be taken apart next, or NULL. */
static struct sn_udp_in *next_batch(struct sn_udp *udp)
{
    uint32_t at;
    struct sn_udp_in *in = oldest(udp, &at);

    /* Frames are valid until this call, so only now are batches free again. Release: after all reads of them.
     */
    GW_ASSERT(at - udp->head <= tail_of(udp) - udp->head);
    __atomic_store_n(&udp->head, at, __ATOMIC_RELEASE);
    if (!in) return fetch_here(udp);
    udp->left = SN_UDP_PERHAPS;
    if (__atomic_load_n(&in->ready, __ATOMIC_ACQUIRE)) return in;
    udp->left = SN_UDP_ANOTHERS;
    return NULL;
}

/* The next frame of a batch. False when there is none. *good: it may be one. */
static bool next_frame(const struct sn_udp *udp, struct sn_udp_in *in, struct sn_frame *frame, bool *good)
{
    if (in->next == in->messages) return false;
    if (!in->offset) sn_udp_cut_message(udp, in, in->next, &in->cut);
    *good = sn_udp_cut_frame(&in->cut, in, in->next, in->offset, frame);
    frame->icrc_checked = in->frame < 64 && in->checked[in->next] >> in->frame & 1;
    in->offset += frame->len;
    in->frame++;
    if (in->offset >= in->msg[in->next].msg_len) {
        in->next++;
        in->offset = in->frame = 0;
    }
    return true;
}

/* False: it is dropped. */
static bool udp_recv_take(struct sn_udp *udp, const struct sn_udp_in *in, struct sn_frame *frame, int *n)
{
    if (in->shared ? !take_shared(udp, frame) : !take_direct(udp, frame)) return false;
    if (!in->shared && sn_udp_is_hello(frame)) {
        sn_udp_take_hello(udp, frame);
    } else if (udp_recv_is_ours(udp, frame)) {
        sn_udp_count(&udp->stats.rx_frames, 1);
        sn_udp_count(&udp->stats.rx_bytes, frame->len);
        sn_udp_count(&udp->stats.rx_checked, frame->icrc_checked);
        ++*n;
    } else {
        if (!in->shared) return false;
        wrap(udp, frame, sn_udp_slot_of(frame->data, frame->len));
    }
    return true;
}

static void take_apart(struct sn_udp *udp, struct sn_udp_in *in, struct sn_frame *rx, int max, int *n)
{
    bool good;

    for (int looked = 0; looked < SN_UDP_BATCH && *n < max && next_frame(udp, in, &rx[*n], &good); looked++)
        if (!good || !udp_recv_take(udp, in, &rx[*n], n)) sn_udp_count(&udp->stats.rx_dropped, 1);
}

int sn_udp_recv(struct sn_udp *udp, struct sn_frame *rx, int max, bool *more)
{
    struct sn_udp_in *in;
    int n = 0;

    if (__atomic_load_n(&udp->errors, __ATOMIC_RELAXED)) {
        __atomic_store_n(&udp->errors, 0, __ATOMIC_RELAXED);
        sn_udp_drain_errors(udp, udp->slot.fd);
        if (udp->slot.shared_fd >= 0) sn_udp_drain_errors(udp, udp->slot.shared_fd);
    }
    udp->out.messages = udp->out.iovs = 0;
    in = next_batch(udp);
    if (in) take_apart(udp, in, rx, max, &n);
    udp_recv_pass_on(udp);
    /* A batch that was not full emptied its socket. Packets in the other, or new ones, wake the thread that
     * waits for them. */
    *more = sn_udp_holds_frames(udp) || (in && in->full);
    return n;
}
