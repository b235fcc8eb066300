/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/door.h"

#include <errno.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/sync.h>

#include "src/grpc/call.h"
#include "src/grpc/gate.h"
#include "src/grpc/methods.h"
#include "src/grpc/pool.h"
#include "src/grpc/tls.h"

#include "src/serve/plain.h"
#include "src/serve/limit.h"
#include "src/serve/secret.h"

#define PATIENCE_NS   20000000000ull
#define IDLE_NS       300000000000ull
#define TICK_NS       1000000000ull
#define GOODBYE_NS    50000000ull  /* for clients to take the last answers */
#define END_NS        200000000ull /* for gRPC to end all calls */
#define THREADS       2            /* that gRPC works on */
#define WORKERS       64           /* calls that may wait for models at once */
#define CALLS         1024u        /* under way at once */
#define CALLS_EACH    256u         /* of them, of one client */
#define STREAMS       100          /* calls of one connection */
#define METADATA      (16 << 10)   /* bytes of a call's headers */
#define PING_MS       10000        /* clients may ask so often whether we live */
#define OPEN_STREAMS  64           /* in all: each may have a message on its way in */
#define MESSAGES      4 /* unary calls' that may be on their way in at once, however long they are */
#define MESSAGES_MOST 64
#define MEMORY        ((uint64_t)512 << 20) /* for more of them, as far as it goes */

struct gw_grpc {
    struct gw_grpc_service service;
    struct gw_grpc_opts opts;
    grpc_server_credentials *clear;
    grpc_server *server;
    grpc_completion_queue *cq;
    struct gw_grpc_gate *gate;
    struct gw_grpc_pool *pool;
    struct gw_grpc_calls *calls;
    struct gw_grpc_tls *tls;
    char *token; /* NULL: none is asked for */
    uint64_t next_tick;
    pthread_t thread[THREADS];
    uint32_t threads;
    pthread_mutex_t lock;
    pthread_cond_t news;
    int ended; /* gRPC has said that no call is left */
};

static struct gw_say_limit said;

/* gRPC's own messages; only what went wrong. Clients can provoke them, with bytes of theirs inside. */
static void log_line(gpr_log_func_args *args)
{
    char text[300];
    if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
    gw_say(&said, "gRPC: %s", gw_plain_text(text, sizeof(text), args->message));
}

/* ---- gRPC's threads ---- */

static void *work(void *arg)
{
    struct gw_grpc *g = arg;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(g->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        if (e.tag != g) {
            gw_grpc_event(e.tag, e.success);
            continue;
        }
        pthread_mutex_lock(&g->lock);
        g->ended = 1;
        pthread_cond_signal(&g->news);
        pthread_mutex_unlock(&g->lock);
    }
}

static int start_threads(struct gw_grpc *g)
{
    while (g->threads < THREADS) {
        int error = pthread_create(&g->thread[g->threads], NULL, work, g);
        if (error) return gw_error_errno(-error, "gRPC: no thread");
        pthread_setname_np(g->thread[g->threads++], "gw-grpc");
    }
    return 0;
}

static void admit(void *door, int fd)
{
    struct gw_grpc *g = door;
    grpc_server_add_channel_from_fd(g->server, fd, g->clear);
}

/* ---- the server's hooks ---- */

static void tend(void *door)
{
    struct gw_grpc *g = door;
    if (gw_deadline(0) < g->next_tick) return;
    g->next_tick = gw_deadline(TICK_NS);
    gw_grpc_gate_tend(g->gate);
    gw_grpc_calls_tick(g->calls);
}

static int busy(void *door)
{
    struct gw_grpc *g = door;
    return gw_grpc_calls_busy(g->calls);
}

/* Waits until gRPC has ended all calls. */
static int wait_for_end(struct gw_grpc *g, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&g->lock);
    while (!g->ended && !pthread_cond_timedwait(&g->news, &g->lock, &until)) continue;
    int ended = g->ended;
    pthread_mutex_unlock(&g->lock);
    return ended;
}

/* What is there of it; calls and threads have ended. */
static void destroy(struct gw_grpc *g)
{
    gw_grpc_pool_free(g->pool);
    if (g->server) grpc_server_destroy(g->server);
    gw_grpc_calls_free(g->calls);
    gw_grpc_gate_free(g->gate);
    gw_grpc_tls_free(g->tls);
    if (g->cq) grpc_completion_queue_destroy(g->cq);
    if (g->clear) grpc_server_credentials_release(g->clear);
    pthread_cond_destroy(&g->news);
    pthread_mutex_destroy(&g->lock);
    gw_secret_forget(g->token);
    free(g);
    grpc_shutdown_blocking();
}

