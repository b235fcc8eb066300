/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the control plane and the process that forwards packets: JSON after its length, over a
 * UNIX socket. One side asks, the other answers, in turn. */
#ifndef GW_BALANCE_CONTROL_WIRE_H
#define GW_BALANCE_CONTROL_WIRE_H

#include <jansson.h>
#include <stdint.h>

#define GW_BAL_MESSAGE (64u << 20) /* bytes of one at most */
#define GW_BAL_SOCKET  "plane.sock"

/* 0 or a negative errno. The descriptor may block or not; the deadline counts in either case. */
int gw_bal_send(int fd, const json_t *message, uint64_t deadline_ns);
/* -ECONNRESET: the other side has gone. -EPROTO: not such a message. */
int gw_bal_receive(int fd, json_t **message, uint64_t deadline_ns);

/* All bytes, or a negative errno. */
int gw_bal_write_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns);
int gw_bal_read_all(int fd, void *data, size_t bytes, uint64_t deadline_ns);

/* RUN_DIR/plane.sock as an address; -ENAMETOOLONG with the reason. */
struct sockaddr_un;
int gw_bal_socket_path(const char *run_dir, struct sockaddr_un *out);

#endif
