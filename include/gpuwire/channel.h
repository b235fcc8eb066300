/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: reliable messages of a fixed size between two endpoints, with flow control.
 *
 * An endpoint has a ring of receive slots and a ring of send slots, in GPU memory or in mapped host memory. A
 * message is one RDMA write with an immediate, from a send slot into the peer's next receive slot. No sender
 * writes into a slot that the receiver has not given back. The immediate of every message says how many
 * messages its sender has taken so far (credits), and so does an empty message now and then. So a channel
 * needs no CPU and no acknowledgement of its own, and never meets a peer that is not ready. Messages are
 * neither lost, repeated nor reordered. When the queue pair fails, the channel fails and says so.
 *
 * On the host:
 *
 *     gw_channels_create(dev, &attr, &set);
 *     gw_channel_end(set, 0, &mine);
 *     … exchange ends: gw_channel_end_format, gw_channel_end_parse …
 *     gw_channel_connect(set, 0, &theirs);
 *     … ch = gw_channels_handles(set) goes to the kernel …
 *
 * In the kernel, any block:
 *
 *     err = gw_channel_send(&ch[0], msg, deadline);
 *     err = gw_channel_recv(&ch[0], msg, deadline);
 *
 * Endpoints are made many at a time: a set has one protection domain, one piece of memory and one
 * registration. Each peer of the set learns the registration's key and could write into the slots of the
 * others. Make one set for each group of peers that trust each other.
 *
 * Kernel calls come in block, _warp and _thread forms (group.h). Every thread of the block or warp calls it,
 * with the same arguments, and gets the same result. Any number of groups may use an endpoint, in both
 * directions at a time: senders take turns, and so do receivers. CPU threads of the process may call the
 * _thread forms when the set was made for CPU threads. Any thread may call the host functions, for one set
 * one at a time.
 *
 * Deadlines are nanoseconds on the executor's clock: gw_clock_ns() + what the call may take. With 0 it does
 * not wait: -EAGAIN. No call waits past its deadline. Sizes are bytes.
 *
 * Every kernel call returns 0 or
 *
 *   `-EAGAIN`, `-ETIMEDOUT`  the deadline, see above; nothing happened.
 *   `-ESHUTDOWN`             receiving: the peer has finished, and everything it sent has been received.
 *   `-EPIPE`                 sending: this side has finished.
 *   `-ECONNRESET`            the peer, the network or the NIC failed: gw_channel_fault on the host says how.
 *   `-EPROTO`                the peer broke the rules: more messages than slots, or credits for messages that
 *                            were not sent.
 *   `-ENOTCONN`              not connected.
 *
 * The last four stay. Messages that arrived before a failure are received first.
 *
 * Memory order. A message holds all that the sending group wrote before the call. When a receiving call has
 * returned 0, the whole message is visible to all threads of the group.
 */
#ifndef GPUWIRE_CHANNEL_H
#define GPUWIRE_CHANNEL_H

#include <gpuwire/detail/socket/flow.h>
#include <gpuwire/verbs.h>

#define GW_CHANNEL_VERSION   1
#define GW_CHANNEL_SLOTS_MAX 4096
#define GW_CHANNEL_BYTES_MAX (1u << 20)

/* An endpoint as kernels see it; opaque to them. */
struct gw_channel {
    uint32_t size, version;
    uint32_t bytes, stride; /* of a message, and from slot to slot */
    uint8_t *recv, *send;   /* the slots */
    uint64_t send_addr;     /* of the send slots, as in work requests */
    uint32_t lkey, slots;
    /* Of the peer; the host writes them when it connects. */
    uint64_t peer_addr;
    uint32_t peer_rkey, peer_slots;
    uint32_t window; /* messages under way at most: the smaller number of slots */
    uint32_t connected;

    struct gw_flow_ flow;
    /* Written under the flow's lock. */
    uint32_t arrived;  /* messages that have come */
    uint32_t credited; /* of ours, those that the peer has taken */
    uint32_t finished; /* the peer sends no more */

    /* Written by the sender whose turn it is. */
    uint32_t send_lock, sent, ended;
    /* Written by the receiver whose turn it is. */
    uint32_t recv_lock, taken;
    uint32_t granted; /* of `taken`, what the peer has credit for; written by the thread that grants more */
} __attribute__((aligned(64)));

/* ---- host --------------------------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

struct gw_channels;

struct gw_channel_attr {
    uint32_t count; /* endpoints; at least 1 */
    uint32_t bytes; /* of a message, 1 … GW_CHANNEL_BYTES_MAX */
    uint32_t slots; /* in each direction, 1 … GW_CHANNEL_SLOTS_MAX, rounded up to a power of two; 0: 16 */
    uint32_t mem;   /* enum gw_mem_kind; 0: the executor's own memory if the NIC reaches it, else host */
    uint32_t post_mode;    /* enum gw_post_mode */
    uint64_t keepalive_ns; /* while a call waits, the peer's NIC is asked so often whether it is there;
                              0: never, a silent peer is then found out by the deadline alone */
};

/*
 * Makes endpoints, in a protection domain of their own. It returns -EINVAL for an attribute that is out of
 * range, and -ENOMEM. It returns -EOPNOTSUPP, with a line, where the NIC does not reach memory of that kind.
 * It allocates and registers, so call it before a loop starts.
 */
