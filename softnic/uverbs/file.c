/* SPDX-License-Identifier: Apache-2.0 */
/* Open files: the table of our fds, handles, and what close() takes down. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/errno_text.h"
#include "softnic/cm/cm.h"
#include "softnic/runtime/process.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define MAX_FD      65536u
#define INDEX_BITS  20
#define INDEX_LIMIT (1u << INDEX_BITS)

/* An fd of ours is a command fd (file) or an event fd (stream). */
struct entry {
    struct uv_file *file;
    struct uv_stream *stream;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry table[MAX_FD];
static unsigned char is_command[MAX_FD]; /* read without the lock: calls on other fds pass by here too */
static struct sn_nic *driven[MAX_FD];    /* by command fd; likewise */
static unsigned generation;
static uint32_t next_tag;
static int open_files, highest_fd;

bool uv_is_command_fd(int fd)
{
    /* Relaxed: the user of an fd got it, in an ordered way, from the thread that opened it. */
    return fd >= 0 && (unsigned)fd < MAX_FD && __atomic_load_n(&is_command[fd], __ATOMIC_RELAXED);
}

int uv_open_files(void)
{
    return __atomic_load_n(&open_files, __ATOMIC_RELAXED);
}

static void uv_file_begin(struct uv_file *f)
{
    GW_ASSERT_HELD(&table_lock);
    f->generation = generation;
    f->tag = ++next_tag & ((1u << (32 - INDEX_BITS)) - 1);
}

static void uv_file_name(struct uv_file *f, int fd)
{
    GW_ASSERT_HELD(&table_lock);
    if (fd > highest_fd) highest_fd = fd;
    f->names++;
    table[fd] = (struct entry){.file = f};
    __atomic_store_n(&is_command[fd], 1, __ATOMIC_RELAXED);
}

int uv_open(int flags, unsigned index)
{
    struct uv_file *f = calloc(1, sizeof(*f));
    if (!f) return -ENOMEM;
    /* libibverbs checks that what it opened is a character device with the numbers that the tree names. */
    int fd = open("/dev/null", flags & ~(O_CREAT | O_EXCL | O_TRUNC));
    if (fd < 0 || (unsigned)fd >= MAX_FD) {
        int err = fd < 0 ? -errno : -EMFILE;
        if (fd >= 0) close(fd);
        fprintf(stderr, "gpuwire: cannot open the device: %s\n", sn_errno_text(-err));
        free(f);
        return err;
    }
    pthread_mutex_init(&f->lock, NULL);
    f->refs = 1;
    f->fd = fd;
    f->index = index;
    pthread_mutex_lock(&table_lock);
    uv_file_begin(f);
    uv_file_name(f, fd);
    open_files++;
    pthread_mutex_unlock(&table_lock);
    return fd;
}

static struct uv_file *file_get(int fd)
{
    if (!uv_is_command_fd(fd)) return NULL;
    pthread_mutex_lock(&table_lock);
    struct uv_file *f = table[fd].file;
    if (f) __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&table_lock);
    return f;
}

static void file_put(struct uv_file *f)
{
    /* Acquire-release: the thread that frees it sees all that others did to it before they let go. */
    if (__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL)) return;
    pthread_mutex_destroy(&f->lock);
    free(f->objects);
    free(f);
}

int uv_fd_add_stream(int fd, struct uv_stream *s)
{
    if (fd < 0 || (unsigned)fd >= MAX_FD) return -EMFILE;
    pthread_mutex_lock(&table_lock);
    if (fd > highest_fd) highest_fd = fd;
    table[fd] = (struct entry){.stream = uv_stream_get(s)};
    pthread_mutex_unlock(&table_lock);
    return 0;
}

struct uv_stream *uv_stream_of_fd(const struct uv_file *f, int fd)
{
    struct uv_stream *s = NULL;

