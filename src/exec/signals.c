/* SPDX-License-Identifier: Apache-2.0 */
/* Catches the signals that end a program, so that it can clean up. */
#include <gpuwire/signals.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/options.h>

static unsigned signals; /* two may come at once, each to another thread */
static int signal_fd = -1;

static void on_signal(int number)
{
    uint64_t one = 1;
    int saved = errno;

    if (__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (write(signal_fd, &one, sizeof(one)) < 0) { /* it is full of earlier ones: readable anyway */
    }
    errno = saved;
}

void gw_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int gw_interrupted(void)
{
    return __atomic_load_n(&signals, __ATOMIC_RELAXED) != 0;
}

int gw_interrupt_fd(void)
{
    return signal_fd;
}

int gw_exit_code(bool failed)
{
    return gw_interrupted() ? GW_EXIT_INTERRUPTED : failed ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
