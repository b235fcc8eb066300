/* SPDX-License-Identifier: Apache-2.0 */
/* Passes files of GPU memory to another process, or asks for them. */
#include "softnic/local/lend.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softnic/local/meet.h"

enum { PATIENCE_MS = 5000 }; /* a process that is not let run may take long to answer */

struct answer {
    uint64_t magic;
    uint64_t size[SN_CUDA_FILES];
};

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * SN_CUDA_FILES)];
};

/* ---- who has them -------------------------------------------------------------------------------------- */

bool sn_lend_asked(int fd, struct sn_want *want)
{
    uint64_t magic = 0;

    if (recv(fd, &magic, sizeof(magic), MSG_DONTWAIT | MSG_PEEK) != sizeof(magic) || magic != SN_WANT_MAGIC)
        return false;
    if (recv(fd, want, sizeof(*want), MSG_DONTWAIT | MSG_TRUNC) != sizeof(*want) ||
        want->version != SN_SHARE_VERSION)
        memset(want, 0, sizeof(*want)); /* no region's */
    return true;
}

void sn_lend(int fd, const struct sn_gpu_share *share)
{
    struct sn_cuda_files files;
    struct answer answer = {.magic = SN_WANT_MAGIC};
    struct iovec iov = {&answer, sizeof(answer)};
    union control control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
    struct cmsghdr *c;

    if (!sn_cuda_files(share, &files)) return;
    memset(&control, 0, sizeof(control));
    memcpy(answer.size, files.size, files.n * sizeof(answer.size[0]));
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * files.n);
    c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * files.n);
    memcpy(CMSG_DATA(c), files.fd, sizeof(int) * files.n);
    if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) { /* the other sees that none came */
    }
    sn_cuda_files_close(&files);
}

/* ---- who wants them ------------------------------------------------------------------------------------ */

static int lend_ask(const uint8_t name[SN_MEET_NAME], pid_t pid, uint32_t key,
                    const struct sn_gpu_share *share)
{
    struct sn_want want = {.magic = SN_WANT_MAGIC, .version = SN_SHARE_VERSION, .key = key, .share = *share};
    int fd = sn_meet_connect(name);
    pid_t there;

    if (fd < 0) return -1;
    if (sn_meet_is_ours(fd, &there) && there == pid &&
        send(fd, &want, sizeof(want), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(want))
        return fd;
    close(fd);
    return -1;
}

/* All that came, whatever it is; the control buffer has room for these, and the kernel closes others. */
static void take_files(struct msghdr *msg, struct sn_cuda_files *files)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    files->n = 0;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0)) return;
    files->n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    if (files->n > SN_CUDA_FILES) files->n = SN_CUDA_FILES;
    memcpy(files->fd, CMSG_DATA(c), sizeof(int) * files->n);
}

static bool lend_hear(int fd, const struct sn_gpu_share *share, struct sn_cuda_files *files)
{
    struct answer answer;
    struct iovec iov = {&answer, sizeof(answer)};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0) return false;
    take_files(&msg, files);
    if (n == sizeof(answer) && !(msg.msg_flags & MSG_TRUNC) && answer.magic == SN_WANT_MAGIC && files->n &&
        files->n == share->files) {
        memcpy(files->size, answer.size, files->n * sizeof(answer.size[0]));
        return true;
    }
    sn_cuda_files_close(files);
    return false;
}

bool sn_borrow(const uint8_t name[SN_MEET_NAME], pid_t pid, uint32_t key, const struct sn_gpu_share *share,
               struct sn_cuda_files *files)
{
    int fd = lend_ask(name, pid, key, share);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool ok;

    files->n = 0;
    if (fd < 0) return false;
    ok = poll(&p, 1, PATIENCE_MS) == 1 && lend_hear(fd, share, files);
    close(fd);
    return ok;
}
