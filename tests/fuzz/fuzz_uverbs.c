/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any sequence of requests on the device: ioctl buffers, legacy commands in them, mappings, closes. Pointers in
 * commands name one arena (so that the NIC, told to use memory, uses that), or nothing at all. Each input gets a device
 * of its own and closes it with whatever it made still there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "softnic/uverbs/uverbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA (1u << 20)
#define MAX_REQUESTS 64

struct input {
    const uint8_t *p, *end;
};

static uint8_t *arena;
static int channels[MAX_REQUESTS + 1]; /* event fds to close at the end */
static unsigned channel_count;

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->p < in->end; i++) v |= (uint64_t)*in->p++ << 8 * i;
    return v;
}

/* An address: mostly inside the arena, else null, beside it or anything. */
static uint64_t pointer(struct input *in)
{
    uint64_t v = take(in, 4);
    switch (v >> 29) {
    case 0: return 0;
    case 1: return (uintptr_t)arena + ARENA - (v & 63);
    case 2: return take(in, 8) | (uint64_t)1 << 63;
    default: return (uintptr_t)arena + (v & (ARENA - 1) & ~(uint64_t)63);
    }
}

struct header { /* ib_uverbs_ioctl_hdr without the array at its end */
    uint16_t length, object_id, method_id, num_attrs;
    uint64_t reserved1;
    uint32_t driver_id, reserved2;
};
struct buffer {
    struct header hdr;
    struct ib_uverbs_attr attrs[8];
};

static void put(struct buffer *b, uint16_t id, uint16_t len, uint64_t value)
{
    b->attrs[b->hdr.num_attrs++] =
        (struct ib_uverbs_attr){.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = value};
}

static void put_in(struct buffer *b, uint16_t id, const void *from, uint16_t len)
{
    uint64_t v = 0;
    if (len <= 8)
        memcpy(&v, from, len);
    else
        v = (uintptr_t)from;
    put(b, id, len, v);
}

static int submit(int fd, struct buffer *b)
{
    b->hdr.length = (uint16_t)(sizeof(b->hdr) + b->hdr.num_attrs * sizeof(b->attrs[0]));
    return uv_ioctl(fd, RDMA_VERBS_IOCTL, (uintptr_t)b);
}

/* A well-formed command with a core of `len` bytes, then some of its words replaced by the input's. */
static void command(int fd, struct input *in)
{
    static const uint32_t known[] = {
        IB_USER_VERBS_CMD_QUERY_DEVICE, IB_USER_VERBS_CMD_QUERY_PORT, IB_USER_VERBS_CMD_ALLOC_PD,
        IB_USER_VERBS_CMD_DEALLOC_PD, IB_USER_VERBS_CMD_CREATE_AH, IB_USER_VERBS_CMD_DESTROY_AH,
        IB_USER_VERBS_CMD_REG_MR, IB_USER_VERBS_CMD_REREG_MR, IB_USER_VERBS_CMD_DEREG_MR,
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, IB_USER_VERBS_CMD_CREATE_CQ, IB_USER_VERBS_CMD_DESTROY_CQ,
        IB_USER_VERBS_CMD_CREATE_QP, IB_USER_VERBS_CMD_QUERY_QP, IB_USER_VERBS_CMD_MODIFY_QP,
        IB_USER_VERBS_CMD_DESTROY_QP, IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ,
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP,
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP, IB_USER_VERBS_CMD_GET_CONTEXT,
    };
    static uint64_t core[64], uhw[64], out[64], drv[64];
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INVOKE_WRITE}};
    uint32_t cmd = known[take(in, 1) % (sizeof(known) / sizeof(known[0]))];
    unsigned words = (unsigned)take(in, 1) % 32, pointers = (unsigned)take(in, 1);
    /* out keeps the last answer, and its handle is a good guess for the next command's first words. */
    uint32_t handle = (uint32_t)out[0];

    memset(core, 0, sizeof(core));
    memset(uhw, 0, sizeof(uhw));
    for (unsigned i = 0; i < words; i++) {
        uint32_t v = (uint32_t)take(in, 2);
        ((uint32_t *)core)[i] = v & 0x8000 ? handle ^ (v & 7) : v;
    }
    /* Addresses where the driver's structs have them: the first two words. */
    if (pointers & 1) uhw[0] = pointer(in);
    if (pointers & 2) uhw[1] = pointer(in);
    if (pointers & 4) core[1] = pointer(in);
    if (pointers & 8)
        for (int i = 4; i < 12; i++) ((uint32_t *)uhw)[i] = (uint32_t)take(in, 2);
    put(&b, UVERBS_ATTR_WRITE_CMD, 8, cmd);
    put_in(&b, UVERBS_ATTR_CORE_IN, core, (uint16_t)(pointers & 16 ? take(in, 1) : 160));
    uint64_t answer = pointers & 64 ? pointer(in) : (uintptr_t)out;
    put(&b, UVERBS_ATTR_CORE_OUT, (uint16_t)(pointers & 32 ? take(in, 1) : 400), answer);
    put_in(&b, UVERBS_ATTR_UHW_IN, uhw, (uint16_t)(pointers & 128 ? take(in, 1) : 80));
    put(&b, UVERBS_ATTR_UHW_OUT, 400, (uintptr_t)drv);
    if (submit(fd, &b) || cmd != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) return;
    memcpy(&channels[channel_count++], (void *)(uintptr_t)answer, sizeof(int));
}

