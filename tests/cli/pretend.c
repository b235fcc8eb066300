/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: a machine on which things do not work. PRETEND_REAL=LIBRARY: the software NIC, which the program
 * then takes for a ConnectX. PRETEND_REFUSE=word,…: no_rdma_cm: there is no /dev/infiniband/rdma_cm;
 * cm_permission: it may not be opened; locked: no more memory may be locked;
 * bar1: a GPU shows devices no more of its memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT          __attribute__((visibility("default")))
#define NEXT(name, ...) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

struct ibv_pd;
struct ibv_mr;
struct rdma_event_channel;

EXPORT struct rdma_event_channel *rdma_create_event_channel(void);
EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, unsigned long iova,
                                       unsigned access);

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, unsigned long offset, size_t length,
                                        unsigned long iova, int fd, int access);

static int refused(const char *what)
{
    const char *all = getenv("PRETEND_REFUSE");

    return all && strstr(all, what);
}

__attribute__((constructor)) static void begin(void)
{
    const char *nic = getenv("PRETEND_REAL");
    void *lib = nic ? dlopen(nic, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*install)(void) = lib ? (int (*)(void))dlsym(lib, "softnic_install") : NULL;

    if (nic && (!install || install())) fprintf(stderr, "pretend: %s cannot be installed\n", nic);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    errno = refused("no_rdma_cm") ? ENOENT : EACCES;
    return refused("no_rdma_cm") || refused("cm_permission") ? NULL : NEXT(rdma_create_event_channel);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, unsigned long iova,
                                unsigned access)
{
    errno = ENOMEM;
    return refused("locked") ? NULL : NEXT(ibv_reg_mr_iova2, pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    errno = ENOMEM;
    return refused("locked") ? NULL : NEXT(ibv_reg_mr, pd, addr, length, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, unsigned long offset, size_t length, unsigned long iova,
                                 int fd, int access)
{
    errno = ENOMEM;
    return refused("bar1") ? NULL : NEXT(ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}
