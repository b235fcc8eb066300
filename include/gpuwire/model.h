/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models: a file becomes a model, a model becomes a plan for one place (the CPU or a GPU), a plan is run.
 *
 * Everything that can fail for lack of memory, or because of what the file says, fails while opening or
 * planning. A plan owns all it needs (weights, one arena for every intermediate result); running it allocates
 * nothing here.
 *
 * A model comes from a back-end, a table of functions at the end of this header. The server knows only the
 * gw_model_ and gw_plan_ calls, so that another importer is one more table. A plug-in is such a table in a
 * shared object of its own.
 *
 * Host only. Functions return 0 or a negative errno value and, where they take `err`, one line without a
 * newline that says what failed, on what, and what to do about it. `err` may be NULL; GW_MODEL_ERR bytes
 * always suffice. A model may be used by several threads at once; a plan by one at a time.
 */
#ifndef GPUWIRE_MODEL_H
#define GPUWIRE_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/dtype.h>
#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_MODEL_ABI      5   /* changes with any struct or meaning below */
#define GW_MODEL_MAX_RANK 8   /* dimensions of a tensor */
#define GW_MODEL_MAX_IO   16  /* inputs, and outputs, of a model */
#define GW_MODEL_ALIGN    16  /* bytes; every input and output address given to a plan is a multiple of it */
#define GW_MODEL_ERR      320 /* bytes of an error line */

enum gw_place {
    GW_PLACE_CPU = 0,
    GW_PLACE_GPU = 1,
};

/* One input or output. Elements lie in C order, the last dimension densest. */
struct gw_tensor_info {
    const char *name; /* as in the file; lives as long as the model */
    uint32_t dtype;   /* enum gw_dtype */
    uint32_t rank;    /* 0 is a scalar: one element */
    uint64_t dims[GW_MODEL_MAX_RANK];
    uint64_t bytes;
    uint32_t batched; /* 1: dims[0] counts samples and is open. dims[0] is then 1 here, and `bytes` are one
                         sample's; a plan for n rows takes and gives n times as much. */
};

struct gw_exec;

/*
 * Memory that plans share. Without it each plan has its own.
 *
 * Weights: several plans of one model (for other numbers of rows) keep one copy of each constant that they
 * read in the same form. Arena: plans that never run at the same time, of any models, put their intermediate
 * results in the same place.
 *
 * Either may lie in a range of addresses of the caller's. Then the caller decides what is there, and when. A
 * plan remembers the addresses alone. So the memory may come and go between runs, as long as the weights'
 * first gw_weights_bytes() bytes are the same whenever a plan runs. These bytes are all there is: forms that
 * were made of the file's constants are among them. An arena's content is of no use between runs.
 */
struct gw_range {
    void *at;      /* a multiple of 256; where the plans run: for GPU plans an address of the GPU's */
    uint64_t most; /* bytes of addresses there are */
    /* NULL, or makes the range's first `bytes` bytes usable, while a plan is made: it writes its weights, and
     * a GPU plan runs. What it returns (0, or a negative errno) the plan's maker gets. */
    int (*back)(void *ctx, uint64_t bytes);
    void *ctx;
};

struct gw_weights;
struct gw_plan_arena;

/* `range` NULL: memory that is taken for each plan. Any thread. 0; -ENOMEM; -EINVAL: `at` is not aligned. */
GW_API int gw_weights_create(const struct gw_range *range, struct gw_weights **weights);
GW_API int gw_plan_arena_create(const struct gw_range *range, struct gw_plan_arena **arena);
/* After the plans that share them are gone, and before their executor is; NULL is allowed. */
GW_API void gw_weights_free(struct gw_weights *weights);
GW_API void gw_plan_arena_free(struct gw_plan_arena *arena);
/* How many bytes the constants of all plans take, so far. */
GW_API uint64_t gw_weights_bytes(const struct gw_weights *weights);

struct gw_plan_options {
    uint32_t place;   /* enum gw_place */
    uint32_t threads; /* CPU: threads that one run uses, the caller among them; 0 means 1. More than one are
                         OpenMP's, one team per thread that runs plans; they spin for a moment after a run. */
    uint32_t device;  /* GPU, when exec is NULL: CUDA's number of it */
    uint32_t flags;   /* GW_PLAN_ */
    /* GPU: where the plan's memory and kernels lie; it outlives the plan. NULL makes one for the plan. A CPU
     * executor with 128 lanes or more runs the same kernels, slowly: for tests. */
    struct gw_exec *exec;
    uint64_t memory; /* bytes that the plan may take for weights and intermediate results; 0: 8 GiB */
    uint32_t rows;   /* samples that one run takes, where the model's tensors are batched; 0: 1 */
    /* NULL, or what the plan shares; both outlive it. Plans that share are made one after the other. A
     * back-end may ignore them: gw_plan_stats says what the plan does. */
    struct gw_weights *weights;
    struct gw_plan_arena *arena;
};

