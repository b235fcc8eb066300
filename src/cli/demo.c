/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire demo: a worker process, this client process, a real picture, and where the time went. */
#include "src/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/client.h>
#include <gpuwire/error.h>

#include "src/cli/enlarge.h"
#include "src/cli/options.h"

#define READY_NS  60000000000u /* a GPU worker loads and times its kernels first */
#define REQUESTS  100          /* at least this number, for percentiles that mean something */
#define SCALE     3
#define BORDER    SCALE
#define CLIENT_NS 10000000000u
#define STOP_NS   800000000u
#define SLOTS     1 /* requests in flight: a second one would only wait for the first */

static const char usage[] =
    "usage: gpuwire demo [--exec gpu|cpu|auto] [--picture IN.png] [--out OUT.png]\n"
    "\n"
    "Shrinks a picture three times, starts a worker process (`gpuwire serve`), sends it the small picture in "
    "tiles by RDMA,\n"
    "and gets the enlarged one back, written by the worker into this process's memory. Says how close the "
    "result is to the\n"
    "original, how long everything took, and how much CPU the worker used.\n"
    "\n"
    "  --exec WHERE      where the worker runs the network (default auto: the GPU when there is one)\n"
    "  --picture IN.png  the original (default: one that comes with gpuwire)\n"
    "  --out OUT.png     where the enlarged picture goes (default gpuwire-demo.png)\n"
    "  -h, --help        this text\n";

enum { EXEC = 256, PICTURE, OUT };

static const struct option options[] = {
    {"exec", 1, NULL, EXEC},
    {"picture", 1, NULL, PICTURE},
    {"out", 1, NULL, OUT},
    {"help", 0, NULL, 'h'},
    {0},
};

struct demo {
    const char *exec, *picture, *out, *models;
    char standard_picture[4200], server[32];
    pid_t worker, client;
    FILE *says; /* the worker's standard output */
};

/* ---- the worker process ---- */