static void any_buffer(int fd, struct input *in)
{
    struct buffer b = {0};
    b.hdr.object_id = (uint16_t)take(in, 1);
    b.hdr.method_id = (uint16_t)take(in, 2);
    unsigned n = (unsigned)take(in, 1) % 8;
    for (unsigned i = 0; i < n; i++) {
        uint16_t id = (uint16_t)take(in, 2), len = (uint16_t)take(in, 2);
        put(&b, id, len, take(in, 1) & 1 ? pointer(in) : take(in, 8));
    }
    b.hdr.length = (uint16_t)(sizeof(b.hdr) + n * sizeof(b.attrs[0]) + (take(in, 1) == 7));
    uv_ioctl(fd, take(in, 1) == 9 ? take(in, 4) : RDMA_VERBS_IOCTL, take(in, 1) == 5 ? pointer(in) : (uintptr_t)&b);
}

static void map(int fd, struct input *in)
{
    uint64_t offset = take(in, 4) << 12 | (take(in, 1) == 3);
    size_t length = take(in, 1) == 3 ? take(in, 3) : 4096;
    void *at;
    if (!uv_mmap(fd, NULL, length, PROT_WRITE, MAP_SHARED, offset, &at)) munmap(at, 4096);
}

static int get_context(int fd, int32_t *async)
{
    struct mlx5_ib_alloc_ucontext_req_v2 req = {
        .total_num_bfregs = 16, .num_low_latency_bfregs = 4, .max_cqe_version = 1, .lib_caps = MLX5_LIB_CAP_4K_UAR};
    struct mlx5_ib_alloc_ucontext_resp resp;
    struct ib_uverbs_get_context_resp core;
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INVOKE_WRITE}};
    uint64_t in = 0;

    put(&b, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_GET_CONTEXT);
    put_in(&b, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
    put(&b, UVERBS_ATTR_CORE_OUT, sizeof(core), (uintptr_t)&core);
    put_in(&b, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
    put(&b, UVERBS_ATTR_UHW_OUT, sizeof(resp), (uintptr_t)&resp);
    int err = submit(fd, &b);
    *async = err ? -1 : (int32_t)core.async_fd;
    return err;
}

static void once(void)
{
    int32_t async;
    if (arena) return;
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,seed=1", 1);
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* A device that stays open keeps the NIC from starting and ending with every input. */
    if (arena == MAP_FAILED || get_context(uv_open(O_RDWR | O_CLOEXEC), &async)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    int32_t async = -1;

    once();
    int fd = uv_open(O_RDWR | O_CLOEXEC);
    if (fd < 0) return 0;
    if (take(&in, 1) != 1 && get_context(fd, &async)) abort();
    for (int i = 0; i < MAX_REQUESTS && in.p < in.end; i++) {
        unsigned what = (unsigned)take(&in, 1);
        if (what < 192)
            command(fd, &in);
        else if (what < 224)
            any_buffer(fd, &in);
        else
            map(fd, &in);
    }
    uv_close(fd);
    close(fd);
    if (async >= 0) channels[channel_count++] = async;
    while (channel_count) {
        uv_close(channels[--channel_count]);
        close(channels[channel_count]);
    }
    return 0;
}
