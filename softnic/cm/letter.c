/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letters: requests that a process of this host puts into the socket by which another one has claimed a
 * service. Every user of the host can write there whatever they like, but the kernel says who they are.
 *
 * A letter begins no connection yet. The answer goes over the wire to the address and the slot that
 * the request names, and what comes back has to name what stood in the answer. So a made-up request ends
 * there.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "softnic/cm/service.h"

enum { ID_SLOT_SHIFT = 24 };

int cm_letter_read(int fd, struct cm_letter *letter, struct ucred *who)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(*who))];
    } control;
    struct iovec iov = {letter, sizeof(*letter)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

    if (n < 0) return -1;
    if (n != (ssize_t)sizeof(*letter) || (msg.msg_flags & MSG_TRUNC)) return 0;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) return 0;
    memcpy(who, CMSG_DATA(c), sizeof(*who));
    return 1;
}

const char *cm_letter_refused(struct cm_letter *letter, const struct roce_cm *m, const struct cm_writer *w)
{
    /* What is about a connection comes over the wire, to the process that has it. */
    if (!cm_is_request(m)) return "and only requests may come that way";
    if (w->ours) return NULL;
    /* A client on this host writes a letter of its own. Its later messages show whether it has that slot. */
    letter->from.slot = w->speaks_for_here ? (int)(m->local_id >> ID_SLOT_SHIFT) : SN_NO_SLOT;
    if (w->speaks_for_here || w->may_speak_for_others) return NULL;
    return "for another host, whose requests come to UDP port 4791, which is this process's user's";
}
