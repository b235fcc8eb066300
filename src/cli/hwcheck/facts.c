/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a machine, from files and commands that any user may read and run. No addresses, GUIDs, serial
 * numbers or names. */
#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <gpuwire/exec.h>

#include "src/cli/hwcheck/hwcheck.h"

/* The first line of a file that starts with `key`, after the colon or equals sign; key NULL: the first line.
 */
static json_t *facts_line_of(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    char line[512];
    json_t *found = NULL;

    while (f && !found && fgets(line, sizeof(line), f)) {
        char *at = line;

        if (key && strncmp(line, key, strlen(key))) continue;
        if (key && (at = strpbrk(line, ":="))) at++;
        if (!at) continue;
        at += strspn(at, " \t\"");
        at[strcspn(at, "\"\n")] = 0;
        found = json_string(at);
    }
    if (f) fclose(f);
    return found;
}

static void facts_add(json_t *to, const char *name, json_t *value)
{
    if (value) json_object_set_new(to, name, value);
}

static json_t *nic(const char *name)
{
    static const char *const files[][2] = {
        {"firmware", "fw_ver"},      {"board", "board_id"},          {"model", "hca_type"},
        {"vendor", "device/vendor"}, {"device", "device/device"},    {"state", "ports/1/state"},
        {"rate", "ports/1/rate"},    {"link", "ports/1/link_layer"},
    };
    char path[PATH_MAX], driver[PATH_MAX];
    json_t *n = json_object();
    ssize_t len;

    facts_add(n, "name", json_string(name));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/%s", name, files[i][1]);
        facts_add(n, files[i][0], facts_line_of(path, NULL));
    }
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/driver", name);
    len = readlink(path, driver, sizeof(driver) - 1);
    if (len > 0) {
        driver[len] = 0;
        facts_add(n, "driver", json_string(basename(driver)));
    }
    return n;
}

/* The driver's own words, without what names a machine. */
static json_t *registry(void)
{
    return facts_line_of("/proc/driver/nvidia/params", "RegistryDwords");
}

/* ---- ways between a GPU and a NIC ---------------------------------------------------------------------- */

static json_t *folder_size(const char *path)
{
    DIR *d = opendir(path);
    json_int_t n = 0;

    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return json_integer(n);
}

enum { PCI_CAPABILITIES = 0x100, PCI_CONFIG = 4096, ACS = 0x000d, ACS_CONTROL = 6, ACS_REDIRECTS = 0x2c };

/* Does a bridge send what devices below it say to each other up to the processor? -1: root alone may know. */
static int redirects(const char *device)
{
    uint8_t c[PCI_CONFIG];
    char path[PATH_MAX];
    size_t at = PCI_CAPABILITIES;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/config", device);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(c, 1, sizeof(c), f) : 0;
    if (f) fclose(f);
    if (n < sizeof(c)) return -1;
    for (int i = 0; at >= PCI_CAPABILITIES && at + 8 <= sizeof(c) && i < 1000; i++) {
        uint32_t head =
            c[at] | (uint32_t)c[at + 1] << 8 | (uint32_t)c[at + 2] << 16 | (uint32_t)c[at + 3] << 24;

        if ((head & 0xffff) == ACS) return (c[at + ACS_CONTROL] & ACS_REDIRECTS) != 0;
        at = head >> 20;
    }
    return 0;
}

static bool is_bridge(const char *device)
{
    char path[PATH_MAX];
    json_t *class;
    bool bridge;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/class", device);
    class = facts_line_of(path, NULL);
    bridge = class && !strncmp(json_string_value(class), "0x0604", 6);
    json_decref(class);
    return bridge;
}

/* Bridges, and of these: those with ACS redirection on, and those that only root may look into. */
static json_t *bridges(void)
{
    DIR *d = opendir("/sys/bus/pci/devices");
    int all = 0, on = 0, unknown = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || !is_bridge(e->d_name)) continue;
        int r = redirects(e->d_name);

        all++;
        on += r > 0;
        unknown += r < 0;
    }
    if (d) closedir(d);
    return json_pack("{si si si}", "bridges", all, "with ACS redirection", on, "not known (run as root)",
                     unknown);
}

/* Where each NIC and GPU is in the PCI tree: its folders from the root complex on. */
static void facts_add_places(json_t *to, const char *folder, const char *format)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX], place[PATH_MAX];

        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), format, e->d_name);
        if (realpath(path, place) && strlen(place) > strlen("/sys/devices/"))
            facts_add(to, e->d_name, json_string(place + strlen("/sys/devices/")));
    }
    if (d) closedir(d);
}

static json_t *pci(void)
{
    json_t *p = json_object(), *places = json_object();

    facts_add_places(places, "/sys/class/infiniband", "/sys/class/infiniband/%.64s/device");
    facts_add_places(places, "/proc/driver/nvidia/gpus", "/sys/bus/pci/devices/%.64s");
    facts_add(p, "IOMMU groups", folder_size("/sys/kernel/iommu_groups"));
    facts_add(p, "ACS", bridges());
    facts_add(p, "places", places);
    return p;
}

