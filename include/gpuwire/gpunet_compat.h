/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpunet_compat.h: GPUnet's calls, for kernels that were written for it: the same names, arguments and
 * results, on gpuwire's sockets (socket.h) and host calls (host.h). Programs that are new use those.
 *
 * On the host:
 *
 *     gw_sockets_create(…, &set);
 *     gw_host_open(…, &server);
 *     gpunet_open(exec, gw_sockets_net(set), gw_host_handle(server), 64, 0, &mem);
 *     args.gpunet = mem.dev;
 *     … launch the kernel …
 *     gw_mem_free(&mem);
 *
 * In the kernel:
 *
 *     gpunet_use(a->gpunet);
 *     sock = gconnect_in(&a->addr);
 *     n = gsend(sock, buf, size);
 *     n = grecv(sock, buf, size);
 *     gclose(sock);
 *
 * gpunet_use says which sockets and which server the kernels of the file (the translation unit) use; every
 * thread of every block calls it first. A __global__ function that stays as it was cannot: GPUNET_KERNEL
 * makes of it what gw_launch takes, and calls gpunet_use for it. A program that launches such functions by
 * itself calls gpunet_start on the host instead, in the .cu file that has them.
 *
 * Calls are the block's: every thread calls them with the same arguments and gets the same result; those that
 * are named single_thread_… (and gputs_single, gprintf4_single) are one thread's. Results are counts, 0 at
 * the end of a stream, and negative errno values as socket.h gives them. No call waits forever, as it did
 * there: a call that has not ended after the limit given to gpunet_open returns -ETIMEDOUT.
 *
 * There are other differences. The calls gconnect and gbind, for UNIX sockets, return -EAFNOSUPPORT where the
 * set has none. `gpoll` counts how many sockets have something, and takes a clock of its timeout for a
 * nanosecond. A launched kernel gets a copy of its argument, and the products of the three dimensions. A peer
 * that closes or dies ends a stream: grecv returns 0, or an error. So a loop that receives until it has all
 * must also end at 0.
 *
 * C. A kernel may be compiled as C, for CPU threads. With GPUNET_CUDA_WORDS, C knows CUDA's words: __global__
 * and __device__ mean nothing, threadIdx.x and its kin are there, __syncthreads is gw_syncthreads, and
 * __shared__ makes a thread's own variable. That is right for blocks of one thread alone, the CPU executor's
 * usual ones. Kernels with larger blocks use GW_SHARED (kernel.h).
 */
#ifndef GPUWIRE_GPUNET_COMPAT_H
#define GPUWIRE_GPUNET_COMPAT_H

#include <assert.h>
#include <sys/un.h>

#include <gpuwire/host.h>
#include <gpuwire/socket.h>

#if defined(GPUNET_CUDA_WORDS) && !defined(__CUDACC__)
struct gpunet_dim {
    uint32_t x, y, z;
};

GW_DEV struct gpunet_dim gpunet_dim_(uint32_t x, uint32_t others)
{
    struct gpunet_dim d = {x, others, others};

    return d;
}

#define __global__ static
#define __device__ static
#define __shared__
#define threadIdx       gpunet_dim_(gw_thread_idx(), 0)
#define blockIdx        gpunet_dim_(gw_block_idx(), 0)
#define blockDim        gpunet_dim_(gw_block_dim(), 1)
#define gridDim         gpunet_dim_(gw_grid_dim(), 1)
#define __syncthreads() gw_syncthreads()
#define __threadfence() gw_fence_gpu()
#endif

typedef unsigned char uchar;

struct gpollfd {
    int fd;
    short events, revents;
    unsigned rbytes, wbytes; /* that can be received and sent without waiting */
};

struct gtimeval {
    long tv_sec, tv_usec;
};

typedef enum GAIOP { GAIO_ACCEPT, GAIO_RECEIVE } GAIOP;

#define GPUNET_POLL_MAX 64 /* sockets of one gpoll */

/* One thread of the block does this, between two meetings of all. */
#define BEGIN_SINGLE_THREAD_PART                                                                             \
    gw_syncthreads();                                                                                        \
    if (gw_thread_idx() == 0) {
#define END_SINGLE_THREAD_PART                                                                               \
    }                                                                                                        \
    gw_syncthreads();

/* Kernels' sockets and server; in the executor's own memory. */
struct gpunet {
    struct gw_net *net;
    struct gw_host *host; /* NULL: no launches, no printing, and on a GPU no time of day */
    uint64_t limit_ns;
    uint32_t sockets, reserved;
    __extension__ uint32_t nonblocking[]; /* [sockets] */
};