    if (fd < 0 || (unsigned)fd >= MAX_FD) return NULL;
    pthread_mutex_lock(&table_lock);
    if (table[fd].stream && uv_stream_owner(table[fd].stream) == f) s = uv_stream_get(table[fd].stream);
    pthread_mutex_unlock(&table_lock);
    return s;
}

/* ---- handles ---- */

static bool uv_file_grow(struct uv_file *f)
{
    uint32_t room = f->object_room ? 2 * f->object_room : 64;
    if (room > INDEX_LIMIT) return false;
    struct uv_object **bigger = realloc(f->objects, room * sizeof(*bigger));
    if (!bigger) return false;
    for (uint32_t i = f->object_room; i < room; i++) bigger[i] = NULL;
    f->objects = bigger;
    f->object_room = room;
    return true;
}

void *uv_new(struct uv_file *f, enum uv_type type, size_t size)
{
    GW_ASSERT_HELD(&f->lock);
    uint32_t i = f->first_free;
    while (i < f->object_room && f->objects[i]) i++;
    if (i == f->object_room && !uv_file_grow(f)) return NULL;
    struct uv_object *o = calloc(1, size);
    if (!o) return NULL;
    o->type = type;
    o->handle = f->tag << INDEX_BITS | i;
    f->objects[i] = o;
    f->first_free = i + 1;
    return o;
}

void *uv_find(struct uv_file *f, enum uv_type type, uint32_t handle)
{
    GW_ASSERT_HELD(&f->lock);
    uint32_t i = handle & (INDEX_LIMIT - 1);
    if (handle >> INDEX_BITS != f->tag || i >= f->object_room) return NULL;
    struct uv_object *o = f->objects[i];
    return o && o->type == type ? o : NULL;
}

uint32_t uv_index_of(const struct uv_object *o)
{
    return o->handle & (INDEX_LIMIT - 1);
}

void *uv_find_at(struct uv_file *f, enum uv_type type, uint64_t index)
{
    return index < INDEX_LIMIT ? uv_find(f, type, f->tag << INDEX_BITS | (uint32_t)index) : NULL;
}

void uv_free(struct uv_file *f, struct uv_object *o)
{
    GW_ASSERT_HELD(&f->lock);
    uint32_t i = uv_index_of(o);
    GW_ASSERT(f->objects[i] == o && !o->users);
    f->objects[i] = NULL;
    if (i < f->first_free) f->first_free = i;
    uv_unlock_pages(o);
    free(o);
}

int uv_destroy(struct uv_file *f, struct uv_object *o)
{
    GW_ASSERT_HELD(&f->lock);
    if (o->users) return -EBUSY;
    switch (o->type) {
    case UV_PD: uv_pd_end(f, (struct uv_pd *)o); break;
    case UV_MR: uv_mr_end(f, (struct uv_mr *)o); break;
    case UV_CQ: uv_cq_end(f, (struct uv_cq *)o); break;
    case UV_QP: uv_qp_end(f, (struct uv_qp *)o); break;
    case UV_MW: uv_mw_end(f, (struct uv_mw *)o); break;
    case UV_XRCD: uv_xrcd_end(f, (struct uv_xrcd *)o); break;
    case UV_SRQ: uv_srq_end(f, (struct uv_srq *)o); break;
    case UV_AH: ((struct uv_ah *)o)->pd->obj.users--; break;
    case UV_DM: uv_dm_end(f, (struct uv_dm *)o); break;
    case UV_UAR: uv_uar_end(f, (struct uv_uar *)o); break;
    }
    uv_free(f, o);
    return 0;
}

/* ---- close ---- */

/* Users before what they use: QPs and AHs and MRs, then SRQs, CQs, pages, domains. */
static void destroy_all(struct uv_file *f)
{
    static const enum uv_type order[] = {UV_QP,  UV_AH, UV_MW,  UV_MR,   UV_DM,
                                         UV_SRQ, UV_CQ, UV_UAR, UV_XRCD, UV_PD};

    for (size_t t = 0; t < sizeof(order) / sizeof(order[0]); t++)
        for (uint32_t i = 0; i < f->object_room; i++)
            if (f->objects[i] && f->objects[i]->type == order[t]) uv_destroy(f, f->objects[i]);
}