/* CUDA's promise about the order in which a GPU sees writes of NICs: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_… */
static json_t *write_orders(void)
{
    enum { MAJOR = 75, MINOR = 76, HOST_ATOMICS = 86, WRITES_ORDERING = 118, DMA_BUF = 124 };
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;
    int (*count)(int *) = lib ? (int (*)(int *))dlsym(lib, "cuDeviceGetCount") : NULL;
    int (*ask)(int *, int, int) = lib ? (int (*)(int *, int, int))dlsym(lib, "cuDeviceGetAttribute") : NULL;
    json_t *all = json_array();
    int n = 0, order, dmabuf, major, minor, coherent;

    if (!init || !count || !ask || init(0) || count(&n)) n = 0;
    for (int i = 0; i < n; i++) {
        if (ask(&order, WRITES_ORDERING, i)) order = -1;
        if (ask(&dmabuf, DMA_BUF, i)) dmabuf = -1;
        if (ask(&major, MAJOR, i)) major = -1;
        if (ask(&minor, MINOR, i)) minor = -1;
        if (ask(&coherent, HOST_ATOMICS, i)) coherent = -1;
        json_array_append_new(all, json_pack("{ss si si si si}", "writes are ordered for",
                                             order == 200   ? "all GPUs"
                                             : order == 100 ? "the owner"
                                             : order == 0   ? "none"
                                                            : "not known",
                                             "dma-buf", dmabuf, "capability", 10 * major + minor,
                                             "coherent link", coherent));
    }
    return all;
}

extern char **environ;

/* Settings of the libraries: names and values that are short words or numbers. */
static json_t *facts_settings(void)
{
    static const char *const begins[] = {"MLX5_",
                                         "GPUWIRE_POST=",
                                         "GPUWIRE_GID_INDEX=",
                                         "GPUWIRE_PKEY=",
                                         "GPUWIRE_SL=",
                                         "GPUWIRE_TC=",
                                         "GPUWIRE_TIMEOUT=",
                                         "GPUWIRE_GRH=",
                                         "GPUWIRE_RELAXED_ORDERING=",
                                         "GPUWIRE_GPU_FLUSH=",
                                         "GPUWIRE_DEVICE=",
                                         "IBV_",
                                         "RDMAV_",
                                         "CUDA_MODULE_LOADING=",
                                         "CUDA_VISIBLE_DEVICES="};
    json_t *all = json_object();

    for (char **e = environ; *e; e++) {
        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
            const char *equals = strchr(*e, '=');
            char name[64];

            if (!equals || strncmp(*e, begins[i], strlen(begins[i])) || strchr(equals, '/')) continue;
            snprintf(name, sizeof(name), "%.*s", (int)(equals - *e), *e);
            facts_add(all, name, json_string(equals + 1));
        }
    }
    return all;
}

static json_t *nics(void)
{
    json_t *all = json_array();
    DIR *d = opendir("/sys/class/infiniband");

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') json_array_append_new(all, nic(e->d_name));
    if (d) closedir(d);
    return all;
}

static json_t *facts_gpus(void)
{
    json_t *all = json_array();
    DIR *d = opendir("/proc/driver/nvidia/gpus");

    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        json_t *model;

        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%.64s/information", e->d_name);
        model = facts_line_of(path, "Model");
        if (model) json_array_append_new(all, model);
    }
    if (d) closedir(d);
    return all;
}

/* The library's file, as it is named in full: libibverbs.so.1.14.44.0 is rdma-core 44. */
static json_t *library(void)
{
    char path[PATH_MAX];
    Dl_info info;

    if (!dladdr((void *)ibv_get_device_list, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
        return NULL;
    return json_string(basename(path));
}

static json_t *module(const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/sys/module/%s", name);
    return json_boolean(!access(path, F_OK));
}

static json_t *locked_memory(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit)) return NULL;
    return limit.rlim_cur == RLIM_INFINITY ? json_string("unlimited")
                                           : json_integer((json_int_t)limit.rlim_cur);
}

json_t *hwcheck_facts(void)
{
    static const char *const modules[] = {"mlx5_ib",  "rdma_ucm", "ib_ipoib",
                                          "rdma_rxe", "nvidia",   "nvidia_peermem"};
    json_t *facts = json_object(), *loaded = json_object();
    struct utsname u;
    char why[200] = "";

    facts_add(facts, "gpuwire", json_string(GW_VERSION));
    if (!uname(&u)) {
        facts_add(facts, "kernel", json_string(u.release));
        facts_add(facts, "architecture", json_string(u.machine));
    }
    facts_add(facts, "processor", facts_line_of("/proc/cpuinfo", "model name"));
    facts_add(facts, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    facts_add(facts, "distribution", facts_line_of("/etc/os-release", "PRETTY_NAME"));
    facts_add(facts, "libibverbs", library());
    facts_add(facts, "locked memory", locked_memory());
    facts_add(facts, "NICs", nics());
    facts_add(facts, "GPUs", facts_gpus());
    facts_add(facts, "GPU driver", facts_line_of("/proc/driver/nvidia/version", "NVRM version"));
    if (!gw_exec_gpu_available(why, sizeof(why))) facts_add(facts, "no GPU", json_string(why));
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        facts_add(loaded, modules[i], module(modules[i]));
    facts_add(facts, "modules", loaded);
    facts_add(facts, "GPU driver's registry", registry());
    facts_add(facts, "GPU writes", write_orders());
    facts_add(facts, "PCI", pci());
    facts_add(facts, "settings", facts_settings());
    facts_add(facts, "in a container",
              json_boolean(!access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK)));
    return facts;
}
