/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of several NICs the one next to the GPU. Data between a GPU and a NIC behind one PCIe switch never passes
 * the processor. Between root complexes it does, more slowly, and on some hosts not at all.
 */
#include "src/verbs/near.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

enum {
    SAME_SWITCH = 0,
    SAME_COMPLEX = 1000,
    SAME_NODE = 2000,
    FAR_AWAY = 3000,
    HOPS_MAX = 999,
    BUS_ROOM = 32
};

typedef int (*cu_get_fn)(int *device, int ordinal);
typedef int (*cu_bus_fn)(char *bus, int size, int device);

bool gw_pci_find(const char *folder, struct gw_place_in_pci *at)
{
    char name[PATH_MAX + 16];
    FILE *f;

    at->node = -1;
    if (!realpath(folder, at->path)) return false;
    snprintf(name, sizeof(name), "%s/numa_node", at->path);
    f = fopen(name, "re");
    if (f && fscanf(f, "%d", &at->node) != 1) at->node = -1;
    if (f) fclose(f);
    return true;
}

bool gw_pci_of_exec(const struct gw_exec *exec, struct gw_place_in_pci *at)
{
    char bus[BUS_ROOM] = "", folder[BUS_ROOM + 32];
    void *lib;
    int device;

    if (gw_exec_kind(exec) != GW_EXEC_GPU) return false;
    lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* the executor has loaded it */
    cu_get_fn get = lib ? (cu_get_fn)dlsym(lib, "cuDeviceGet") : NULL;
    cu_bus_fn bus_of = lib ? (cu_bus_fn)dlsym(lib, "cuDeviceGetPCIBusId") : NULL;
    bool found =
        get && bus_of && !get(&device, (int)gw_exec_device(exec)) && !bus_of(bus, sizeof(bus) - 1, device);

    if (lib) dlclose(lib);
    if (!found) return false;
    for (char *c = bus; *c; c++) *c = (char)tolower((unsigned char)*c); /* as /sys writes them */
    snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s", bus);
    return gw_pci_find(folder, at);
}

/* The folders of a path from there on. */
static uint32_t hops(const char *path)
{
    uint32_t n = 0;

    for (; *path; path++) n += path[0] == '/' && path[1] && path[1] != '/';
    return n;
}

/* How long the common part is, in whole folders, and how many of those are PCI devices (bridges) or
 * complexes. */
static size_t common(const char *a, const char *b, uint32_t *bridges, bool *complex)
{
    size_t len = 0;

    *bridges = 0;
    *complex = false;
    for (size_t i = 1; i <= strlen(a) && i <= strlen(b); i++) {
        bool end_a = !a[i] || a[i] == '/', end_b = !b[i] || b[i] == '/';

        if (end_a && end_b) {
            if (*complex) ++*bridges;
            if (!strncmp(a + len, "/pci", 4)) *complex = true;
            len = i;
        }
        if (a[i] != b[i]) break;
    }
    return len;
}

uint32_t gw_pci_distance(const struct gw_place_in_pci *a, const struct gw_place_in_pci *b)
{
    uint32_t bridges, apart;
    bool complex;
    size_t len = common(a->path, b->path, &bridges, &complex);

    apart = hops(a->path + len) + hops(b->path + len);
    if (apart > HOPS_MAX) apart = HOPS_MAX;
    if (complex) return (bridges ? SAME_SWITCH : SAME_COMPLEX) + apart;
    return (a->node == b->node ? SAME_NODE : FAR_AWAY) + apart;
}

const char *gw_pci_distance_text(uint32_t distance)
{
    if (distance >= FAR_AWAY) return "at another NUMA node";
    if (distance >= SAME_NODE) return "at the same NUMA node";
    if (distance >= SAME_COMPLEX) return "at the same root complex";
    return "behind the same PCIe bridge";
}
