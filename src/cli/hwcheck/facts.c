/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a machine, from files and commands that any user may read and run. No addresses, GUIDs, serial
 * numbers or names. */
#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <gpuwire/exec.h>

#include "src/cli/hwcheck/hwcheck.h"

/* The first line of a file that starts with `key`, behind the colon or equals sign; key NULL: the first line.
 */
static json_t *line_of(const char *path, const char *key)
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

static void add(json_t *to, const char *name, json_t *value)
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

    add(n, "name", json_string(name));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/%s", name, files[i][1]);
        add(n, files[i][0], line_of(path, NULL));
    }
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/driver", name);
    len = readlink(path, driver, sizeof(driver) - 1);
    if (len > 0) {
        driver[len] = 0;
        add(n, "driver", json_string(basename(driver)));
    }
    return n;
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

static json_t *gpus(void)
{
    json_t *all = json_array();
    DIR *d = opendir("/proc/driver/nvidia/gpus");

    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX];
        json_t *model;

        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%.64s/information", e->d_name);
        model = line_of(path, "Model");
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
    static const char *const modules[] = {"mlx5_ib", "rdma_ucm", "rdma_rxe", "nvidia_peermem", "nvidia"};
    json_t *facts = json_object(), *loaded = json_object();
    struct utsname u;
    char why[200] = "";

    add(facts, "gpuwire", json_string(GW_VERSION));
    if (!uname(&u)) {
        add(facts, "kernel", json_string(u.release));
        add(facts, "architecture", json_string(u.machine));
    }
    add(facts, "processor", line_of("/proc/cpuinfo", "model name"));
    add(facts, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    add(facts, "distribution", line_of("/etc/os-release", "PRETTY_NAME"));
    add(facts, "libibverbs", library());
    add(facts, "locked memory", locked_memory());
    add(facts, "NICs", nics());
    add(facts, "GPUs", gpus());
    add(facts, "GPU driver", line_of("/proc/driver/nvidia/version", "NVRM version"));
    if (!gw_exec_gpu_available(why, sizeof(why))) add(facts, "no GPU", json_string(why));
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        add(loaded, modules[i], module(modules[i]));
    add(facts, "modules", loaded);
    return facts;
}
