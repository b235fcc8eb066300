/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h: an inference server inside a program. Clients reach its models as they reach those of `gpuwire
 * serve`.
 *
 *     struct gw_serving_opts opts = {.size = sizeof(opts), .exec = "gpu", .port = 8000};
 *     struct gw_serving *s;
 *     gw_serving_start(&opts, &s);
 *     struct gw_serving_model m = {.size = sizeof(m), .name = "resnet50", .version = 1};
 *     gw_serving_add_file(s, &m, "resnet50.onnx");
 *     while (gw_serving_wait(s, GW_NEVER) == -EINTR && !asked_to_end) continue;
 *     gw_serving_stop(s);
 *
 * A model comes from a file, or from CUDA graphs that the program has captured, one for each batch size. The
 * server launches them from the GPU; the program's threads may sleep, or do something else.
 *
 * Any thread of the host may call every function; calls that add or remove models wait for each other.
 * Functions return 0 or a negative errno, with the reason in gw_last_error() (<gpuwire/error.h>). Sizes are
 * bytes, times are nanoseconds.
 *
 * Memory order: what the program wrote to the memory of graphs (weights) before gw_serving_add_graphs is
 * visible to them, when its own streams have been synchronised.
 */
#ifndef GPUWIRE_SERVE_H
#define GPUWIRE_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>
#include <gpuwire/model.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_SERVING_MAX_BATCHES 16  /* batch sizes of a model */
#define GW_SERVING_MAX_ROWS    256 /* rows of a batch */
#define GW_SERVING_PRIORITIES  9   /* 1 is served first, 9 last; requests that name none have 5 */

struct gw_serving;

/* Which small models run inside the kernel that waits for requests (docs/scheduling.md). */
enum gw_serving_resident {
    GW_SERVING_RESIDENT_NEVER = 0,
    GW_SERVING_RESIDENT_AUTO = 1, /* on a GPU, those that are measured to be faster so */
    GW_SERVING_RESIDENT_ALWAYS = 2,
};

/* Zero means the default. Later versions may add members after the last one: `size` says which a program
 * knows. The texts need only live until gw_serving_start returns. */
struct gw_serving_opts {
    uint32_t size;          /* sizeof(struct gw_serving_opts) */
    uint32_t port;          /* of HTTP; 0: any free one */
    const char *host;       /* numeric address that the doors listen on; NULL: 127.0.0.1, this host alone */
    const char *exec;       /* "gpu", "cpu" or "auto"; NULL: "auto" */
    const char *device;     /* RDMA device, or "softnic"; NULL: a real one, else softnic */
    uint32_t gpu;           /* which, by its CUDA number */
    uint32_t threads;       /* CPU: that one run of a model uses; 0: 1 */
    uint32_t sessions;      /* of each model at once; 0: 16 */
    uint32_t sessions_each; /* of them, what one client may have; 0: all but a quarter */
    uint32_t slots;         /* requests in flight of each session; 0: 8 */
    uint32_t reserved;
    uint64_t idle_ns; /* a session is closed after this time without requests; 0: 300 s; UINT64_MAX: never */
    uint64_t model_memory; /* bytes that a model may take with its sessions' slots; 0: 2 GiB */

    /* Doors, and who may come in. Every client that reaches the server may use it, unless there is a token.
     * RDMA is never encrypted. */
    uint32_t grpc;         /* 1: there is a gRPC door, too */
    uint32_t grpc_port;    /* its port; 0: any free one */
    uint32_t metrics_port; /* `metrics` is answered there, too, and nothing else; 0: nowhere else */
    uint32_t open_health;  /* 1: health may be asked without the token */
    /* PEM file, followed by the chain: HTTP and gRPC are encrypted; NULL: they are not */
    const char *tls_cert;
    const char *tls_key;    /* and its key */
    const char *token;      /* of 16 characters or more, that every call must bring; NULL: none */
    const char *token_file; /* or the file that holds it, in one line */
    uint64_t max_body;      /* bytes of an HTTP inference's body, or a gRPC message; 0: 64 MiB */

    /* A repository (NAME/VERSION/model.onnx or model.so), whose models are served from the start. */
    const char *models;      /* its folder; NULL: there is none */
    uint32_t model_control;  /* 1: clients may load and unload its models */
    uint32_t max_batch;      /* rows that its models run together at most, where rows stay apart; 0: 1 */
    uint64_t batch_delay_ns; /* how long a request for them waits for others to share its run */
    const char *model;       /* serves this one of them alone; NULL: all */
    /* 1: versions and models that come into the repository are served, those that go are not */
    uint32_t watch;

