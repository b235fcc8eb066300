/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XRC domains. A program names one by a file that it has open. Another that names the same file, through any
 * context of this process, gets the same domain. (A kernel shares them between processes too; here each
 * process is a NIC of its own.)
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include <gpuwire/detail/held.h>

#include "softnic/uverbs/object.h"

struct uv_domain {
    struct uv_domain *next;
    struct sn_nic *nic;
    struct sn_xrcd *xrcd;
    int fd; /* keeps the file's number from becoming another's; -1: a domain that is not shared */
    dev_t dev;
    ino_t ino;
    unsigned holders;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct uv_domain *domains;

static struct uv_domain *uv_xrcd_find(const struct sn_nic *nic, const struct stat *st)
{
    GW_ASSERT_HELD(&lock);
    struct uv_domain *d = domains;
    while (d && (d->nic != nic || d->fd < 0 || d->dev != st->st_dev || d->ino != st->st_ino)) d = d->next;
    return d;
}

static void uv_xrcd_drop(struct uv_domain *d)
{
    GW_ASSERT_HELD(&lock);
    GW_ASSERT(d->holders > 0);
    if (--d->holders) return;
    for (struct uv_domain **p = &domains; *p; p = &(*p)->next) {
        if (*p != d) continue;
        *p = d->next;
        break;
    }
    if (d->xrcd) sn_xrcd_destroy(d->xrcd);
    if (d->fd >= 0) close(d->fd);
    free(d);
}

/* st NULL: a domain of its own, which has no name. */
static int uv_xrcd_make(struct sn_nic *nic, int fd, const struct stat *st, struct uv_domain **out)
{
    struct uv_domain *d = calloc(1, sizeof(*d));

    GW_ASSERT_HELD(&lock);
    if (!d) return -ENOMEM;
    *d = (struct uv_domain){.next = domains, .nic = nic, .fd = -1, .holders = 1};
    domains = d;
    int err = sn_xrcd_create(nic, &d->xrcd);
    if (!err && st) {
        d->dev = st->st_dev;
        d->ino = st->st_ino;
        d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (d->fd < 0) err = -errno;
    }
    if (err)
        uv_xrcd_drop(d);
    else
        *out = d;
    return err;
}

/* As the kernel has it: without O_CREAT there must be one, with O_EXCL there must be none. */
static int open_domain(struct sn_nic *nic, int fd, uint32_t flags, struct uv_domain **out)
{
    struct stat st;

    if (flags & ~(uint32_t)(O_CREAT | O_EXCL)) return -EINVAL;
    if (fd == -1) return flags & O_CREAT ? uv_xrcd_make(nic, fd, NULL, out) : -EINVAL;
    if (fstat(fd, &st)) return -EBADF;
    struct uv_domain *d = uv_xrcd_find(nic, &st);
    if (!d) return flags & O_CREAT ? uv_xrcd_make(nic, fd, &st, out) : -EAGAIN;
    if (flags & O_EXCL) return -EINVAL;
    d->holders++;
    *out = d;
    return 0;
}

int uv_open_xrcd(const struct uv_cmd *c)
{
    const struct ib_uverbs_open_xrcd *req = c->in;
    struct uv_xrcd *xrcd = uv_new(c->file, UV_XRCD, sizeof(*xrcd));

    if (!xrcd) return -ENOMEM;
    pthread_mutex_lock(&lock);
    int err = open_domain(c->file->nic, (int)req->fd, req->oflags, &xrcd->domain);
    pthread_mutex_unlock(&lock);
    if (err) {
        uv_free(c->file, &xrcd->obj);
        return err;
    }
    struct ib_uverbs_open_xrcd_resp r = {.xrcd_handle = xrcd->obj.handle};
    err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (err) uv_destroy(c->file, &xrcd->obj);
    return err;
}

void uv_xrcd_end(struct uv_file *f, struct uv_xrcd *xrcd)
{
    (void)f;
    pthread_mutex_lock(&lock);
    uv_xrcd_drop(xrcd->domain);
    pthread_mutex_unlock(&lock);
}

void uv_xrcds_forget(void)
{
    pthread_mutex_init(&lock, NULL); /* another thread of the parent may have held it */
    domains = NULL;
}

struct sn_xrcd *uv_xrcd_of(const struct uv_xrcd *xrcd)
{
    return xrcd->domain->xrcd;
}

int uv_close_xrcd(const struct uv_cmd *c)
{
    const struct ib_uverbs_close_xrcd *req = c->in;
    struct uv_xrcd *xrcd = uv_find(c->file, UV_XRCD, req->xrcd_handle);
    return xrcd ? uv_destroy(c->file, &xrcd->obj) : -EINVAL;
}
