/* SPDX-License-Identifier: Apache-2.0 */
/* service.h: the process's connection management: its state machine, NIC, thread and ports. */
#ifndef SOFTNIC_CM_SERVICE_H
#define SOFTNIC_CM_SERVICE_H

#include "softnic/cm/core.h"

struct sn_process_callbacks;

/* The state machine; there from the first call on. */
struct cm *cm_service(void);

/* Takes the NIC and starts the thread, if that has not happened. 0, or a negative errno after one line on
 * stderr. Not with cm->lock held. */
int cm_service_up(void);
/* The callbacks of the NICs that going up may make. */
void cm_service_use(const struct sn_process_callbacks *callbacks);

/* Under fork(), by file.c. */
void cm_service_fork_child(void);

/* route.c: messages between processes at one address. */
struct cm_letter {
    uint8_t at[16]; /* the address that it came to, zeros if that is unknown */
    struct cm_origin from;
    uint8_t mad[ROCE_MAD_LEN];
};
/* Claims a service for the NIC at gid: an fd at which its letters arrive, with the sender's credentials, or
 * -EADDRINUSE, others. Any process of the host can write such a letter. */
int cm_route_claim(const uint8_t gid[16], uint64_t service_id);
static inline bool cm_is_request(const struct roce_cm *m)
{
    return m->attr == ROCE_CM_REQ || m->attr == ROCE_CM_SIDR_REQ;
}
/* Puts a request into the socket of the process that has claimed its service at letter->at. False: none
 * has. */
bool cm_route_request(const struct roce_cm *m, const struct cm_letter *letter);
/* letter.c. 1: it has read a letter, and says who wrote it. 0: something else came. -1: there is nothing. */
struct ucred;
int cm_letter_read(int fd, struct cm_letter *letter, struct ucred *who);
/* The writer of a letter. */
struct cm_writer {
    bool ours;            /* a process of this user, or root's */
    bool speaks_for_here; /* the letter is for an address of this host */
    /* This process does not listen to port 4791. So another user's process gets what other hosts send. */
    bool may_speak_for_others;
};
/* NULL, with the origin as far as it is believed; or why the letter is not. */
const char *cm_letter_refused(struct cm_letter *letter, const struct roce_cm *m, const struct cm_writer *w);

/* Where messages with this process's communication IDs are put; -1: nowhere. */
void cm_route_mailbox(int fd);
void cm_route_fork_child(void);

#endif