    /* How the server is run. */
    uint32_t resident; /* enum gw_serving_resident */
    /* a line of JSON for each request is appended to this file; "-" is standard output */
    const char *access_log;
    /* What the servers of this process say on standard error: "error", "warning", "info" or "debug". NULL: as
     * before, "info" at first. */
    const char *log_level;
    uint64_t drain_ns; /* how long gw_serving_stop lets what is under way finish; 0: it is cut off */

    /* HTTP, further. */
    uint32_t connections_each; /* of one client, of HTTP and of gRPC; 0: 64, or what its sessions need */
    uint32_t reserved_too;
    /* Names of the server that a call's Host may have, with commas between them, beside addresses, localhost
     * and the host's own name. NULL: none. With a token any name will do. */
    const char *host_names;
    /* Whose X-Forwarded-For names the client: "10.0.0.7, 10.1.0.0/16, user 33". NULL: none. */
    const char *trusted_proxies;
};

/* How a model is served. */
struct gw_serving_model {
    uint32_t size;    /* sizeof(struct gw_serving_model) */
    uint32_t version; /* that clients see; 0: 1 */
    const char *name;
    uint32_t replace; /* 1: it takes the place of the model of that name, if there is one */
    uint32_t batches; /* how many batch_sizes; 0: requests are not put together */
    /* Ascending, GW_SERVING_MAX_ROWS at most; the last one is also what one request may bring. The scheduler
     * takes the smallest that holds the requests which wait. If rows would meet in a run, a file is refused,
     * and captured graphs run one row at a time. */
    uint32_t batch_sizes[GW_SERVING_MAX_BATCHES];
    uint64_t max_delay_ns; /* how long a request may wait for others to share its batch with; 0: not at all */
};

/* Starts a server, without models unless there is a repository; it answers until gw_serving_stop. Errors:
 * -EINVAL (an option, a certificate, a token), -ENODEV (no such GPU or RDMA device), -EADDRINUSE, -ENOENT and
 * -EACCES (a file that an option names, or no such model in the repository), -ENOTSUP (built without gRPC),
 * -ENOMEM, -EIO, and those of gw_serving_add_file. */
GW_API int gw_serving_start(const struct gw_serving_opts *opts, struct gw_serving **serving);

/* The port that HTTP listens on. Any thread. */
GW_API uint16_t gw_serving_port(const struct gw_serving *serving);

/* The port that gRPC listens on; 0: there is no such door. Any thread. */
GW_API uint16_t gw_serving_grpc_port(const struct gw_serving *serving);

/* 1: kernels run on a GPU, so that graphs can be added; 0: on CPU threads. Any thread. */
GW_API int gw_serving_on_gpu(const struct gw_serving *serving);

/*
 * Adds the model of a file (ONNX, or a plug-in when its name ends in .so) and serves it. Any thread.
 *
 * On a GPU, models that are being served pause during the call, since CUDA allocates nothing beside a
 * resident kernel: their requests wait and are then answered.
 *
 * Returns -EEXIST when there is one of that name (say `replace`), and -EINVAL for a name or batch size.
 * Returns -ENOTSUP when a GPU cannot launch the model's work itself. The text then names the node of the
 * graph that prevents it. Other errors are those of gw_model_open, gw_model_open_plugin and gw_plan_create.
 */
GW_API int gw_serving_add_file(struct gw_serving *serving, const struct gw_serving_model *model,
                               const char *path);

/* One input or output of a model that was captured. */
struct gw_serving_tensor {
    const char *name;
    uint32_t dtype; /* enum gw_dtype */
    uint32_t rank;  /* of one row: without the batch's dimension */
    uint64_t dims[GW_MODEL_MAX_RANK];
};

/* A graph that a program has captured for one batch size. It reads its inputs at fixed addresses of the GPU's
 * memory and leaves its outputs at others. Each tensor has `rows` rows, one after the other, and begins at a
 * multiple of 16 bytes. */
struct gw_serving_graph {
    uint32_t rows; /* 0: the tensors have no batch's dimension; then there is this graph alone */
    uint32_t reserved;
    void *graph; /* a cudaGraph_t */
    void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];
};

/* A model as it was captured. */
struct gw_serving_captured {
    uint32_t inputs, outputs, graphs, reserved;
    const struct gw_serving_tensor *input, *output;
    const struct gw_serving_graph *graph; /* one for each batch size, ascending */
};

/*
 * Adds a model of captured graphs and serves it. Its batch sizes are the graphs'; model->batches is not
 * looked at. The graphs are copied. The memory that they use must stay as it is until gw_serving_remove or
 * gw_serving_stop has returned: until then the program writes nothing there. Any thread.
 *
 * Errors: as gw_serving_add_file; -ENOTSUP when the server runs on CPU threads, or when a GPU cannot launch
 * one of the graphs' nodes: the text names it, and its kernel.
 */
GW_API int gw_serving_add_graphs(struct gw_serving *serving, const struct gw_serving_model *model,
                                 const struct gw_serving_captured *captured);

