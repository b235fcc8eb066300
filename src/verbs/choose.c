/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device: what the caller or GPUWIRE_DEVICE names, else a ConnectX with an active port, else another
 * NIC that speaks RoCE or InfiniBand, else the software NIC. Of several the one next to the GPU. The software
 * NIC must be installed before libibverbs is used for the first time, so real devices are looked for in /sys,
 * without libibverbs.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"
#include "src/verbs/near.h"

#define SOFTNIC "libgpuwire-softnic.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { NOTHING_YET, SOFT, REAL } attached; /* what this process's libibverbs shows */

typedef int (*install_fn)(void);

/* One line of a file of the kernel's. */
bool gw_first_line(const char *path, char *line, size_t size)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, (int)size, f);

    if (f) fclose(f);
    if (ok) line[strcspn(line, "\n")] = 0;
    return ok;
}

static bool port_active(const char *name)
{
    char path[PATH_MAX], line[64];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/1/state", name);
    return gw_first_line(path, line, sizeof(line)) && strstr(line, "ACTIVE");
}

/* How good the device is for us: 2 a ConnectX, 1 another NIC, 0 none. (Programs get rxe and siw, which lie on
 * no bus, when they name them.) The line in why tells what is against it. */
static int verbs_choose_rank(const char *name, char *why, size_t why_size)
{
    char path[PATH_MAX], vendor[64], type[64];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/vendor", name);
    if (!gw_first_line(path, vendor, sizeof(vendor))) {
        snprintf(why, why_size, "%.64s is made of software", name);
        return 0;
    }
    if (!port_active(name)) {
        snprintf(why, why_size, "%.64s: port 1 is not active; check the cable and `ip link`", name);
        return 0;
    }
    if (!strcmp(vendor, "0x15b3")) return 2;
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/node_type", name);
    if (gw_first_line(path, type, sizeof(type)) && type[0] == '0' + IBV_NODE_CA) return 1;
    snprintf(why, why_size, "%.64s is no RoCE or InfiniBand NIC", name);
    return 0;
}

struct candidate {
    char name[64];
    int rank;
    uint32_t distance; /* from the GPU; 0 where that says nothing */
};

/* Names are compared, too: the order of a directory changes from host to host, and from boot to boot. */
static bool is_better(const struct candidate *c, const struct candidate *than)
{
    if (c->rank != than->rank) return c->rank > than->rank;
    if (c->distance != than->distance) return c->distance < than->distance;
    return strverscmp(c->name, than->name) < 0;
}

static uint32_t distance_to(const struct gw_place_in_pci *gpu, const char *name)
{
    struct gw_place_in_pci nic;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device", name);
    return gw_pci_find(path, &nic) ? gw_pci_distance(gpu, &nic) : UINT32_MAX;
}

/* The best usable real device. soft_why tells what there is when there is none, near_why what was chosen
 * by. */
static bool real_device(struct gw_device *dev, struct candidate *best)
{
    DIR *d = opendir("/sys/class/infiniband");
    struct gw_place_in_pci gpu;
    bool has_gpu = gw_pci_of_exec(dev->exec, &gpu);
    unsigned usable = 0;

    *best = (struct candidate){.rank = 0};
    snprintf(dev->info.soft_why, GW_CHOOSE_WHY, "this machine has no RDMA device");
    for (struct dirent *e; d && (e = readdir(d));) {
        struct candidate c = {.rank = 0};

        if (e->d_name[0] == '.') continue;
        snprintf(c.name, sizeof(c.name), "%.63s", e->d_name);
        c.rank = verbs_choose_rank(c.name, dev->info.soft_why, GW_CHOOSE_WHY);
        if (!c.rank) continue;
        usable++;
        if (has_gpu) c.distance = distance_to(&gpu, c.name);
        if (!best->rank || is_better(&c, best)) *best = c;
    }
    if (d) closedir(d);
    if (usable > 1 && has_gpu)
        snprintf(dev->info.near_why, sizeof(dev->info.near_why), "of %u NICs the nearest to GPU %u: %s",
                 usable, gw_exec_device(dev->exec), gw_pci_distance_text(best->distance));
    else if (usable > 1)
        snprintf(dev->info.near_why, sizeof(dev->info.near_why), "of %u NICs the first by name", usable);
    return usable;
}

