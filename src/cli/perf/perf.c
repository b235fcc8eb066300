/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire perf: what kernels and CPU threads get out of a NIC: bandwidth, latency, message rate, and posting
 * alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/cli/cli.h"
#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

static int perf_ended(const struct perf_opts *o, int err)
{
    if (err && err != -ECANCELED) return gw_failed(perf_command(o));
    return gw_exit_code(0);
}

static void perf_announce(void *arg, uint16_t port, const struct gw_device *dev)
{
    const struct perf_opts *o = arg;
    char address[INET6_ADDRSTRLEN] = "";

    if (dev) perf_address_of(dev, address);
    if (port)
        fprintf(stderr, "gpuwire %s: waiting for a client on port %u%s%s\n", perf_command(o), port,
                dev ? PERF_ADDRESS : "", address);
}

/* ---- both sides in this process ------------------------------------------------------------------------ */

struct other {
    const struct perf_opts *o;
    struct perf_opts mine; /* sockets: … with a way to tell each other how far they are */
    uint32_t stage;
    pthread_mutex_t lock;
    pthread_cond_t listens;
    int port;    /* -1: not yet; 0: it does not work */
    int stop_fd; /* readable when the client has ended, perhaps before it connected */
    int err;
    char why[300];
};

static void listens(void *arg, uint16_t port, const struct gw_device *dev)
{
    struct other *s = arg;

    (void)dev;
    pthread_mutex_lock(&s->lock);
    s->port = port;
    pthread_cond_signal(&s->listens);
    pthread_mutex_unlock(&s->lock);
}

static void *perf_serve_other(void *arg)
{
    struct other *s = arg;

    s->err = s->mine.sock ? perf_sock_serve(&s->mine, listens, s) : perf_serve(s->o, s->stop_fd, listens, s);
    if (s->err) snprintf(s->why, sizeof(s->why), "%s", gw_last_error());
    return NULL;
}

void perf_address_of(const struct gw_device *dev, char text[INET6_ADDRSTRLEN])
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    struct gw_device_info info;

    gw_device_query(dev, &info);
    if (memcmp(info.gid, v4, 12))
        inet_ntop(AF_INET6, info.gid, text, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET, info.gid + 12, text, INET6_ADDRSTRLEN);
}

/* The address that the other side listens at: the NIC's own. */
int perf_own_address(const struct perf_opts *o, char text[INET6_ADDRSTRLEN])
{
    struct gw_device *dev;
    int err = gw_device_open(o->device, NULL, &dev);

    if (err) return err;
    perf_address_of(dev, text);
    gw_device_close(dev);
    return 0;
}

static int loopback(const struct perf_opts *o)
{
    struct other s = {.o = o,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .listens = PTHREAD_COND_INITIALIZER,
                      .port = -1,
                      .stop_fd = eventfd(0, EFD_CLOEXEC)};
    uint64_t one = 1;
    struct perf_opts mine = *o;
    char address[INET6_ADDRSTRLEN];
    pthread_t thread;
    bool tcp = o->sock && strcmp(o->sock, "rdma");
    int err = tcp ? 0 : perf_own_address(o, address);

    if (tcp) strcpy(address, "127.0.0.1");
    s.mine = *o;
    s.mine.stage = &s.stage;
    if (!err && s.stop_fd < 0) err = gw_error_errno(-errno, "eventfd");
    if (!err && pthread_create(&thread, NULL, perf_serve_other, &s))
        err = gw_error(-EAGAIN, "cannot start a thread for the other side");
    if (err) {
        if (s.stop_fd >= 0) close(s.stop_fd);
        return err;
    }
    pthread_mutex_lock(&s.lock);
    while (s.port < 0) pthread_cond_wait(&s.listens, &s.lock);
    pthread_mutex_unlock(&s.lock);
    mine.host = address;
    mine.port = (uint64_t)s.port;
    mine.stage = &s.stage;
    if (s.port) err = o->sock ? perf_sock_client(&mine) : perf_client(&mine);
    gw_or_relaxed_u32(&s.stage, PERF_OVER);
    (void)!write(s.stop_fd, &one, sizeof(one));
    pthread_join(thread, NULL);
    close(s.stop_fd);
    /* The other side's words are the cause where ours only noticed that it has gone. */
    if (s.err && s.err != -ECANCELED && (!err || err == -ECONNRESET || err == -ECANCELED))
        return gw_error(s.err, "%s", s.why);
    return err;
}

int gw_cli_perf(int argc, char **argv)
{
    struct perf_opts o;
    int done;

    done = argc > 1 && !strcmp(argv[1], "sock") ? perf_sock_parse(argc - 1, argv + 1, &o)
                                                : perf_parse(argc, argv, &o);
    if (done >= 0) return done;
    gw_catch_signals();
    if (o.test == PERF_TEST_POST) return perf_ended(&o, perf_sink_run(&o));
    if (o.loopback) return perf_ended(&o, loopback(&o));
    if (o.sock) return perf_ended(&o, o.host ? perf_sock_client(&o) : perf_sock_serve(&o, perf_announce, &o));
    return perf_ended(&o, o.host ? perf_client(&o) : perf_serve(&o, gw_interrupt_fd(), perf_announce, &o));
}
