/* SPDX-License-Identifier: Apache-2.0 */
/* Connects two processes of a host, and passes shared memory between them. */
#include "softnic/local/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softnic/base/cred.h"
#include "softnic/base/name.h"
#include "softnic/local/share.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { BACKLOG = 256, DRAIN = 256 };

/* ---- sockets ------------------------------------------------------------------------------------------- */

static struct sn_name meet_name_of(const uint8_t name[SN_MEET_NAME])
{
    char text[33];

    return sn_name("meet/%s", sn_name_of_gid(name, text));
}

static int meet_new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

int sn_meet_listen(uint8_t random[SN_MEET_NAME])
{
    struct sn_name name;
    int err, fd;

    if (getrandom(random, SN_MEET_NAME, 0) != SN_MEET_NAME) return -EAGAIN;
    fd = meet_new_socket();
    if (fd < 0) return fd;
    name = meet_name_of(random);
    err = sn_name_bind(fd, &name);
    if (!err && listen(fd, BACKLOG)) err = -errno;
    if (!err) return fd;
    close(fd);
    return err;
}

int sn_meet_connect(const uint8_t random[SN_MEET_NAME])
{
    struct sn_name name = meet_name_of(random);
    int err, fd = meet_new_socket();

    if (fd < 0) return fd;
    err = sn_name_connect(fd, &name);
    if (!err) return fd;
    close(fd);
    return err;
}

int sn_meet_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    return fd < 0 ? -errno : fd;
}

bool sn_meet_is_ours(int fd, pid_t *pid)
{
    struct ucred cred;

    if (sn_cred_of_socket(fd, &cred) || !sn_cred_is_ours(&cred)) return false;
    *pid = cred.pid;
    return true;
}

bool sn_meet_alive(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    /* Not by looking for the end of what can be read: bytes that it sent may lie before that. */
    return poll(&p, 1, 0) <= 0 || !p.revents;
}

bool sn_meet_drain(int fd)
{
    char bytes[64];
    ssize_t n = 1;

    /* No message is empty: 0 is the end. Not more at once than one may be expected to have sent. */
    for (int i = 0; i < DRAIN && n > 0; i++) n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void sn_meet_wake(int fd)
{
    /* A full socket holds bytes that wake as well. */
    if (send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

int sn_meet_say(int fd, const struct sn_hello *hello, int hand_over)
{
    struct iovec iov = {(void *)hello, sizeof(*hello)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c;

    memset(&control, 0, sizeof(control));
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &hand_over, sizeof(int));
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The one fd of a message, -1 if there is none. The control buffer has room for one: the kernel closes
 * others. */
static int fd_of(struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    int fd = -1;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(int));
    return fd;
}

int sn_meet_hear(int fd, struct sn_hello *hello, int *fd_got)
{
    struct iovec iov = {hello, sizeof(*hello)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
    *fd_got = fd_of(&msg);
    if (n == 0 && *fd_got < 0) return -EPIPE;
    if (n == sizeof(*hello) && !(msg.msg_flags & MSG_TRUNC) && *fd_got >= 0 &&
        hello->magic == SN_HELLO_MAGIC && hello->version == SN_SHARE_VERSION && hello->slot < 256)
        return 0;
    if (*fd_got >= 0) close(*fd_got);
    return -EPROTO;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

int sn_share_make(size_t size, bool read_only, void **at)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW, err = 0,
        fd = memfd_create("gpuwire", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) return -errno;
    *at = MAP_FAILED;
    if (ftruncate(fd, (off_t)size) == 0)
        *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    /* Our mapping, made before the seal, stays writable. A kernel that has no such seal (before 5.1) lets
     * peers write, who are processes of the same user. */
    if (*at == MAP_FAILED || fcntl(fd, F_ADD_SEALS, seals)) err = -errno;
    if (!err && read_only && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) && errno != EINVAL) err = -errno;
    if (!err) return fd;
    if (*at != MAP_FAILED) munmap(*at, size);
    close(fd);
    return err;
}

int sn_share_map(int fd, size_t size, bool write, void **at)
{
    int seals = fcntl(fd, F_GET_SEALS);
    off_t end = lseek(fd, 0, SEEK_END);

    /* A file that cannot shrink cannot end in SIGBUS. */
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || end != (off_t)size) return -EPROTO;
    *at = mmap(NULL, size, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return *at == MAP_FAILED ? -errno : 0;
}
