/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver of a message. One about a connection names the process in its communication ID, and the wire
 * has brought it to the right one. A request names a service: the process that listens has a datagram socket
 * with an abstract UNIX name made of the NIC's address and the service. Binding that name is the claim to the
 * service: it is exclusive, also between users, and the kernel frees it when the process dies. A request of
 * another host is put into that socket by whichever process at the address happens to get it. A process of
 * this host puts its own request there itself, so that no other one reads or changes it. letter.c decides
 * which letters are believed.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softnic/base/name.h"
#include "softnic/cm/cm.h"
#include "softnic/cm/service.h"
#include "src/roce/hdr.h"

static int mailbox = -1; /* atomic; the NIC's callbacks read it */
static int sender = -1;  /* atomic: several NICs may need it first */

static struct sn_name cm_route_name_of(const uint8_t *gid, uint64_t service_id)
{
    char text[33];

    return sn_name("%s/service/%llx", sn_name_of_gid(gid, text), (unsigned long long)service_id);
}

int cm_route_claim(const uint8_t gid[16], uint64_t service_id)
{
    struct sn_name name = cm_route_name_of(gid, service_id);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err, on = 1;

    if (fd < 0) return -errno;
    /* First, or a letter could come without. */
    err = setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ? -errno : 0;
    if (!err) err = sn_name_bind(fd, &name);
    if (!err) return fd;
    close(fd);
    return err;
}

void cm_route_mailbox(int fd)
{
    /* Release: its reader sees the socket's other end in use. */
    __atomic_store_n(&mailbox, fd, __ATOMIC_RELEASE);
}

void cm_route_fork_child(void)
{
    cm_route_mailbox(-1);
}

static int sender_fd(void)
{
    int fd = __atomic_load_n(&sender, __ATOMIC_ACQUIRE), none = -1;

    if (fd >= 0) return fd;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || __atomic_compare_exchange_n(&sender, &none, fd, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fd;
    close(fd); /* another NIC's thread was first */
    return none;
}

bool cm_route_request(const struct roce_cm *m, const struct cm_letter *letter)
{
    struct sn_name name = cm_route_name_of(letter->at, m->service_id);

    if (sendto(sender_fd(), letter, sizeof(*letter), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name.un,
               name.len) >= 0)
        return true;
    /* A full socket: the request is lost, and will be repeated. */
    return errno != ECONNREFUSED && errno != ENOENT;
}

/* The answer of a process that knows nothing of what it is asked. */
static bool answer_as_stranger(const struct roce_cm *m, uint8_t *mad)
{
    struct roce_cm r = {.tid = m->tid, .local_id = m->remote_id, .remote_id = m->local_id};

    switch (m->attr) {
    case ROCE_CM_REQ:
        r.attr = ROCE_CM_REJ;
        r.local_id = 0;
        r.reason = ROCE_REJ_INVALID_SERVICE_ID;
        break;
    case ROCE_CM_REP:
        r.attr = ROCE_CM_REJ;
        r.about = ROCE_ABOUT_REP;
        r.reason = ROCE_REJ_INVALID_COMM_ID;
        break;
    case ROCE_CM_DREQ: r.attr = ROCE_CM_DREP; break;
    case ROCE_CM_SIDR_REQ:
        r.attr = ROCE_CM_SIDR_REP;
        r.local_id = m->local_id;
        r.status = ROCE_SIDR_UNSUPPORTED;
        r.service_id = m->service_id;
        break;
    default: return false;
    }
    return roce_cm_build(mad, &r) == 0;
}

bool ucm_on_mad(void *user, const uint8_t dgid[16], const uint8_t sgid[16], int slot, uint8_t mad[SN_MAD_LEN])
{
    struct cm_letter letter;
    struct roce_cm m;
    int box;

    (void)user;
    (void)slot;
    if (roce_cm_parse(mad, &m)) return false;
    memcpy(letter.at, dgid, 16);
    memcpy(letter.from.gid, sgid, 16);
    letter.from.slot = slot;
    memcpy(letter.mad, mad, ROCE_MAD_LEN);
    if (cm_is_request(&m)) return !cm_route_request(&m, &letter) && answer_as_stranger(&m, mad);
    /* Acquire pairs with the release above. A full box loses the message, which will be repeated. */
    box = __atomic_load_n(&mailbox, __ATOMIC_ACQUIRE);
    if (box < 0) return answer_as_stranger(&m, mad);
    send(box, &letter, sizeof(letter), MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
}

/*
 * On an adapter's host the kernel answers when a process is gone or has never been. Here no kernel does: so
 * the process that needs the answer makes it.
 */
void ucm_on_refused(const uint8_t gid[16], const uint8_t *frame, size_t len)
{
    const size_t at = ROCE_BTH_LEN + ROCE_DETH_LEN;
    int box = __atomic_load_n(&mailbox, __ATOMIC_ACQUIRE); /* pairs with the release above */
    struct cm_letter letter;
    struct roce_cm m;

    if (box < 0 || len < at + ROCE_MAD_LEN || frame[0] != ROCE_UD_SEND_ONLY || frame[7] != ROCE_GSI_QPN)
        return;
    if (roce_cm_parse(frame + at, &m) || !answer_as_stranger(&m, letter.mad)) return;
    memset(letter.at, 0, 16);
    memcpy(letter.from.gid, gid, 16);
    letter.from.slot = CM_FROM_SELF;
    send(box, &letter, sizeof(letter), MSG_DONTWAIT | MSG_NOSIGNAL);
}