/*
 * GPU: the tensors given to the plan lie in the GPU's own memory. Without it they may lie in host memory,
 * which kernels reach slowly. Then tensors that would be read more than once, or written in small pieces, are
 * copied in one go by kernels of their own, before and after.
 */
#define GW_PLAN_GPU_IO 1u

/*
 * GPU: how exact. Without either, sums and products are fp32's. GW_PLAN_TF32: products may round their
 * factors to 10 bits of mantissa, as PyTorch's allow_tf32 does. GW_PLAN_F16: weights and intermediate results
 * are fp16, sums fp32; the model's inputs and outputs keep their types.
 */
#define GW_PLAN_TF32 2u
#define GW_PLAN_F16  4u

/*
 * GPU: own kernels only. Without it a plan also tries cuBLASLt and cuDNN, where the machine has them, and
 * takes for each node what was fastest. It keeps what it measured in $GPUWIRE_PLAN_CACHE ("off": nowhere; not
 * set: gpuwire/plans in $XDG_CACHE_HOME or ~/.cache).
 */
#define GW_PLAN_OWN 8u

/*
 * GPU: one kernel runs the whole plan, with nothing but own kernels' code. This is for small models, whose
 * launches cost more than their work. The server runs such plans inside the kernel that waits for requests. A
 * CPU executor may have any number of lanes then. -ENOTSUP: the model is too large for that.
 */
#define GW_PLAN_RESIDENT 16u

/*
 * Addresses that kernels read when they run, so that a captured graph serves a different slot each time.
 * It lies where the GPU can read it. It must be written before the model's first kernel starts: before the
 * launch, or by an earlier kernel of the same stream or graph. The kernel boundary then orders the two.
 */
struct gw_plan_io {
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];
};

struct gw_model;
struct gw_plan;

/*
 * Opens a model file and checks all of it. Weights may lie in other files of its folder. Dimensions that the
 * file leaves open: the first one of an input is the batch, others are refused.
 *
 * Errors: -ENOENT, -EACCES, -EIO (the file cannot be read); -EFBIG (larger than 1 GiB); -EBADMSG (no model,
 * or truncated); -ENOTSUP (a valid file, but it needs something that we lack: the line names node and
 * operator); -ENOMEM.
 */
GW_API int gw_model_open(const char *path, struct gw_model **model, char *err, size_t errlen);

/* The same from memory, which is not kept; `file` names it in messages. */
GW_API int gw_model_open_bytes(const void *bytes, size_t len, const char *file, struct gw_model **model,
                               char *err, size_t errlen);

/*
 * Opens a plug-in: a shared object with a table named GW_MODEL_PLUGIN (below). Its code runs in this process,
 * with all rights of it. So the file and every folder above it must belong to this process's user or to root.
 * No other user may write there. gw_model_close unloads the code, so the plug-in ends its threads in
 * `unload`.
 *
 * Returns -EPERM when another user owns the file or a folder, or may write there. Returns -ENOEXEC when the
 * loader refuses the file, or it has no such table. Returns -EPROTONOSUPPORT when the table is of another
 * version. Returns -EBADMSG when the table lacks a function, or describes tensors that cannot be. Other
 * errors are -ENOENT, -EACCES, and those of the plug-in's own `load`.
 */
GW_API int gw_model_open_plugin(const char *path, struct gw_model **model, char *err, size_t errlen);

/* Makes a model of a back-end's own object, which gw_model_close then unloads. Any thread. The table outlives
 * the model. 0; -ENOMEM, and the object stays the caller's. */
struct gw_model_backend;
GW_API int gw_model_wrap(const struct gw_model_backend *backend, void *object, struct gw_model **model);

/* Frees a model; its plans must be gone. NULL is allowed. */
GW_API void gw_model_close(struct gw_model *model);

/* How many inputs and outputs; the i-th one, or NULL when there are fewer. Order as in the file. */
GW_API uint32_t gw_model_inputs(const struct gw_model *model);
GW_API uint32_t gw_model_outputs(const struct gw_model *model);
GW_API const struct gw_tensor_info *gw_model_input(const struct gw_model *model, uint32_t i);
GW_API const struct gw_tensor_info *gw_model_output(const struct gw_model *model, uint32_t i);

/* The name of the back-end that opened it ("onnx"). */
GW_API const char *gw_model_kind(const struct gw_model *model);

/*
 * Makes a plan. With GW_PLACE_GPU it uploads the weights, allocates the arena and runs the model once on
 * zeros, which loads every kernel. So it must be called, and the plan freed, while no resident kernel runs.
 * It also measures which kernels are fastest (GW_PLAN_OWN), which takes seconds the first time.
 *
 * Errors: -ENODEV (no such GPU, or built without CUDA); -E2BIG (more than options->memory); -EINVAL, -ENOMEM,
 * -EIO. The plan also fails with -ENOTSUP where the place lacks an operator. So it does where an output does
 * not hold one sample for each of options->rows.
 */
