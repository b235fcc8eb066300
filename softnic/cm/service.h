/* SPDX-License-Identifier: Apache-2.0 */
/* service.h: the process's connection management: its state machine, NIC, thread and ports. */
#ifndef SOFTNIC_CM_SERVICE_H
#define SOFTNIC_CM_SERVICE_H

#include "softnic/cm/core.h"

/* The state machine; there from the first call on. */
struct cm *cm_service(void);

/* Takes the NIC and starts the thread, if that has not happened. 0, or a negative errno after one line on
 * stderr. Not with cm->lock held. */
int cm_service_up(void);

/* Under fork(), by file.c. */
void cm_service_fork_child(void);

/* route.c: messages between processes at one address. */
struct cm_letter {
    uint8_t at[16], from[16]; /* the addresses of who got it, zeros if nobody did, and of who sent it */
    uint8_t mad[ROCE_MAD_LEN];
};
/* Claims a service for the NIC at gid: an fd at which its letters arrive, or -EADDRINUSE, others. */
int cm_route_claim(const uint8_t gid[16], uint64_t service_id);
/* Where messages with this process's communication IDs are put; -1: nowhere. */
void cm_route_mailbox(int fd);
void cm_route_fork_child(void);

#endif