/* `mask` is the signal mask to be the worker's: until then it gets no signal. */
static void become_worker(const struct demo *d, int output, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* however this process ends, the worker does too */
    setpgid(0, 0); /* the terminal's Ctrl-C is for the client, which then ends the worker in order */
    if (getppid() != d->client) _exit(GW_EXIT_FAILURE); /* it ended before the line above */
    signal(SIGPIPE, SIG_DFL);
    /* This process' handlers would keep a signal that the program started below would then miss. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    dup2(output, STDOUT_FILENO);
    execl("/proc/self/exe", "gpuwire", "serve", "--models", d->models, "--model", "superresolution", "--exec",
          d->exec, "--port", "0", (char *)NULL);
    fprintf(stderr, "gpuwire demo: cannot start the worker: %s\n", strerror(errno));
    _exit(GW_EXIT_FAILURE);
}

/* It ended before it was ready. -ECHILD: it has said why. */
static int worker_ended(struct demo *d)
{
    int status = 0;
    waitpid(d->worker, &status, 0);
    d->worker = 0;
    if (WIFEXITED(status)) return -ECHILD;
    return gw_error(-EPIPE, "the worker was ended by signal %d", WTERMSIG(status));
}

/* Waits for the worker's line and finds the port in it. */
static int worker_ready(struct demo *d)
{
    char line[512];
    int fds[2] = {fileno(d->says), gw_interrupt_fd()};
    int64_t ready = gw_wait_fds(fds, 2, gw_deadline(READY_NS));
    const char *port;
    if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
    if (ready <= 0) return gw_error(-ETIMEDOUT, "the worker did not get ready");
    if (!fgets(line, sizeof(line), d->says)) return worker_ended(d);
    port = strstr(line, "port ");
    if (!port) return gw_error(-EPROTO, "the worker said: %s", line);
    snprintf(d->server, sizeof(d->server), "127.0.0.1:%u", (unsigned)strtoul(port + 5, NULL, 10));
    printf("worker: process %d, %s", (int)d->worker, line);
    fflush(stdout);
    return 0;
}

static int demo_start_worker(struct demo *d)
{
    int pipes[2];
    if (pipe(pipes)) return gw_error(-errno, "pipe: %s", strerror(errno));
    sigset_t all, mask;
    fflush(stdout);
    d->client = getpid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    d->worker = fork();
    if (!d->worker) {
        close(pipes[0]);
        become_worker(d, pipes[1], &mask);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (d->worker < 0) return gw_error(-errno, "cannot start a process: %s", strerror(errno));
    close(pipes[1]);
    d->says = fdopen(pipes[0], "r");
    return d->says ? worker_ready(d) : -ENOMEM;
}

static void stop_worker(struct demo *d)
{
    char line[512];
    int fd = d->says ? fileno(d->says) : -1;
    if (d->worker <= 0) return;
    kill(d->worker, SIGTERM);
    /* Its last words, and its end: a worker that does not end by itself is ended. */
    uint64_t end = gw_deadline(STOP_NS);
    int64_t ready;
    while ((ready = gw_wait_fds(&fd, 1, end)) == -EINTR) continue;
    if (ready <= 0) kill(d->worker, SIGKILL);
    while (d->says && fgets(line, sizeof(line), d->says)) printf("worker: %s", line);
    if (d->says) fclose(d->says);
    waitpid(d->worker, NULL, 0);
}

/* ---- the client's part ---- */

struct pictures {
    struct gw_image original, small, bicubic, larger;
};

static int demo_prepare(const struct demo *d, struct pictures *p)
{
    char why[GW_IMAGE_ERR] = "";
    struct gw_image whole;
    int err = gw_png_read(d->picture, &whole, why, sizeof(why));
    if (err) return gw_error(err, "%s", why);
    /* A size that three divides, so that the enlarged picture lies exactly over the original. */
    err =
        gw_image_crop(&whole, 0, 0, whole.width / SCALE * SCALE, whole.height / SCALE * SCALE, &p->original);
    gw_image_free(&whole);
    if (!err)
        err = gw_image_resize(&p->original, p->original.width / SCALE, p->original.height / SCALE, &p->small);
    if (!err) err = gw_image_resize(&p->small, p->original.width, p->original.height, &p->bicubic);
    return err ? gw_error_errno(err, "%s: too small or too large a picture", d->picture) : 0;
}

static int demo_compare(const struct pictures *p)
{
    double network, bicubic;
    int err = gw_image_psnr(&p->larger, &p->original, BORDER, &network);
    if (!err) err = gw_image_psnr(&p->bicubic, &p->original, BORDER, &bicubic);
    if (err) return gw_error_errno(err, "comparing the pictures");
    printf("\nPSNR against the original (luma): network %.2f dB, bicubic %.2f dB, gain %+.2f dB\n", network,
           bicubic, network - bicubic);
    return 0;
}

static int serve_picture(const struct demo *d, struct gw_client *c, struct pictures *p)
{
    struct gw_latency *latency = gw_latency_new();
    struct gw_client_cpu before, after;
    char why[GW_IMAGE_ERR] = "";
    int err = latency ? gw_client_worker_cpu(c, &before) : gw_error_errno(-ENOMEM, "demo");
    uint64_t start = gw_deadline(0);
    if (!err) err = gw_enlarge_by(c, &p->small, REQUESTS, &p->larger, latency);
    uint64_t ns = gw_deadline(0) - start;
    if (!err) err = gw_client_worker_cpu(c, &after);
    if (!err) {
        err = gw_png_write(d->out, &p->larger, why, sizeof(why));
        if (err) gw_error(err, "%s", why);
    }
    if (!err) err = demo_compare(p);
    if (!err) {
        printf("\n%" PRIu64 " requests, %.1f a second\n", latency->part[GW_TOTAL].count,
               (double)latency->part[GW_TOTAL].count * 1e9 / (double)ns);
        gw_latency_print(latency, stdout);
        printf("\nCPU time of the worker: %.1f ms its own threads (%.2f %% of a core), %.1f ms its software "
               "NIC\n",
               (double)(after.own_ns - before.own_ns) / 1e6,
               100.0 * (double)(after.own_ns - before.own_ns) / (double)ns,
               (double)(after.nic_ns - before.nic_ns) / 1e6);
        printf("wrote %s (%ux%u)\n", d->out, p->larger.width, p->larger.height);
    }
    free(latency);
    return err;
}

static int demo_run(struct demo *d)
{
    struct pictures p = {0};
    struct gw_client *client = NULL;
    int err = demo_prepare(d, &p);
    if (!err) err = demo_start_worker(d);
    if (!err) {
        struct gw_client_opts opts = {.server = d->server,
                                      .model = "superresolution",
                                      .slots = SLOTS,
                                      .timeout_ns = CLIENT_NS,
                                      .give_up = gw_interrupted};
        printf("client: process %d, %s, %ux%u shrunk to %ux%u\n", (int)getpid(), d->picture, p.original.width,
               p.original.height, p.small.width, p.small.height);
        err = gw_client_open(&opts, &client);
    }
    if (!err) err = serve_picture(d, client, &p);
    if (err && err != -ECHILD) gw_failed("demo");
    gw_client_close(client);
    stop_worker(d);
    struct gw_image *all[] = {&p.original, &p.small, &p.bicubic, &p.larger};
    for (int i = 0; i < 4; i++) gw_image_free(all[i]);
    return gw_exit_code(err);
}

int gw_cli_demo(int argc, char **argv)
{
    struct demo d = {.exec = "auto", .out = "gpuwire-demo.png", .models = gw_default_models()};
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        switch (option) {
        case EXEC: d.exec = optarg; break;
        case PICTURE: d.picture = optarg; break;
        case OUT: d.out = optarg; break;
        case 'h': fputs(usage, stdout); return GW_EXIT_OK;
        default: return gw_option_wrong("demo", argv, option);
        }
    }
    if (optind < argc) return gw_usage_error("demo", "%s: not an option", argv[optind]);
    if (strcmp(d.exec, "gpu") && strcmp(d.exec, "cpu") && strcmp(d.exec, "auto"))
        return gw_usage_error("demo", "--exec %s: must be gpu, cpu or auto", d.exec);
    if (!d.models) {
        fprintf(stderr, "gpuwire demo: the models that come with gpuwire are not beside the program\n");
        return GW_EXIT_FAILURE;
    }
    if (!d.picture) {
        snprintf(d.standard_picture, sizeof(d.standard_picture), "%s/superresolution/pictures/astronaut.png",
                 d.models);
        d.picture = d.standard_picture;
    }
    if (gw_option_writable("--out", d.out)) return gw_failed("demo");
    gw_catch_signals();
    return demo_run(&d);
}