static void end_queue(struct gw_grpc *g)
{
    grpc_completion_queue_shutdown(g->cq);
    if (!g->threads) work(g); /* it has to be emptied */
    for (uint32_t i = 0; i < g->threads; i++) pthread_join(g->thread[i], NULL);
}

/* The server has closed its calls by now, so each turn ends by itself. What a client does not take is cut. */
static void stop(void *door)
{
    struct gw_grpc *g = door;
    gw_st_relaxed_u32(&g->service.closing, 1); /* a number by itself */
    gw_grpc_gate_close(g->gate);
    grpc_server_shutdown_and_notify(g->server, g->cq, g);
    if (!wait_for_end(g, GOODBYE_NS)) {
        grpc_server_cancel_all_calls(g->server);
        if (!wait_for_end(g, END_NS)) return; /* it stays as it is until the process ends */
    }
    end_queue(g);
    destroy(g);
}

/* ---- beginning ---- */

static grpc_arg number(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

/* So many messages of unary calls may be on their way in. */
static uint32_t messages(const struct gw_grpc_opts *o)
{
    uint64_t n = MEMORY / o->message_most;
    return n < MESSAGES ? MESSAGES : n < MESSAGES_MOST ? (uint32_t)n : MESSAGES_MOST;
}

static int make_server(struct gw_grpc *g)
{
    uint64_t most = g->opts.message_most;
    grpc_arg arg[] = {
        number(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most < INT_MAX ? (int)most : INT_MAX),
        number(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        number(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS),
        number(GRPC_ARG_MAX_METADATA_SIZE, METADATA),
        number(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_MS),
        number(GRPC_ARG_ENABLE_CHANNELZ, 0),
        /* A few compressed bytes could become any number of bytes. */
        number(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    grpc_channel_args args = {sizeof(arg) / sizeof(arg[0]), arg};
    g->server = grpc_server_create(&args, NULL);
    g->cq = grpc_completion_queue_create_for_next(NULL);
    g->clear = grpc_insecure_server_credentials_create();
    if (!g->server || !g->cq || !g->clear) return gw_error(-ENOMEM, "gRPC: no server could be made");
    grpc_server_register_completion_queue(g->server, g->cq, NULL);
    return 0;
}

static int make(struct gw_grpc *g)
{
    int error = g->opts.cert ? gw_grpc_tls_create(g->opts.cert, g->opts.key, &g->tls) : 0;
    if (!error) error = gw_secret_take_token(g->opts.token, g->opts.token_file, &g->token);
    struct gw_grpc_gate_opts gate = {.host = g->opts.host,
                                     .port = g->opts.port,
                                     .calls = CALLS,
                                     .calls_each = CALLS_EACH,
                                     .patience_ns = PATIENCE_NS,
                                     .idle_ns = IDLE_NS,
                                     .tls = g->tls,
                                     .admit = admit,
                                     .ctx = g};
    if (!error) error = gw_grpc_gate_start(&gate, &g->gate);
    if (!error) error = gw_grpc_pool_create(WORKERS, &g->pool);
    if (!error) error = make_server(g);
    struct gw_grpc_calls_opts calls = {.server = g->server,
                                       .cq = g->cq,
                                       .gate = g->gate,
                                       .pool = g->pool,
                                       .method = gw_grpc_methods,
                                       .ctx = &g->service,
                                       .token = g->token,
                                       .open_health = g->opts.open_health,
                                       .messages = messages(&g->opts),
                                       .streams = OPEN_STREAMS,
                                       .patience_ns = PATIENCE_NS,
                                       .idle_ns = IDLE_NS};
    return error ? error : gw_grpc_calls_create(&calls, &g->calls);
}

/* From here on only stop() ends it. */
static int open_up(struct gw_grpc *g)
{
    grpc_server_start(g->server);
    int error = start_threads(g);
    if (!error) {
        gw_grpc_calls_open(g->calls);
        error = gw_grpc_gate_open(g->gate);
    }
    return error;
}

int gw_grpc_start(struct gw_server *server, struct gw_infer *infer, const struct gw_grpc_opts *o,
                  struct gw_grpc **out)
{
    struct gw_grpc *g = calloc(1, sizeof(*g));
    if (!g) return -ENOMEM;
    g->opts = *o;
    g->service.infer = infer;
    if (!g->opts.message_most) g->opts.message_most = GW_GRPC_MESSAGE;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->news, NULL);
    gpr_set_log_function(log_line);
    grpc_init();
    struct gw_server_door door = {g, tend, stop, busy};
    int error = make(g);
    if (!error) error = gw_server_add_door(server, &door);
    if (error) {
        if (g->cq) end_queue(g);
        destroy(g);
        return error;
    }
    *out = g;
    return open_up(g);
}

uint16_t gw_grpc_port(const struct gw_grpc *g)
{
    return gw_grpc_gate_port(g->gate);
}