static void *try_open(const char *path)
{
    return access(path, R_OK) ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* Beside the library or program that this code lies in, in lib/ next to it, or wherever the loader looks.
 * (Debian has a folder in lib/ for the processor.) */
static void *load_softnic(void)
{
    static const char *const places[] = {"", "/../lib", ("/../lib/" GW_LIBRARY_ARCH)};
    const char *given = getenv("GPUWIRE_SOFTNIC_LIBRARY");
    char self[PATH_MAX], path[PATH_MAX + 64];
    void *lib = NULL;
    Dl_info info;

    /* The user of a set-user-ID program chooses its environment and the name it is called by, not its
     * code. */
    if (getauxval(AT_SECURE)) return dlopen(SOFTNIC, RTLD_NOW | RTLD_GLOBAL);
    if (given && *given) return dlopen(given, RTLD_NOW | RTLD_GLOBAL);
    /* Of a program linked statically dladdr knows only what it was called by, which may be found by PATH
     * alone. */
    bool found = dladdr((void *)&attached, &info) && info.dli_fname && realpath(info.dli_fname, self);
    if (found || realpath("/proc/self/exe", self)) {
        const char *dir = dirname(self);

        for (size_t i = 0; !lib && i < sizeof(places) / sizeof(places[0]); i++) {
            snprintf(path, sizeof(path), "%s%s/%s", dir, places[i], SOFTNIC);
            lib = try_open(path);
        }
    }
    return lib ? lib : dlopen(SOFTNIC, RTLD_NOW | RTLD_GLOBAL);
}

/* Makes the software NIC this process's device. Loaded once and for good: libibverbs' calls end in it. */
static int attach_softnic(void)
{
    install_fn install = (install_fn)dlsym(RTLD_DEFAULT, "softnic_install");
    int err;

    if (!install) {
        void *lib = load_softnic();

        if (!lib) {
            const char *reason = dlerror();
            return gw_error(-ENODEV, "cannot load the software NIC: %s",
                            reason ? reason : SOFTNIC " not found");
        }
        install = (install_fn)dlsym(lib, "softnic_install");
        if (!install) return gw_error(-ENODEV, SOFTNIC " is damaged: it has no softnic_install");
    }
    err = install();
    return err ? gw_error_errno(err, "cannot install the software NIC") : 0;
}

/* Is the software NIC in this process already, by preloading or by the program's own call? */
static bool preloaded(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload && strstr(preload, SOFTNIC) && dlsym(RTLD_DEFAULT, "softnic_install");
}

/* Why there is nothing to open. The software NIC tells its own reasons, such as wrong settings, on standard
 * error. */
static int verbs_choose_nothing(const char *name, int err)
{
    if (attached == SOFT && !name)
        return gw_error(-ENODEV, "the software NIC did not start (GPUWIRE_NIC holds its settings)");
    return gw_no_device(name, err);
}

/* A ConnectX, or another NIC that speaks RoCE or InfiniBand. */
static bool verbs_choose_usable(struct ibv_device *d, int *err)
{
    if (mlx5dv_is_supported(d) || d->node_type == IBV_NODE_CA) return true;
    *err = gw_error(-ENODEV, "%s is no RoCE or InfiniBand NIC (iWARP, usNIC and EFA cannot be used)",
                    ibv_get_device_name(d));
    return false;
}

/* Opens the named device, or the first usable one. */
static int open_named(const char *name, struct ibv_context **out)
{
    int n = 0, err = -ENOENT;
    struct ibv_device **list = ibv_get_device_list(&n);

    *out = NULL;
    if (!list) return verbs_choose_nothing(name, -ENOENT);
    for (int i = 0; i < n && !*out; i++) {
        if (name && strcmp(ibv_get_device_name(list[i]), name)) continue;
        if (!verbs_choose_usable(list[i], &err)) continue;
        *out = ibv_open_device(list[i]);
        if (*out) break;
        err = attached == SOFT ? verbs_choose_nothing(NULL, -ENODEV)
                               : gw_cannot_open(ibv_get_device_name(list[i]), errno);
    }
    ibv_free_device_list(list);
    if (*out) return 0;
    return err == -ENOENT ? verbs_choose_nothing(name, err) : err;
}

/* why: what there was to say against a real device; empty when none was looked for. */
static int open_soft(const char *why, struct ibv_context **ctx)
{
    int err = attached == SOFT ? 0 : attach_softnic();
    char reason[400];

    if (!err) {
        attached = SOFT;
        return open_named(NULL, ctx);
    }
    snprintf(reason, sizeof(reason), "%s", gw_last_error());
    return *why ? gw_error(err, "no network device works: %s, and %s", why, reason) : err;
}

static int open_real(const char *name, struct ibv_context **ctx)
{
    int err = open_named(name, ctx);

    if (!err && attached == NOTHING_YET) attached = REAL;
    return err;
}

static int choose_locked(const char *name, struct gw_device *dev, bool *soft)
{
    struct candidate found;

    GW_ASSERT_HELD(&lock);
    if (preloaded()) attached = SOFT;
    if (!name || !*name) name = getenv("GPUWIRE_DEVICE");
    if (name && !*name) name = NULL;
    *soft = attached == SOFT || (name && !strcmp(name, "softnic"));
    if (*soft && attached == REAL)
        return gw_error(
            -EBUSY,
            "this process uses a real RDMA device already: the software NIC needs a process of its own");
    if (*soft)
        return !name || !strcmp(name, "softnic") ? open_soft("", &dev->ctx) : open_named(name, &dev->ctx);
    if (name) return open_real(name, &dev->ctx);
    if (real_device(dev, &found)) {
        int err = open_real(found.name, &dev->ctx);

        /* No permission, say: the software NIC needs none. */
        snprintf(dev->info.soft_why, GW_CHOOSE_WHY, "%s", err ? gw_last_error() : "");
        if (!err) return 0;
        dev->info.near_why[0] = 0;
    }
    if (attached == REAL) return open_real(NULL, &dev->ctx);
    *soft = true;
    return open_soft(dev->info.soft_why, &dev->ctx);
}

int gw_choose(const char *name, struct gw_device *dev)
{
    bool soft = false;
    int err;

    pthread_mutex_lock(&lock);
    err = choose_locked(name, dev, &soft);
    pthread_mutex_unlock(&lock);
    dev->ops = soft ? &gw_softnic_ops : &gw_hardware_ops;
    return err;
}
