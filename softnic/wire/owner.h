/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h: the owner of a UDP port of this host.
 *
 * The kernel tells any process the user of a UDP socket, and a number that no other socket has until the next
 * boot. It is asked by netlink (udp_diag), which takes some microseconds; where the system has no udp_diag,
 * /proc/net/udp is read. Both together name the owner of a slot: a process that takes the port later is
 * another owner.
 *
 * Answers are kept for a moment, so that asking for every packet costs little. Inside the engine's lock.
 */
#ifndef SOFTNIC_WIRE_OWNER_H
#define SOFTNIC_WIRE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/config/addr.h"
#include "softnic/nic/nic.h"

enum { SN_OWNERS_KNOWN = 512 }; /* power of two */

enum sn_owners_by { SN_OWNERS_BY_DIAG, SN_OWNERS_BY_PROC, SN_OWNERS_UNKNOWN };

struct sn_owners {
    int fd; /* netlink; -1: none */
    enum sn_owners_by by;
    uint8_t own_gid[16]; /* who asks */
    uint16_t own_port;
    uint32_t seq;
    uint64_t period; /* when the present period began, and the questions asked in it */
    unsigned asked;
    struct sn_owners_answer {
        uint8_t gid[16];
        uint16_t port;
        struct sn_owner owner;
        uint64_t at; /* 0: never asked */
    } known[SN_OWNERS_KNOWN];
};

/* at, port: where this process's UDP socket is bound. It sends from there, and tries on it which way
 * works. */
void sn_owners_open(struct sn_owners *owners, const struct sn_addr *at, uint16_t port);
void sn_owners_close(struct sn_owners *owners);

/* The receiver of datagrams that go to that port from this host. `at` is an address of this host. */
struct sn_owner sn_owners_ask(struct sn_owners *owners, const struct sn_addr *at, uint16_t port);
/* What is known of that port may be old. */
void sn_owners_forget(struct sn_owners *owners, const uint8_t gid[16], uint16_t port);

/* In words, which users have the UDP ports first … last, at any address of the family. Returns text. */
enum { SN_OWNER_USERS = 160 };
char *sn_owner_users(const uint8_t gid[16], uint16_t first, uint16_t last, char text[SN_OWNER_USERS]);

#endif