/* ---- host ---------------------------------------------------------------------------------------------- */

/*
 * Makes one, for a set of that many sockets, as mem->dev; gw_mem_free ends it. limit_ns: what a call may
 * take, 0: 60 s. host may be NULL. Any thread of the host. 0, or gw_mem_alloc's errors.
 */
static inline int gpunet_open(struct gw_exec *exec, struct gw_net *net, struct gw_host *host,
                              uint32_t sockets, uint64_t limit_ns, struct gw_mem *mem)
{
    struct gpunet g;
    int err = gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(g) + sockets * sizeof(uint32_t), mem);

    memset(&g, 0, sizeof(g));
    g.net = net;
    g.host = host;
    g.limit_ns = limit_ns ? limit_ns : 60000000000u;
    g.sockets = sockets;
    return err ? err : gw_copy_in(exec, mem->dev, &g, sizeof(g));
}

#ifdef __CUDACC__
static __device__ struct gpunet *gpunet_here_;

/* Says so to the kernels of this file, once for all that are launched after; a thread of the host. 0, -EIO
 * (CUDA). */
static inline int gpunet_start(struct gpunet *g)
{
    return cudaMemcpyToSymbol(gpunet_here_, &g, sizeof(g)) == cudaSuccess ? 0 : -EIO;
}
#else
static struct gpunet *gpunet_here_;

static inline int gpunet_start(struct gpunet *g)
{
    gw_st_relaxed_u64(&gpunet_here_, (uint64_t)(uintptr_t)g);
    return 0;
}
#endif

/* ---- kernels: what the calls share --------------------------------------------------------------------- */

/* The sockets and the server of this file's kernels, from now on; every thread of each block. */
GW_DEV void gpunet_use(struct gpunet *g)
{
    gw_st_relaxed_u64_gpu(&gpunet_here_, (uint64_t)(uintptr_t)g); /* all blocks write the same */
    gw_syncthreads();
}

/*
 * GPUNET_KERNEL(name, type, a, function, …): defines the kernel `name` for gw_launch. It launches a
 * __global__ function of this file, as it was written for GPUnet, with the arguments that follow. They come
 * from the kernel's argument `a`, a `type` that has a member `struct gpunet *gpunet`. On CPU threads its
 * blocks must have one thread each (lanes = 1).
 *
 *     GPUNET_KERNEL(client_kernel, struct client_args, a, gpuclient, a->addr, a->table, a->blocks)
 */
