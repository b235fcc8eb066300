/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuwire cat: netcat whose end is a kernel. One thread moves standard input to the peer, the other what the
 * peer says to standard output; the bytes' way over the socket is the kernel's.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/cli/cat/cat.h"
#include "src/cli/cli.h"
#include "src/cli/options.h"

struct cat {
    struct cat_end end;
    int stop_fd;        /* readable: one direction has failed */
    uint32_t stop;      /* the same; atomic */
    bool file;          /* standard output is one: writing does not wait */
    int sent, received; /* how each direction ended: 0, or an error */
    char why[300];      /* of the sending one */
};

static void cat_stop(struct cat *c)
{
    uint64_t one = 1;

    gw_st_relaxed_u32(&c->stop, 1);
    (void)!write(c->stop_fd, &one, sizeof(one));
}

static bool cat_stopped(struct cat *c)
{
    return gw_interrupted() || gw_ld_relaxed_u32(&c->stop);
}

/* ---- to the peer --------------------------------------------------------------------------------------- */

/* Bytes of standard input, 0 at its end, or an error; -ECANCELED when it is to stop. */
static int64_t cat_read_some(struct cat *c)
{
    struct pollfd p[3] = {{STDIN_FILENO, POLLIN, 0}, {c->stop_fd, POLLIN, 0}, {gw_interrupt_fd(), POLLIN, 0}};
    ssize_t n;

    do {
        if (poll(p, 3, -1) < 0 && errno != EINTR) return gw_error_errno(-errno, "standard input");
        if (cat_stopped(c)) return -ECANCELED;
        n = p[0].revents ? read(STDIN_FILENO, cat_bytes(&c->end.out), CAT_BYTES) : -1;
    } while (n < 0 && (!p[0].revents || errno == EINTR || errno == EAGAIN));
    return n < 0 ? gw_error_errno(-errno, "standard input") : n;
}

static int cat_send_all(struct cat *c, uint64_t n)
{
    uint8_t *bytes = cat_bytes(&c->end.out);
    int64_t got;

    while (n) {
        got = cat_do(&c->end, &c->end.out, CAT_SEND, c->end.s, n);
        if (got == -ETIMEDOUT) got = 0; /* the peer does not take any at the moment */
        if (got < 0) return gw_error_errno((int)got, "sending");
        if (cat_stopped(c)) return -ECANCELED;
        n -= (uint64_t)got;
        memmove(bytes, bytes + got, n);
    }
    return 0;
}

static void *sending(void *arg)
{
    struct cat *c = arg;
    int64_t n = 0;
    int err = 0;

    while (!err && (n = cat_read_some(c)) > 0) err = cat_send_all(c, (uint64_t)n);
    if (n < 0) err = (int)n;
    while (!err && (n = cat_do(&c->end, &c->end.out, CAT_SHUT, c->end.s, 0)) == -ETIMEDOUT)
        if (cat_stopped(c)) err = -ECANCELED;
    if (!err && n < 0) err = gw_error_errno((int)n, "telling the peer that this was all");
    c->sent = err;
    if (!err) return NULL;
    snprintf(c->why, sizeof(c->why), "%s", gw_last_error());
    cat_stop(c);
    return NULL;
}

/* ---- from the peer ------------------------------------------------------------------------------------- */

static int cat_write_all(struct cat *c, uint64_t n)
{
    const uint8_t *bytes = cat_bytes(&c->end.in);
    struct pollfd p[3] = {
        {STDOUT_FILENO, POLLOUT, 0}, {c->stop_fd, POLLIN, 0}, {gw_interrupt_fd(), POLLIN, 0}};
    ssize_t done;

    while (n) {
        /* The reader of our output may take its time, and Ctrl-C works during that: a pipe that can be
         * written to has room for PIPE_BUF bytes. */
        if (poll(p, 3, -1) < 0 && errno != EINTR) return gw_error_errno(-errno, "standard output");
        if (cat_stopped(c)) return -ECANCELED;
        if (!p[0].revents) continue;
        done = write(STDOUT_FILENO, bytes, c->file || n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0 && errno != EINTR && errno != EAGAIN) return gw_error_errno(-errno, "standard output");
        if (done < 0) continue;
        bytes += done;
        n -= (uint64_t)done;
    }
    return 0;
}

static int receiving(struct cat *c)
{
    int64_t n;
    int err;

    for (;;) {
        n = cat_do(&c->end, &c->end.in, CAT_RECV, c->end.s, CAT_BYTES);
        if (cat_stopped(c)) return -ECANCELED;
        if (n == -ETIMEDOUT) continue;
        if (n == 0) return 0;
        err = n < 0 ? gw_error_errno((int)n, "receiving") : cat_write_all(c, (uint64_t)n);
        if (err) return err;
    }
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* Moves until both directions are at their ends, or one has failed; the reason is in gw_last_error. */
static int cat_move(struct cat *c)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, sending, c);

    if (err) return gw_error_errno(-err, "cannot start a thread");
    c->received = receiving(c);
    if (c->received) cat_stop(c);
    pthread_join(thread, NULL);
    /* Of two failures the first is the cause, and the other -ECANCELED. */
    if (c->sent && c->sent != -ECANCELED) return gw_error(c->sent, "%s", c->why);
    return c->received ? c->received : c->sent;
}

static int cat_run(struct cat *c, const struct cat_opts *o)
{
    int64_t closed;
    int err = cat_meet(&c->end, o);

    if (err) return err;
    err = cat_move(c);
    closed = cat_do(&c->end, &c->end.out, CAT_CLOSE, c->end.s, 0);
    return !err && closed < 0 ? gw_error_errno((int)closed, "closing: the peer may not have everything")
                              : err;
}

int gw_cli_cat(int argc, char **argv)
{
    struct cat c = {.stop_fd = -1};
    struct cat_opts o;
    int done = cat_parse(argc, argv, &o), err;
    struct stat st;

    if (done >= 0) return done;
    gw_catch_signals();
    c.file = !fstat(STDOUT_FILENO, &st) && S_ISREG(st.st_mode);
    c.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = c.stop_fd < 0 ? gw_error_errno(-errno, "eventfd") : cat_end_open(&c.end, &o);
    if (!err) err = cat_run(&c, &o);
    if (err && !gw_interrupted()) gw_failed("cat");
    cat_end_close(&c.end);
    if (c.stop_fd >= 0) close(c.stop_fd);
    return gw_exit_code(err);
}
