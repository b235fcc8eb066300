/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A helper: a thread of the CPU that does what kernels ask for through memory that both see, and how the two
 * wait for each other.
 *
 * The helper looks, and sleeps when there is nothing to do. CPU threads wake it. Kernels on a GPU cannot:
 * there it looks again 20 µs after it had something to do, and ever more rarely down to once in a millisecond
 * (gw_nap_ns). A thread that waits for the helper takes the count of its news, and looks. Then it sleeps
 * until there are more news than that. Kernels on a GPU look again and again.
 */
#ifndef GW_EXEC_HELPER_H
#define GW_EXEC_HELPER_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/exec.h>

enum { GW_HELPER_FDS = 3 };

struct gw_helper {
    bool (*look)(void *arg); /* does what there is to do; whether there was anything */
    /* Waits in place of the helper, when it has more to wait for: until fd[0] or whatever else, for ns at
     * most (0: not at all), and empties fd[0]. False: let the helper wait. NULL: it does always. */
    bool (*wait)(void *arg, uint64_t ns);
    void (*enter)(void *arg); /* in its thread, before the first look; or NULL */
    void (*leave)(void *arg); /* … and after the last one */
    void *arg;
    bool polled, running;
    bool busy;          /* it never sleeps: a processor of its own, for the sake of latency */
    uint64_t linger_ns; /* how long it looks on while its sleeps turn out to be shorter; 0: it does not */
    bool brief;         /* the last one did */
    int fd[1 + GW_HELPER_FDS]; /* [0]: wakes it. The others too, and look empties them; -1: none */
    uint32_t stop, asleep;
    uint32_t news; /* a futex */
    uint32_t sleepers;
    int poll_fd;      /* told for each of those who wait for descriptors as well, */
    uint32_t pollers; /* … and their number */
    pthread_t thread;
};

/*
 * How long a thread sleeps that is not woken, after it has had nothing to do for idle_ns. It is a sixteenth
 * of that, so that it sees an event after an idle time t at most t/16 later. It is 20 µs at least, and `most`
 * at most.
 */
uint64_t gw_nap_ns(uint64_t idle_ns, uint64_t max_ns);
/* The calling thread's sleeps end when they should. Otherwise they take up to 50 µs more, which is more than
 * a nap. */
void gw_nap_exactly(void);

/* A count of news on which CPU threads of this process sleep, and how many do. The first adds one. The second
 * waits until the count is another than `seen`, for 1 s at most. It may return for no reason. */
void gw_news_tell(uint32_t *news, uint32_t *sleepers);
void gw_news_wait(uint32_t *news, uint32_t *sleepers, uint32_t seen, uint64_t deadline_ns);

/* Before anything else; a helper that was never started may be stopped then, and woken. 0, or -errno. */
int gw_helper_init(struct gw_helper *h, const struct gw_exec *exec, bool (*look)(void *arg), void *arg);
int gw_helper_start(struct gw_helper *h, const char *name);
/* Waits for the end of the look that is under way; frees what init made. */
void gw_helper_stop(struct gw_helper *h);

/* Any thread, after it has written what the helper is to see. */
void gw_helper_wake(struct gw_helper *h);

/* The helper calls it, or a thread that changed something that others wait for, after the change. */
void gw_helper_tell(struct gw_helper *h);
uint32_t gw_helper_news(const struct gw_helper *h);
/* Until there are more news than that; 1 s at most, and now and then for no reason. */
void gw_helper_wait(struct gw_helper *h, uint32_t news, uint64_t deadline_ns);
/* The same, or until one of the descriptors fds[1] … fds[n - 1] has what it is asked for; fds[0] is filled in
 * here. Of several threads one may miss the news: callers look again now and then. */
void gw_helper_poll(struct gw_helper *h, uint32_t news, struct pollfd *fds, uint32_t n, uint64_t deadline_ns);

#endif