#ifdef __CUDACC__
#define GPUNET_KERNEL(name, type, a, function, ...)                                                          \
    extern "C" __attribute__((visibility("hidden"))) int name##_gpu(uint32_t grid, uint32_t block,           \
                                                                    const void *p, void *stream)             \
    {                                                                                                        \
        const type *a = (const type *)p;                                                                     \
        cudaError_t err = cudaMemcpyToSymbolAsync(gpunet_here_, &a->gpunet, sizeof(a->gpunet), 0,            \
                                                  cudaMemcpyHostToDevice, (cudaStream_t)stream);             \
        if (err != cudaSuccess) return (int)err;                                                             \
        function<<<grid, block, 0, (cudaStream_t)stream>>>(__VA_ARGS__);                                     \
        return (int)cudaGetLastError();                                                                      \
    }                                                                                                        \
    GW_KERNEL_DECLARE(name);                                                                                 \
    __attribute__((weak)) const struct gw_kernel name = {#name, sizeof(type), NULL, name##_gpu}
#else
#define GPUNET_KERNEL(name, type, a, function, ...)                                                          \
    static void name##_cpu(const void *p)                                                                    \
    {                                                                                                        \
        const type *a = (const type *)p;                                                                     \
        gpunet_use(a->gpunet);                                                                               \
        function(__VA_ARGS__);                                                                               \
    }                                                                                                        \
    GW_KERNEL_GPU_DECL_(name)                                                                                \
    GW_KERNEL_DECLARE(name);                                                                                 \
    const struct gw_kernel name = {#name, sizeof(type), name##_cpu, GW_KERNEL_GPU_(name)}
#endif

GW_DEV struct gpunet *gpunet_(void)
{
    return (struct gpunet *)(uintptr_t)gw_ld_relaxed_u64_gpu(&gpunet_here_);
}

/* When a call must have ended; 0 for sockets that do not wait. */
GW_DEV uint64_t gpunet_until_(const struct gpunet *g, int sock)
{
    if (sock >= 0 && (uint32_t)sock < g->sockets && gw_ld_relaxed_u32_gpu(&g->nonblocking[sock])) return 0;
    return gw_clock_ns() + g->limit_ns;
}

GW_DEV int gpunet_new_(struct gpunet *g, int sock)
{
    if (sock >= 0 && (uint32_t)sock < g->sockets) gw_st_relaxed_u32_gpu(&g->nonblocking[sock], 0);
    return sock;
}

/* Gives to all threads the result of the block's first. */
#define GPUNET_FIRST_(call)                                                                                  \
    (gw_group_sync(GW_BLOCK), (int)gw_group_first(GW_BLOCK, gw_thread_idx() ? 0 : (uint64_t)(int64_t)(call)))

/* ---- opening and closing ------------------------------------------------------------------------------- */

GW_DEV int gpunet_socket_(int domain, int type, int protocol)
{
    struct gpunet *g = gpunet_();

    return gpunet_new_(g, gw_sock_open_thread(g->net, domain, type, protocol, gpunet_until_(g, -1)));
}

/* A socket that is bound and listens, or that is connected. */
GW_DEV int gpunet_at_(const struct sockaddr *addr, socklen_t len, int listens)
{
    struct gpunet *g = gpunet_();
    uint64_t until = gpunet_until_(g, -1);
    int s = gpunet_socket_(addr->sa_family, SOCK_STREAM, 0), err;

    if (s < 0) return s;
    if (listens) {
        err = gw_sock_bind_thread(g->net, s, addr, len, until);
        if (!err) err = gw_sock_listen_thread(g->net, s, GPUNET_POLL_MAX, until);
    } else {
        err = gw_sock_connect_thread(g->net, s, addr, len, until);
    }
    if (!err) return s;
    (void)gw_sock_close_thread(g->net, s, until);
    return err;
}

GW_DEV int gpunet_at_path_(const char *name, int n, int listens)
{
    struct sockaddr_un a;

    memset(&a, 0, sizeof(a));
    a.sun_family = AF_UNIX;
    if (n <= 0 || (size_t)n >= sizeof(a.sun_path)) return -EINVAL;
    memcpy(a.sun_path, name, (size_t)n);
    return gpunet_at_((const struct sockaddr *)&a,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n), listens);
}

GW_DEV int gpunet_accept_(int sock, uint64_t until)
{
    struct gpunet *g = gpunet_();

    return gpunet_new_(g, gw_sock_accept_thread(g->net, sock, NULL, NULL, until));
}

/* As socket(2). */
GW_DEV int gsocket(int domain, int type, int protocol)
{
    return GPUNET_FIRST_(gpunet_socket_(domain, type, protocol));
}

/* A new socket that is bound to the address and listens: its number. */
GW_DEV int single_thread_gbind_in(const struct sockaddr_in *addr)
{
    return gpunet_at_((const struct sockaddr *)addr, sizeof(*addr), 1);
}

GW_DEV int gbind_in(const struct sockaddr_in *addr)
{
    return GPUNET_FIRST_(single_thread_gbind_in(addr));
}

/* The same for a UNIX socket's path of namelen bytes. */
GW_DEV int single_thread_gbind(const char *name, int namelen)
{
    return gpunet_at_path_(name, namelen, 1);
}

GW_DEV int gbind(const char *name, int namelen)
{
    return GPUNET_FIRST_(single_thread_gbind(name, namelen));
}

/* A new socket that is connected to the address: its number. */
GW_DEV int gconnect_in(const struct sockaddr_in *addr)
{
    return GPUNET_FIRST_(gpunet_at_((const struct sockaddr *)addr, sizeof(*addr), 0));
}

GW_DEV int gconnect(const char *name, int namelen)
{
    return GPUNET_FIRST_(gpunet_at_path_(name, namelen, 0));
}

/* A connection to a socket that listens: its number. _nb: -EAGAIN when there is none. */
GW_DEV int gaccept(int sock)
{
    return GPUNET_FIRST_(gpunet_accept_(sock, gpunet_until_(gpunet_(), sock)));
}

GW_DEV int gaccept_nb(int sock)
{
    return GPUNET_FIRST_(gpunet_accept_(sock, 0));
}

/* As shutdown(2) and close(2). */
#ifdef __cplusplus
GW_DEV int single_thread_gshutdown(int sock, int how = SHUT_RDWR)
#else
GW_DEV int single_thread_gshutdown(int sock, int how)
#endif
{
    struct gpunet *g = gpunet_();

    return gw_sock_shutdown_thread(g->net, sock, how, gw_clock_ns() + g->limit_ns);
}

GW_DEV int gshutdown(int sock, int how)
{
    return GPUNET_FIRST_(single_thread_gshutdown(sock, how));
}

GW_DEV int single_thread_gclose(int sock)
{
    struct gpunet *g = gpunet_();

    return gw_sock_close_thread(g->net, sock, gw_clock_ns() + g->limit_ns);
}

GW_DEV int gclose(int sock)
{
    return GPUNET_FIRST_(single_thread_gclose(sock));
}

/* Whether calls on a socket wait (1, as at first) or return -EAGAIN (0). */
GW_DEV void gsetsock_block(int sock, int blocking)
{
    struct gpunet *g = gpunet_();

    if (sock >= 0 && (uint32_t)sock < g->sockets && gw_thread_idx() == 0)
        gw_st_relaxed_u32_gpu(&g->nonblocking[sock], !blocking);
    gw_syncthreads();
}

GW_DEV int ggetsock_block(int sock)
{
    struct gpunet *g = gpunet_();

    return sock >= 0 && (uint32_t)sock < g->sockets ? !gw_ld_relaxed_u32_gpu(&g->nonblocking[sock]) : -EBADF;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

/* As send(2) and recv(2), without flags. */
GW_DEV int gsend(int sock, const void *bytes, int size)
{
    struct gpunet *g = gpunet_();

    return size < 0 ? -EINVAL
                    : (int)gw_sock_send(g->net, sock, bytes, (uint64_t)size, 0, gpunet_until_(g, sock));
}

GW_DEV int grecv(int sock, void *bytes, int size)
{
    struct gpunet *g = gpunet_();

    return size < 0 ? -EINVAL
                    : (int)gw_sock_recv(g->net, sock, bytes, (uint64_t)size, 0, gpunet_until_(g, sock));
}

GW_DEV int grecv_nb(int sock, void *bytes, int size)
{
    return size < 0 ? -EINVAL : (int)gw_sock_recv(gpunet_()->net, sock, bytes, (uint64_t)size, 0, 0);
}

/* As sendto(2) and recvfrom(2). */
GW_DEV int gsendto(int sock, const void *bytes, int size, const struct sockaddr *addr, int addrlen)
{
    struct gpunet *g = gpunet_();

    if (size < 0 || addrlen < 0) return -EINVAL;
    return (int)gw_sock_sendto(g->net, sock, bytes, (uint64_t)size, 0, addr, (socklen_t)addrlen,
                               gpunet_until_(g, sock));
}

GW_DEV int grecvfrom(int sock, void *bytes, int size, struct sockaddr *addr, socklen_t *addrlen)
{
    struct gpunet *g = gpunet_();

    if (size < 0) return -EINVAL;
    return (int)gw_sock_recvfrom(g->net, sock, bytes, (uint64_t)size, 0, addr, addrlen,
                                 gpunet_until_(g, sock));
}

/* How many bytes can be received, or sent, now. */
GW_DEV unsigned gpunet_bytes_(struct gw_net *net, int sock, int sending)
{
    int64_t n = 0;

    if (gw_sock_find_(net, sock) || !gw_ld_acquire_u32_gpu(&net->sock[sock].begun)) return 0;
    if (!gw_turn_try_(sending ? &net->sock[sock].send_lock : &net->sock[sock].recv_lock)) return 0;
    n = sending ? gw_sock_may_send_(net, sock) : gw_sock_may_recv_(net, sock, 0);
    gw_turn_leave_(sending ? &net->sock[sock].send_lock : &net->sock[sock].recv_lock);
    return n < 0 || n == GW_STREAM_END_ ? 0 : n > 0x7fffffff ? 0x7fffffffu : (unsigned)n;
}

GW_DEV int gpunet_poll_(struct gpollfd *fds, size_t nfds, int nclock_timeout)
{
    struct gpunet *g = gpunet_();
    struct pollfd p[GPUNET_POLL_MAX];
    size_t i;
    int n;

    if (nfds > GPUNET_POLL_MAX) return -EINVAL;
    for (i = 0; i < nfds; i++) {
        p[i].fd = fds[i].fd;
        p[i].events = fds[i].events;
    }
    n = gw_sock_poll_thread(g->net, p, (uint32_t)nfds,
                            gw_clock_ns() + (nclock_timeout > 0 ? (uint64_t)nclock_timeout : g->limit_ns));
    for (i = 0; i < nfds; i++) {
        fds[i].revents = p[i].revents;
        fds[i].rbytes = p[i].revents & POLLIN ? gpunet_bytes_(g->net, p[i].fd, 0) : 0;
        fds[i].wbytes = p[i].revents & POLLOUT ? gpunet_bytes_(g->net, p[i].fd, 1) : 0;
    }
    return n;
}

/* As poll(2), for up to GPUNET_POLL_MAX sockets, and says how many bytes can be moved. The timeout is in
 * clocks, taken for ns; 0 or less: the limit. */
GW_DEV int gpoll(struct gpollfd *fds, size_t nfds, int nclock_timeout)
{
    return GPUNET_FIRST_(gpunet_poll_(fds, nfds, nclock_timeout));
}

/* Begins to accept or receive: a number for gaio_poll, which does so when it can: -EAGAIN until then. */
GW_DEV int gaio(int sock, GAIOP op, void *buf, int size)
{
    (void)buf;
    if (op != GAIO_ACCEPT && op != GAIO_RECEIVE) return -EINVAL;
    return sock < 0 ? -EBADF : op == GAIO_RECEIVE && size < 0 ? -EINVAL : 0;
}

GW_DEV int gaio_poll(int slot, int sock, GAIOP op, void *buf, int size)
{
    if (slot) return -EINVAL;
    return op == GAIO_ACCEPT ? gaccept_nb(sock) : grecv_nb(sock, buf, size);
}

/* ---- launches, time, printing -------------------------------------------------------------------------- */

GW_DEV int gpunet_launch_(const char *name, const int grid[3], const int block[3], const void *arg, int waits)
{
    struct gpunet *g = gpunet_();
    uint64_t until = gpunet_until_(g, -1), n = 1, m = 1;
    int i, k;

    for (i = 0; i < 3; i++) {
        if (grid[i] <= 0 || block[i] <= 0) return -EINVAL;
        n *= (uint64_t)grid[i];
        m *= (uint64_t)block[i];
        if (n > 0x7fffffff || m > 1024) return -EINVAL;
    }
    if (!g->host) return -EOPNOTSUPP;
    k = GPUNET_FIRST_(gw_host_find(g->host, name));
    if (k < 0) return k;
    if (waits) return gw_host_launch(g->host, (uint32_t)k, (uint32_t)n, (uint32_t)m, arg, until);
    return gw_host_start(g->host, (uint32_t)k, (uint32_t)n, (uint32_t)m, arg, NULL, until);
}

/* Launches a kernel of the server's table by name and waits for its end; or does not wait. As gw_host_launch.
 * -ENOENT. */
GW_DEV int gsynclaunch(const char *func_name, int grid_dim[3], int block_dim[3], const void *arg)
{
    return gpunet_launch_(func_name, grid_dim, block_dim, arg, 1);
}

GW_DEV int gasynclaunch(const char *func_name, int grid_dim[3], int block_dim[3], const void *arg)
{
    return gpunet_launch_(func_name, grid_dim, block_dim, arg, 0);
}

/* The time of day; any thread. Without a server, on a GPU, its own clock. */
GW_DEV void ggettimeofday(struct gtimeval *tv)
{
    struct gpunet *g = gpunet_();
    uint64_t now = g->host ? gw_time(g->host) : gw_clock_ns();

    tv->tv_sec = (long)(now / 1000000000u);
    tv->tv_usec = (long)(now % 1000000000u / 1000);
}

/* c = a - b */
GW_DEV void gtimersub(const struct gtimeval *a, const struct gtimeval *b, struct gtimeval *c)
{
    long usec = (a->tv_sec - b->tv_sec) * 1000000 + a->tv_usec - b->tv_usec;

    c->tv_sec = usec / 1000000 - (usec % 1000000 < 0);
    c->tv_usec = usec % 1000000 + (usec % 1000000 < 0 ? 1000000 : 0);
}

/* Prints len bytes, in pieces of up to 256; nothing without a server. */
GW_DEV void gputs_single(const char *str, int len)
{
    struct gpunet *g = gpunet_();
    char piece[257];
    int i, n;

    for (i = 0; g->host && i < len; i += n) {
        for (n = 0; n < 256 && i + n < len; n++) piece[n] = str[i + n];
        piece[n] = 0;
        (void)gw_puts(g->host, piece);
    }
}

GW_DEV void gputs(const char *str, int len)
{
    if (gw_thread_idx() == 0) gputs_single(str, len);
}

/* Prints a format with up to four ints. */
GW_DEV void gprintf4_single(const char *str, int arg1, int arg2, int arg3, int arg4)
{
    struct gpunet *g = gpunet_();

    if (g->host) (void)gw_print_end_(GW_PRINT_4_(g->host, str, arg1, arg2, arg3, arg4));
}

#endif