GW_API int gw_channels_create(struct gw_device *dev, const struct gw_channel_attr *attr,
                              struct gw_channels **out);

/* Only when no kernel uses them. The peers' next messages fail. NULL is allowed. Returns 0. */
GW_API int gw_channels_destroy(struct gw_channels *set);

/* The endpoints as the executor addresses them: an array, for kernels. */
GW_API struct gw_channel *gw_channels_handles(const struct gw_channels *set);

/* All that the peer must know of an endpoint. */
struct gw_channel_end {
    struct gw_endpoint qp;
    uint64_t addr; /* of the receive slots */
    uint32_t rkey;
    uint32_t bytes, slots;
};
#define GW_CHANNEL_END_TEXT 160 /* bytes that always hold its text, with the final zero */

/* -EINVAL: no such endpoint. */
GW_API int gw_channel_end(const struct gw_channels *set, uint32_t i, struct gw_channel_end *end);

/* Text form: gwc:1:ADDR hex:RKEY hex:BYTES:SLOTS:, then the queue pair's (gw_endpoint_format). */
GW_API void gw_channel_end_format(const struct gw_channel_end *end, char text[GW_CHANNEL_END_TEXT]);
/* -EINVAL: not of that form, or a value out of range. */
GW_API int gw_channel_end_parse(const char *text, struct gw_channel_end *end);

/*
 * Connects endpoint i. Both sides must do it; messages sent before the other one has are delivered when it
 * has (the NIC repeats them for about half a second). May be called while kernels run, but not while one uses
 * this endpoint. -EMSGSIZE: the peer's messages have another size; -EINVAL; -EISCONN: reset it first.
 */
GW_API int gw_channel_connect(struct gw_channels *set, uint32_t i, const struct gw_channel_end *peer);

/* Back to where it was after creation, with a new end (gw_channel_end). No kernel may use it during the call.
 * 0. -EINVAL: no such endpoint; -EIO, -ETIMEDOUT: the NIC does not take it back. */
GW_API int gw_channel_reset(struct gw_channels *set, uint32_t i);

/* As gw_qp_fault, of endpoint i's queue pair. */
GW_API int gw_channel_fault(const struct gw_channels *set, uint32_t i, struct gw_fault *fault);

#ifdef __cplusplus
}
#endif

/* ---- kernels ------------------------------------------------------------------------------------------ */

/* Sends a message of the channel's size, copied from msg. */
GW_DEV int gw_channel_send(struct gw_channel *ch, const void *msg, uint64_t deadline_ns);
GW_DEV int gw_channel_send_warp(struct gw_channel *ch, const void *msg, uint64_t deadline_ns);
GW_DEV int gw_channel_send_thread(struct gw_channel *ch, const void *msg, uint64_t deadline_ns);

/* Receives the next message, copied to msg. */
GW_DEV int gw_channel_recv(struct gw_channel *ch, void *msg, uint64_t deadline_ns);
GW_DEV int gw_channel_recv_warp(struct gw_channel *ch, void *msg, uint64_t deadline_ns);
GW_DEV int gw_channel_recv_thread(struct gw_channel *ch, void *msg, uint64_t deadline_ns);

/*
 * Without copies. `reserve` sets *slot to the next send slot, for the caller to fill, and commit sends it.
 * Between the two no other group sends. `borrow` sets *msg to the next message where it lies, and give_back
 * returns the slot: afterwards the message must not be read. Between the two no other group receives. A slot
 * is aligned to 64 bytes. The group whose reserve or borrow succeeded calls commit or give_back, exactly
 * once. `commit` waits only for its turn at the NIC, and gives up the slot also when it fails.
 */
GW_DEV int gw_channel_reserve(struct gw_channel *ch, void **slot, uint64_t deadline_ns);
GW_DEV int gw_channel_reserve_warp(struct gw_channel *ch, void **slot, uint64_t deadline_ns);
GW_DEV int gw_channel_reserve_thread(struct gw_channel *ch, void **slot, uint64_t deadline_ns);
GW_DEV int gw_channel_commit(struct gw_channel *ch, uint64_t deadline_ns);
GW_DEV int gw_channel_commit_warp(struct gw_channel *ch, uint64_t deadline_ns);
GW_DEV int gw_channel_commit_thread(struct gw_channel *ch, uint64_t deadline_ns);
GW_DEV int gw_channel_borrow(struct gw_channel *ch, const void **msg, uint64_t deadline_ns);
GW_DEV int gw_channel_borrow_warp(struct gw_channel *ch, const void **msg, uint64_t deadline_ns);
GW_DEV int gw_channel_borrow_thread(struct gw_channel *ch, const void **msg, uint64_t deadline_ns);
GW_DEV void gw_channel_give_back(struct gw_channel *ch);
GW_DEV void gw_channel_give_back_warp(struct gw_channel *ch);
GW_DEV void gw_channel_give_back_thread(struct gw_channel *ch);

/* Tells the peer that no more messages will come: it receives what is under way, and -ESHUTDOWN then. This
 * side can still receive. Finishing again does nothing and returns 0. */
GW_DEV int gw_channel_finish(struct gw_channel *ch, uint64_t deadline_ns);
GW_DEV int gw_channel_finish_warp(struct gw_channel *ch, uint64_t deadline_ns);
GW_DEV int gw_channel_finish_thread(struct gw_channel *ch, uint64_t deadline_ns);

#include <gpuwire/detail/socket/channel.h>

#endif