/* The parent owns all that a child inherited, and threads that are not here may hold its locks: leave it
 * alone. */
static bool uv_file_inherited(const struct uv_file *f)
{
    return f->generation != __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

/* Read by the wrappers of posting and polling, without the lock. */
static void set_driven(int fd, struct sn_nic *nic)
{
    /* Release pairs with the acquire below: the NIC's memory is seen as it was when it was handed over. */
    __atomic_store_n(&driven[fd], nic, __ATOMIC_RELEASE);
}

struct sn_nic *uv_driven(const struct ibv_context *ctx)
{
    (void)__atomic_load_n(&uv_wrapped, __ATOMIC_ACQUIRE); /* before anything of ctx is read: see there */
    unsigned fd = (unsigned)ctx->cmd_fd;
    return fd < MAX_FD ? __atomic_load_n(&driven[fd], __ATOMIC_ACQUIRE) : NULL;
}

const struct sn_process_callbacks uv_callbacks = {uv_on_cq_event, uv_on_async_event,  ucm_on_mad,
                                                  ucm_on_refused, uv_on_device_event, NULL};

int uv_take_nic(struct uv_file *f)
{
    struct sn_process_info info;
    int err = sn_process_nic_get(f->index, &uv_callbacks, &f->nic);

    GW_ASSERT_HELD(&f->lock);
    if (err) return err;
    f->memlock = !sn_process_nic_info(f->index, &info) && info.config.memlock;
    set_driven(f->fd, f->nic);
    return 0;
}

/* The fd may be another file's by now: the closing thread has taken it out of the tables. */
static void give_nic(struct sn_nic *nic)
{
    if (nic) sn_process_nic_put(nic);
}

void uv_give_nic(struct uv_file *f)
{
    GW_ASSERT_HELD(&f->lock);
    set_driven(f->fd, NULL);
    give_nic(f->nic);
    f->nic = NULL;
}

static void uv_file_close(struct uv_file *f)
{
    if (uv_file_inherited(f)) return;
    pthread_mutex_lock(&f->lock);
    f->closed = true;
    destroy_all(f);
    uv_uars_end(f);
    uv_stream_put(f->async);
    f->async = NULL;
    struct sn_nic *nic = f->nic;
    f->nic = NULL;
    pthread_mutex_unlock(&f->lock);
    give_nic(nic);
    file_put(f);
}

void uv_close(int fd)
{
    if (fd < 0 || (unsigned)fd >= MAX_FD) return;
    pthread_mutex_lock(&table_lock);
    struct entry e = table[fd];
    table[fd] = (struct entry){0};
    bool last = e.file && !--e.file->names;
    if (e.file) {
        __atomic_store_n(&is_command[fd], 0, __ATOMIC_RELAXED);
        set_driven(fd, NULL);
        open_files -= last;
    }
    pthread_mutex_unlock(&table_lock);
    if (e.stream) {
        uv_stream_close_reader(e.stream);
        uv_stream_put(e.stream);
    }
    if (last) uv_file_close(e.file);
}

/* ---- copies of an fd ---- */

static bool is_null(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/*
 * Do two fds stand for one open file? A lock that belongs to the one's open file stands in everybody's way
 * but its own. (kcmp() would tell, too, but sandboxes forbid it.) Each process asks at a byte of its own.
 */
static bool same_open_file(int a, int b)
{
    struct flock own = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = getpid(), .l_len = 1};
    struct flock other = own;

    if (fcntl(a, F_OFD_SETLK, &own)) return false;
    other.l_type = F_WRLCK;
    bool same = !fcntl(b, F_OFD_GETLK, &other) && other.l_type == F_UNLCK;
    own.l_type = F_UNLCK;
    (void)fcntl(a, F_OFD_SETLK, &own);
    return same;
}

bool uv_adopt(int fd)
{
    struct uv_file *f = NULL;

    if (fd < 0 || (unsigned)fd >= MAX_FD || !uv_open_files() || !is_null(fd)) return false;
    pthread_mutex_lock(&table_lock);
    for (int i = 0; i <= highest_fd && !f; i++)
        if (table[i].file && same_open_file(i, fd)) f = table[i].file;
    if (f) {
        uv_file_name(f, fd);
        set_driven(fd, f->nic);
    }
    pthread_mutex_unlock(&table_lock);
    return f;
}

/* ---- requests ---- */

int uv_refuse_child(void)
{
    static int said;
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        fprintf(stderr, "gpuwire: a software NIC that was opened before fork() works in the parent only; "
                        "open the device in the child\n");
    return -EIO;
}

/* In a child: puts a file without a NIC in the place of the parent's, whose locks no thread here can release.
 */
static struct uv_file *in_its_place(int fd, const struct uv_file *parents)
{
    struct uv_file *f = calloc(1, sizeof(*f));

    if (!f) return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->refs = 1;
    f->fd = fd;
    f->index = parents->index;
    f->child = true;
    pthread_mutex_lock(&table_lock);
    bool first = table[fd].file == parents;
    if (first) {
        uv_file_begin(f);
        uv_file_name(f, fd);
    }
    pthread_mutex_unlock(&table_lock);
    if (!first) file_put(f); /* another thread was faster */
    return file_get(fd);
}

int uv_enter(int fd, struct uv_file **out)
{
    struct uv_file *f = file_get(fd);

    if (!f) return -EBADF;
    if (uv_file_inherited(f)) f = in_its_place(fd, f);
    if (!f) return -ENOMEM;
    pthread_mutex_lock(&f->lock);
    *out = f;
    if (!f->closed) return 0;
    uv_leave(f);
    return -EBADF;
}

void uv_leave(struct uv_file *f)
{
    pthread_mutex_unlock(&f->lock);
    file_put(f);
}

void uv_context_ready(struct ibv_context *ctx)
{
    struct uv_file *f;

    if (!uv_is_command_fd(ctx->cmd_fd) || uv_enter(ctx->cmd_fd, &f)) return;
    if (!f->child) f->unwrapped = ctx;
    uv_leave(f);
}

int uv_ioctl(int fd, unsigned long request, uint64_t arg)
{
    struct uv_file *f;
    int err = uv_enter(fd, &f);

    if (err) return err;
    if (f->unwrapped) uv_wrap_context(f->unwrapped);
    f->unwrapped = NULL;
    err = request == RDMA_VERBS_IOCTL ? uv_decode(f, arg) : -ENOTTY;
    uv_leave(f);
    return err;
}

void uv_on_device_event(struct sn_nic *nic, enum ibv_event_type type)
{
    bool port = type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE;
    struct ib_uverbs_async_event_desc d = {.element = port, .event_type = type}; /* there is one port */
    struct uv_file *f;
    int last;

    pthread_mutex_lock(&table_lock);
    last = highest_fd;
    pthread_mutex_unlock(&table_lock);
    for (int fd = 0; fd <= last; fd++) {
        if (!uv_is_command_fd(fd) || uv_enter(fd, &f)) continue;
        if (f->fd == fd && f->nic == nic && f->async) uv_stream_send(f->async, &d);
        uv_leave(f);
    }
}

/* ---- fork ---- */

void uv_fork_prepare(void)
{
    pthread_mutex_lock(&table_lock);
}

void uv_fork_parent(void)
{
    pthread_mutex_unlock(&table_lock);
}

void uv_fork_child(void)
{
    __atomic_add_fetch(&generation, 1, __ATOMIC_RELAXED);
    for (int fd = 0; fd <= highest_fd; fd++) {
        table[fd].stream = NULL;
        driven[fd] = NULL;
    }
    uv_streams_forget();
    uv_xrcds_forget();
    uv_locked_fork_child();
    pthread_mutex_unlock(&table_lock);
}
