/* SPDX-License-Identifier: Apache-2.0 */
/* Open rdma_cm devices: the table of our fds. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softnic/cm/abi.h"
#include "softnic/cm/cm.h"
#include "softnic/cm/service.h"
#include "softnic/mem/usercopy.h"

#define MAX_FD 65536u

struct open_file {
    struct cm_file file; /* first: the one is the other */
    int refs;            /* atomic: the table's, and one for each call in progress */
    unsigned generation; /* of the process: another one after fork */
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_file *table[MAX_FD];
static unsigned char is_ours[MAX_FD]; /* read without the lock: calls on other fds pass by here too */
static unsigned generation;

bool ucm_is_fd(int fd)
{
    /* Relaxed: the user of an fd got it, in an ordered way, from the thread that opened it. */
    return fd >= 0 && (unsigned)fd < MAX_FD && __atomic_load_n(&is_ours[fd], __ATOMIC_RELAXED);
}

int ucm_open(int flags, const struct sn_process_callbacks *callbacks)
{
    struct open_file *f = calloc(1, sizeof(*f));
    int fds[2], own;

    if (!f) return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_STREAM | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0), 0, fds)) {
        free(f);
        return -errno;
    }
    /* A number of our own for the program's end. A thread that waits there goes on waiting when the program
     * closes its number, as it would in the kernel. Programs leave one when they end. */
    own = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    if ((unsigned)fds[0] >= MAX_FD || own < 0 || fcntl(fds[1], F_SETFD, FD_CLOEXEC) ||
        (flags & O_NONBLOCK && fcntl(fds[0], F_SETFL, O_NONBLOCK))) {
        close(fds[0]);
        close(fds[1]);
        if (own >= 0) close(own);
        free(f);
        return -EMFILE;
    }
    cm_service();
    cm_service_use(callbacks);
    cm_file_init(&f->file, own, fds[1]);
    f->refs = 1;
    pthread_mutex_lock(&table_lock);
    f->generation = generation;
    table[fds[0]] = f;
    __atomic_store_n(&is_ours[fds[0]], 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&table_lock);
    return fds[0];
}

static struct open_file *cm_file_get_open(int fd)
{
    struct open_file *f;

    if (!ucm_is_fd(fd)) return NULL;
    pthread_mutex_lock(&table_lock);
    f = table[fd];
    if (f) __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&table_lock);
    return f;
}

static void cm_file_put_open(struct open_file *f)
{
    /* Acquire-release: the thread that frees it sees all that others did to it before they let go. */
    if (__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL)) return;
    close(f->file.fd);
    close(f->file.token);
    free(f);
}

static bool cm_file_inherited(const struct open_file *f)
{
    return f->generation != __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

struct cm_file *cm_file_get(int fd)
{
    struct open_file *f = cm_file_get_open(fd);

    if (f && !cm_file_inherited(f)) return &f->file;
    if (f) cm_file_put_open(f);
    return NULL;
}

void cm_file_put(struct cm_file *file)
{
    cm_file_put_open((struct open_file *)file);
}

void ucm_close(int fd)
{
    struct open_file *f;

    if (!ucm_is_fd(fd)) return;
    pthread_mutex_lock(&table_lock);
    f = table[fd];
    table[fd] = NULL;
    __atomic_store_n(&is_ours[fd], 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&table_lock);
    if (!f) return;
    if (cm_file_inherited(f)) { /* what it belongs to is the parent's; absent threads may hold its locks */
        close(f->file.fd);
        close(f->file.token);
        return;
    }
    struct cm *cm = cm_service();
    pthread_mutex_lock(&cm->lock);
    cm_file_end(cm, &f->file);
    pthread_mutex_unlock(&cm->lock);
    cm_file_put_open(f);
}

static int read_command(struct cm_call *c, const void *buf, size_t bytes, uint32_t *command)
{
    struct rdma_ucm_cmd_hdr hdr;

    if (bytes < sizeof(hdr)) return -EINVAL;
    if (uv_copy_in(&hdr, (uint64_t)(uintptr_t)buf, sizeof(hdr))) return -EFAULT;
    if (hdr.in + sizeof(hdr) > bytes) return -EINVAL;
    memset(&c->in, 0, sizeof(c->in));
    *command = hdr.cmd;
    c->out_len = hdr.out;
    return uv_copy_in(&c->in, (uint64_t)(uintptr_t)buf + sizeof(hdr),
                      hdr.in < sizeof(c->in) ? hdr.in : sizeof(c->in));
}

ssize_t ucm_write(int fd, const void *buf, size_t bytes)
{
    struct open_file *f = cm_file_get_open(fd);
    struct cm_call c;
    uint32_t command;
    int err;

    if (!f) return -EBADF;
    c.file = &f->file;
    err = cm_file_inherited(f) ? -EIO : read_command(&c, buf, bytes, &command);
    if (!err) err = cm_command(&c, command);
    cm_file_put_open(f);
    return err ? err : (ssize_t)bytes;
}

/* ---- fork ---------------------------------------------------------------------------------------------- */

void ucm_fork_prepare(void)
{
    pthread_mutex_lock(&table_lock);
}

void ucm_fork_parent(void)
{
    pthread_mutex_unlock(&table_lock);
}

void ucm_fork_child(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);
    cm_service_fork_child();
    pthread_mutex_unlock(&table_lock);
}
