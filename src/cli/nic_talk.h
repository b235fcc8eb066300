/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to a software NIC's control socket (softnic/runtime/control.h), and its answer.
 *
 * Anybody can take such a socket's name. So the socket's process and user are looked at before a word is
 * said. The process that answers is not trusted either. An answer takes a bounded time and a bounded memory,
 * and characters that would disturb a terminal are taken out of its strings.
 */
#ifndef GW_CLI_NIC_TALK_H
#define GW_CLI_NIC_TALK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Bytes that all answers together may still take. */
struct gw_nic_room {
    size_t bytes, values;
};
#define GW_NIC_ROOM ((struct gw_nic_room){64 << 20, 2 << 20})

/*
 * Connects to the socket of that abstract name. Returns its descriptor, and in *peer whose it is; -EAGAIN:
 * more than it takes are waiting there, and wait_ms is over; or another negative errno.
 */
int gw_nic_connect(const char *name, int wait_ms, struct ucred *peer);

/*
 * Sends the request (one line, without its end) and takes the answer: an object, or NULL with what was wrong
 * in *wrong. Closes fd.
 */
json_t *gw_nic_talk(int fd, const char *request, struct gw_nic_room *room, const char **wrong);

#endif
