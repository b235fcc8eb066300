/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers completion and async events by pipes, and keeps what a full pipe does not take. */
#include "softnic/uverbs/events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/errno_text.h"

#define MAX_RECORD 16

/*
 * A pipe carries the records: reads and writes of this size are atomic, poll() works on it, and it ends with
 * its holders. When it is full, records wait in `backlog`, in order, and move into the pipe at the next
 * occasion.
 */
static int streams_with_backlog;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct uv_stream *list;

struct uv_stream {
    pthread_mutex_t lock;
    struct uv_stream *next;
    int refs;
    size_t record;
    const void *owner;
    /* read_fd is not the program's: same pipe, a description (so a blocking mode) of its own */
    int read_fd, write_fd;
    unsigned char *backlog;
    size_t waiting, room; /* records */
};

/* libibverbs reports no reason, so this does. The pipe's ends, and the first one again. */
static int open_pipe(int pipe_fd[2], int *again)
{
    char self[32];
    int err = 0;

    if (pipe2(pipe_fd, O_CLOEXEC)) {
        err = -errno;
    } else {
        snprintf(self, sizeof(self), "/proc/self/fd/%d", pipe_fd[0]);
        *again = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (*again < 0 || fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK)) {
            err = -errno;
            if (*again >= 0) close(*again);
            close(pipe_fd[0]);
            close(pipe_fd[1]);
        }
    }
    if (err) fprintf(stderr, "gpuwire: cannot make a pipe for events: %s\n", sn_errno_text(-err));
    return err;
}

int uv_stream_new(size_t record, const void *owner, int *fd, struct uv_stream **out)
{
    struct uv_stream *s = calloc(1, sizeof(*s));
    int pipe_fd[2];

    if (!s) return -ENOMEM;
    int err = open_pipe(pipe_fd, &s->read_fd);
    if (err) {
        free(s);
        return err;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->refs = 1;
    s->record = record;
    s->owner = owner;
    s->write_fd = pipe_fd[1];
    *fd = pipe_fd[0];
    *out = s;
    pthread_mutex_lock(&list_lock);
    s->next = list;
    list = s;
    pthread_mutex_unlock(&list_lock);
    return 0;
}

struct uv_stream *uv_stream_get(struct uv_stream *s)
{
    if (s) __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void uv_stream_put(struct uv_stream *s)
{
    if (!s) return;
    pthread_mutex_lock(&list_lock); /* so that a flush never meets a stream that is being freed */
    /* Acquire-release: the thread that frees it sees all that others did to it before they let go. */
    bool last = !__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL);
    for (struct uv_stream **p = &list; last && *p; p = &(*p)->next) {
        if (*p != s) continue;
        *p = s->next;
        break;
    }
    pthread_mutex_unlock(&list_lock);
    if (!last) return;
    if (s->waiting) __atomic_sub_fetch(&streams_with_backlog, 1, __ATOMIC_RELAXED);
    if (s->read_fd >= 0) close(s->read_fd);
    close(s->write_fd);
    pthread_mutex_destroy(&s->lock);
    free(s->backlog);
    free(s);
}

const void *uv_stream_owner(const struct uv_stream *s)
{
    return s->owner;
}

static bool into_pipe(struct uv_stream *s, const void *record)
{
    ssize_t n;
    do n = write(s->write_fd, record, s->record);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)s->record;
}

static void uv_events_flush(struct uv_stream *s)
{
    GW_ASSERT_HELD(&s->lock);
    size_t sent = 0;
    while (sent < s->waiting && into_pipe(s, s->backlog + sent * s->record)) sent++;
    if (!sent) return;
    s->waiting -= sent;
    memmove(s->backlog, s->backlog + sent * s->record, s->waiting * s->record);
    if (!s->waiting) __atomic_sub_fetch(&streams_with_backlog, 1, __ATOMIC_RELAXED);
}

static void uv_events_keep(struct uv_stream *s, const void *record)
{
    GW_ASSERT_HELD(&s->lock);
    if (s->waiting == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        unsigned char *bigger = realloc(s->backlog, room * s->record);
        if (!bigger) return; /* thousands of events lie unread and memory is out: this one is lost */
        s->backlog = bigger;
        s->room = room;
    }
    memcpy(s->backlog + s->waiting * s->record, record, s->record);
    if (!s->waiting++) __atomic_add_fetch(&streams_with_backlog, 1, __ATOMIC_RELAXED);
}

void uv_stream_send(struct uv_stream *s, const void *record)
{
    pthread_mutex_lock(&s->lock);
    if (s->read_fd >= 0) {
        if (s->waiting) uv_events_flush(s);
        if (s->waiting || !into_pipe(s, record)) uv_events_keep(s, record);
    }
    pthread_mutex_unlock(&s->lock);
}

void uv_streams_flush(void)
{
    /* Relaxed: a count read too early only puts the delivery off to the next call. */
    if (!__atomic_load_n(&streams_with_backlog, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&list_lock);
    for (struct uv_stream *s = list; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        if (s->waiting) uv_events_flush(s);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&list_lock);
}

static bool uv_events_is_about(const void *record, uint64_t about)
{
    uint64_t name;
    memcpy(&name, record, sizeof(name));
    return name == about;
}

/* Puts all unread records, pipe first, into one array. */
static size_t uv_events_collect(struct uv_stream *s, unsigned char **all)
{
    size_t n = 0, room = 0;
    unsigned char record[MAX_RECORD], *a = NULL;

    GW_ASSERT_HELD(&s->lock);
    while (s->read_fd >= 0 && read(s->read_fd, record, s->record) == (ssize_t)s->record) {
        if (n == room) {
            room = room ? 2 * room : 64;
            unsigned char *bigger = realloc(a, room * s->record);
            if (!bigger) break;
            a = bigger;
        }
        memcpy(a + n++ * s->record, record, s->record);
    }
    *all = a;
    return n;
}

uint32_t uv_stream_drain(struct uv_stream *s, uint64_t about)
{
    uint32_t found = 0;
    unsigned char *all;

    if (!s) return 0;
    pthread_mutex_lock(&s->lock);
    size_t n = uv_events_collect(s, &all), left = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *r = all + i * s->record;
        if (uv_events_is_about(r, about))
            found++;
        else
            into_pipe(s, r); /* there is room: it has just been taken out */
    }
    for (size_t i = 0; i < s->waiting; i++) {
        const unsigned char *r = s->backlog + i * s->record;
        if (uv_events_is_about(r, about))
            found++;
        else
            memmove(s->backlog + left++ * s->record, r, s->record);
    }
    if (s->waiting && !left) __atomic_sub_fetch(&streams_with_backlog, 1, __ATOMIC_RELAXED);
    s->waiting = left;
    pthread_mutex_unlock(&s->lock);
    free(all);
    return found;
}

void uv_stream_close_reader(struct uv_stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (s->read_fd >= 0) close(s->read_fd);
    s->read_fd = -1;
    pthread_mutex_unlock(&s->lock);
}

void uv_streams_forget(void)
{
    pthread_mutex_init(&list_lock, NULL); /* another thread of the parent may have held it */
    list = NULL;
    streams_with_backlog = 0;
}
