/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and echoing child processes for the wire's tests. */
#ifndef TESTS_WIRE_PEERS_H
#define TESTS_WIRE_PEERS_H

#include <sys/types.h>

#include "softnic/wire/udp.h"

enum { FRAME_HEAD = 16, ECHO_DEADLINE_MS = 5000 };

struct child {
    pid_t pid;
    unsigned slot;
    int shared; /* it has port 4791 too */
};

struct sn_udp_stats stats_of(const struct sn_udp *udp);

/* Opens a wire at an address like "127.0.77.1"; fails the test if that does not work. */
struct sn_udp *open_wire(const char *addr, uint64_t seed);

/* A process that sends every frame it receives back to where it came from, until it is killed. In the echo,
 * bytes 12 … 15 hold the sender's port as the child saw it (big-endian) and the child's own port. */
struct child start_child(const char *addr, uint64_t seed);
void kill_child(struct child *child);

/* A frame of len bytes for queue pair 0x….07 of a slot, which asks to be echoed to queue pair 0x….09 of slot
 * `from`. */
void make_frame(uint8_t *frame, uint32_t len, unsigned slot, unsigned from, uint32_t number);

struct sn_frame frame_to(const struct sn_addr *addr, uint8_t *data, uint32_t len);

/* Waits for one frame, at most ms milliseconds. Returns false when none came. */
bool wait_frame(struct sn_udp *udp, struct sn_frame *rx, int ms);

/* Sends a frame to a slot at `to` and waits for its echo. */
bool echo_works(struct sn_udp *udp, const char *to, unsigned slot, uint32_t len, struct sn_frame *rx);

/* The same by port 4791, as from another host. The first sends a frame so. */
bool send_from_afar(struct sn_udp *udp, const struct sn_frame *frame);
bool echo_from_afar_works(struct sn_udp *udp, const char *to, unsigned slot, uint32_t len,
                          struct sn_frame *rx);

#endif
