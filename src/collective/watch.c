/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for deaths of members, and tells the kernels, which poll a word. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/collective/comm.h"

uint64_t gw_comm_fault_word(const struct gw_comm *c)
{
    const struct gw_coll_front_ *front = c->small.host;
    uint64_t fault = 0;

    if (front) return gw_ld_acquire_u64(&front->fault);
    gw_copy_out(c->exec, &fault, &c->h.front->fault, sizeof(fault));
    return fault;
}

/* A kernel, or a peer's NIC, may write the word at the same time: either is true. */
static void watch_dead(struct gw_comm *c, uint32_t member)
{
    struct gw_coll_front_ *front = c->small.host;
    uint64_t fault = gw_coll_fault_(-ECONNRESET, member, 0);

    if (gw_comm_fault_word(c)) return;
    if (front)
        gw_st_release_u64(&front->fault, fault);
    else
        gw_copy_in(c->exec, &c->h.front->fault, &fault, sizeof(fault));
}

static void *watch_run(void *arg)
{
    struct gw_comm *c = arg;
    struct pollfd p[2] = {{.fd = c->death_fd, .events = POLLIN}, {.fd = c->stop_fd, .events = POLLIN}};
    uint32_t dead;

    for (;;) {
        if (poll(p, 2, -1) < 0) continue;
        if (p[1].revents) return NULL;
        if (!p[0].revents) continue;
        if (read(c->death_fd, &dead, sizeof(dead)) != sizeof(dead)) {
            p[0].fd = -1; /* this process has left: there is nothing more to hear */
            continue;
        }
        for (uint32_t i = 0; i < c->size; i++)
            if (c->members[i] == dead) watch_dead(c, i);
    }
}

int gw_comm_watch(struct gw_comm *c)
{
    sigset_t all, before;
    int err;

    c->death_fd = gw_ranks_watch(c->ranks);
    if (c->death_fd < 0) return c->death_fd;
    c->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (c->stop_fd < 0) return gw_error_errno(-errno, "communicator: eventfd");
    sigfillset(&all); /* the program's own threads handle its signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = -pthread_create(&c->watcher, NULL, watch_run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) return gw_error_errno(err, "communicator: thread");
    pthread_setname_np(c->watcher, "gw-comm");
    c->watched = true;
    return 0;
}

void gw_comm_watch_end(struct gw_comm *c)
{
    uint64_t one = 1;

    if (c->watched && write(c->stop_fd, &one, sizeof(one)) == sizeof(one)) pthread_join(c->watcher, NULL);
    if (c->death_fd >= 0) close(c->death_fd);
    if (c->stop_fd >= 0) close(c->stop_fd);
}