GW_API int gw_plan_create(const struct gw_model *model, const struct gw_plan_options *options,
                          struct gw_plan **plan, char *err, size_t errlen);
GW_API void gw_plan_free(struct gw_plan *plan);

/* The plan's constants lie in options->weights, and its intermediate results in options->arena. On the CPU a
 * few operators read constants where the model has them, in any case. A plug-in that says neither has its own
 * memory, which stays where it is. */
#define GW_PLAN_SHARES_WEIGHTS 1u
#define GW_PLAN_SHARES_ARENA   2u

struct gw_plan_stats {
    /* That the plan holds. Of shared weights, and of a shared arena: by how much it made them larger. */
    uint64_t weight_bytes, arena_bytes;
    uint32_t steps;  /* that one run takes; on a GPU: kernels */
    uint32_t shares; /* GW_PLAN_SHARES_ */
    /* The time of a run on the GPU, measured when the plan was made. The run is a graph, or with
     * GW_PLAN_RESIDENT a part of a kernel that runs already. 0: it has not been measured. */
    uint64_t run_ns;
};
/* What a plan costs. */
GW_API void gw_plan_stats(const struct gw_plan *plan, struct gw_plan_stats *stats);

/*
 * Runs the model once on host memory and returns when the outputs are there: in[i] and out[i] belong to
 * gw_model_input(i) and gw_model_output(i), are `bytes` long, aligned to GW_MODEL_ALIGN, and no output
 * overlaps anything else. On a GPU plan the tensors are copied there and back, on the executor's stream.
 *
 * Errors: -EINVAL (a misaligned or NULL address); -EIO (the back-end failed).
 */
GW_API int gw_plan_run(struct gw_plan *plan, const void *const in[], void *const out[]);

/*
 * GPU plans: puts the model's kernels into `stream` (a cudaStream_t), which may be capturing. Kernels, and
 * where a library has them settings of memory, only: no host functions, no allocation, so that a graph
 * captured from it can be launched from the device. The addresses are ones the GPU can use and are fixed by
 * the call; with the indirect form they are read from *io each time the kernels run. The plan must outlive
 * every graph that holds its kernels, and two runs of it must not overlap in time.
 *
 * Errors: -EINVAL as above (indirect addresses cannot be checked); -ENOTSUP (a CPU plan); -EIO (a launch
 * failed).
 */
GW_API int gw_plan_enqueue(struct gw_plan *plan, void *stream, const void *const in[], void *const out[]);
GW_API int gw_plan_enqueue_indirect(struct gw_plan *plan, void *stream, const struct gw_plan_io *io);

/*
 * A back-end: what implements the calls above, with the same meanings and errors. `model` and `plan` are
 * the back-end's own objects. A function for a place that the back-end lacks returns -ENOTSUP.
 */
struct gw_model_backend {
    uint32_t abi; /* GW_MODEL_ABI */
    const char *name;
    int (*load)(const void *bytes, size_t len, const char *file, void **model, char *err, size_t errlen);
    void (*unload)(void *model);
    uint32_t (*count)(const void *model, int output);
    const struct gw_tensor_info *(*info)(const void *model, int output, uint32_t i);
    int (*plan)(const void *model, const struct gw_plan_options *options, void **plan, char *err,
                size_t errlen);
    void (*plan_free)(void *plan);
    void (*stats)(const void *plan, struct gw_plan_stats *stats);
    int (*run)(void *plan, const void *const in[], void *const out[]);
    int (*enqueue)(void *plan, void *stream, const void *const in[], void *const out[]);
    int (*enqueue_indirect)(void *plan, void *stream, const struct gw_plan_io *io);
    /* As load, for a model that may have weights in other files of the folder `dir`, an open descriptor.
     * NULL: load is all there is. */
    int (*load_in)(const void *bytes, size_t len, const char *file, int dir, void **model, char *err,
                   size_t errlen);
};

/*
 * What a plug-in defines, once:
 *
 *     const struct gw_model_backend GW_MODEL_PLUGIN = {
 *         .abi = GW_MODEL_ABI, .name = "mine", .load_in = load, ...};
 *
 * The symbol's name has GW_MODEL_ABI in it, so a plug-in of another version is recognised before any of it
 * runs. All functions must be set, except that one of load and load_in is enough. They get no bytes (NULL,
 * 0): `file` is the plug-in's path, and `dir` its folder, where further files of the model may lie.
 * examples/plugin is a whole one.
 */
#define GW_MODEL_PLUGIN_NAMED(abi) gw_model_plugin_##abi
#define GW_MODEL_PLUGIN_OF(abi)    GW_MODEL_PLUGIN_NAMED(abi)
#define GW_MODEL_PLUGIN            GW_MODEL_PLUGIN_OF(GW_MODEL_ABI)
extern GW_API const struct gw_model_backend GW_MODEL_PLUGIN;

/* The importer of this library: ONNX files. */
GW_API const struct gw_model_backend *gw_model_onnx(void);

#ifdef __cplusplus
}
#endif

#endif