/* A language model that makes tokens. Zero means the default. */
struct gw_serving_generator {
    uint32_t size;        /* sizeof(struct gw_serving_generator) */
    uint32_t lanes;       /* requests that make tokens at the same time; 0: 32 */
    const char *folder;   /* of onnxruntime-genai or transformers: docs/generation.md */
    const char *name;     /* what clients ask for; NULL: as the folder is called */
    uint32_t context;     /* tokens of prompt and answer together; 0: what the model knows, 4,096 at most */
    uint32_t max_tokens;  /* of an answer; 0: the context */
    uint32_t threads;     /* of CPU threads; 0: the server's */
    uint32_t cache_type;  /* of keys and values: GW_DTYPE_F32, F16 or BF16; 0: what the network prefers */
    uint64_t cache_bytes; /* for keys and values; 0: what all lanes need, 1 GiB at most */
};

/*
 * Adds a language model and serves it by OpenAI's API, under /v1/ of the HTTP port. It stays until
 * gw_serving_stop. On a GPU the other models pause during the call. Any thread.
 *
 * Errors: -EINVAL, -EEXIST (a generator of that name), -ENOSPC (64 generators), -ENOENT (no model or no
 * tokenizer in the folder), -ENOTSUP (a family, an operator or a tokenizer that is not supported; built
 * without generators), -EBADMSG (a damaged file), -ENOMEM (the text says what to lower), -EIO.
 */
GW_API int gw_serving_add_generator(struct gw_serving *serving, const struct gw_serving_generator *generator);

/* Pauses all models: their requests wait. On a GPU, CUDA allocates and frees nothing, and may load no kernel,
 * while a model is served. So a program that captures another one pauses first; it then adds the model, which
 * ends the pause. On CPU threads nothing happens. Any thread. 0; -EBUSY: a model is still at work after 10 s,
 * and there is no pause. */
GW_API int gw_serving_pause(struct gw_serving *serving);

/* Ends the pause, as gw_serving_add_file, gw_serving_add_graphs and gw_serving_remove do. Any thread. 0;
 * -EIO. */
GW_API int gw_serving_resume(struct gw_serving *serving);

/* Stops serving a model and frees what it took. Requests that are in work are answered; those that wait, or
 * come, are told that it is closing. Other models go on; on a GPU they pause for a moment. Any thread. 0;
 * -ENOENT: there is none of that name; -EBUSY: a model is still at work after 10 s; call again. */
GW_API int gw_serving_remove(struct gw_serving *serving, const char *name);

/* What a model has done since it was added. */
struct gw_serving_stats {
    uint64_t successes, failures, refused, late; /* requests, by how they were answered */
    uint64_t inferences;                         /* rows of those that succeeded */
    uint64_t executions;                         /* runs of the model */
    uint64_t waiting;                            /* requests that have arrived and wait, now */
    /* Nanoseconds, summed over the requests that succeeded: in the queue; while inputs were put together; in
     * the model; and until the answer was posted. */
    uint64_t queue_ns, compute_input_ns, compute_infer_ns, compute_output_ns;
    uint32_t batches, reserved;
    struct {
        uint32_t rows, reserved;
        uint64_t executions;
        uint64_t compute_infer_ns; /* of all executions */
        uint64_t p99_ns;           /* of the latest executions; 0: none yet */
    } batch[GW_SERVING_MAX_BATCHES];
};

/* Reads a model's counters, and waits for nothing. They may be some requests apart from each other. Any
 * thread. 0; -ENOENT: there is no model of that name. */
GW_API int gw_serving_query(struct gw_serving *serving, const char *name, struct gw_serving_stats *stats);

/* Sleeps until the server has failed, a signal has come or gw_serving_wake was called. Any thread. -EINTR: a
 * signal, or gw_serving_wake; -ETIMEDOUT: at deadline_ns (see gw_deadline); else why the server has
 * failed. */
GW_API int gw_serving_wait(struct gw_serving *serving, uint64_t deadline_ns);

/* Wakes a gw_serving_wait. Any thread, and signal handlers. */
GW_API void gw_serving_wake(struct gw_serving *serving);

/* Opens the access log's file again by its name, after it has been moved away. Any thread. 0; -ENOENT: the
 * server writes no access log. */
GW_API int gw_serving_reopen_log(struct gw_serving *serving);

/* Removes all models, ends the server and frees it. With drain_ns it takes nothing new from now on, and first
 * answers what is under way; a line on standard error says when the time did not suffice. One thread, when no
 * other call is under way. NULL is allowed. 0; -EBUSY: a model is still at work on a request, and nothing was
 * freed: only the process's end ends it. */
GW_API int gw_serving_stop(struct gw_serving *serving);

#ifdef __cplusplus
}
#endif
#endif
