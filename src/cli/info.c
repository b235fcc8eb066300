/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire info: what works on this machine, what does not, and why. */
#include "src/cli/cli.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <getopt.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpuwire/connect.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "softnic/config/addr.h"
#include "src/cli/nic_ask.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire info [--device NAME] [--exec auto|cpu|gpu]\n"
    "\n"
    "Tells which NIC and which executor a program would get here, how peers on this host are reached, how "
    "kernels can\n"
    "ring the NIC, which memory it reaches and whether connections work. Each way is tried; of each that "
    "does not work it says\n"
    "why, and what would mend it. Exit code 0: a program would work, 1: it would not, 2: "
    "wrong usage.\n"
    "\n"
    "  --device NAME         an RDMA device, or softnic; default: GPUWIRE_DEVICE, else what gpuwire chooses\n"
    "  --exec auto|cpu|gpu   where kernels run; default: auto, the GPU when there is one\n"
    "  -h, --help            this text\n";

static void print_executors(const struct gw_exec *exec)
{
    char why[200];

    printf("executor     %s\n", gw_exec_name(exec));
    if (gw_exec_kind(exec) == GW_EXEC_GPU) return;
    if (gw_exec_gpu_available(why, sizeof(why)))
        printf("             (a GPU is there too: --exec gpu)\n");
    else
        printf("             no GPU: %s\n", why);
}

/* The machine's own RDMA devices, whichever is used. why: what is against them, where that was asked. */
static void info_print_real(const char *why)
{
    DIR *d = opendir("/sys/class/infiniband");
    unsigned n = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        printf("%s%s", n++ ? ", " : "hardware     ", e->d_name);
    }
    if (d) closedir(d);
    if (!n)
        printf("hardware     no RDMA device on this machine (`lspci` shows a NIC? load its driver: `modprobe "
               "mlx5_ib`)\n");
    else
        printf("%s%s\n", *why ? ", not used: " : "", why);
}

/* A program may register as much as it may lock; the software NIC locks nothing. */
static void print_locked(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    struct rlimit limit;
    bool any;

    if (getrlimit(RLIMIT_MEMLOCK, &limit)) return;
    any = !syscall(SYS_capget, &head, caps) && caps[0].effective >> CAP_IPC_LOCK & 1;
    if (limit.rlim_cur == RLIM_INFINITY || any)
        printf("             locked memory: no limit\n");
    else
        printf(
            "             locked memory: %llu KiB at most, larger regions are refused: raise it (`ulimit -l "
            "unlimited`,\n             memlock in /etc/security/limits.conf, LimitMEMLOCK= of a service)\n",
            (unsigned long long)limit.rlim_cur / 1024);
}

/* The library is in this process, loaded at run time. */
static void print_same_host(void)
{
    int (*ask)(char *, size_t) = (int (*)(char *, size_t))dlsym(RTLD_DEFAULT, "softnic_same_host");
    char text[400];

    if (ask && !ask(text, sizeof(text))) printf("same host    peers are reached %s\n", text);
}

/* The GPUs of this process, which is the one that kernels run on. */
static void info_print_gpus(const json_t *nic)
{
    const json_t *gpu;
    size_t i;

    json_array_foreach(json_object_get(nic, "gpus"), i, gpu)
    {
        const char *peers = json_string_value(json_object_get(gpu, "peers"));
        int number = (int)json_integer_value(json_object_get(gpu, "gpu"));

        printf("             GPU %d copies: %s\n", number, json_string_value(json_object_get(gpu, "copies")));
        if (peers && *peers) printf("             GPU %d gets at other GPUs' memory: %s\n", number, peers);
    }
}

/* The NIC of this very process says what it found and uses: it is asked as `gpuwire nic` would. */
static void print_soft(void)
{
    json_t *all = gw_nic_ask("show", getpid()), *nic = json_array_get(all, 0);
    const char *note = json_string_value(json_object_get(nic, "note"));

    if (nic) {
        bool port = json_is_true(json_object_get(nic, "port_4791"));

        printf("             in force: slot %lld (UDP port %lld), poll %s%s, ICRC by %s, faults %s\n",
               (long long)json_integer_value(json_object_get(nic, "slot")),
               (long long)json_integer_value(json_object_get(nic, "udp_port")),
               json_string_value(json_object_get(nic, "poll")),
               json_is_true(json_object_get(nic, "hostile")) ? ", hostile" : "",
               json_string_value(json_object_get(nic, "crc")),
               json_string_value(json_object_get(nic, "faults")));
        if (!strcmp(json_string_value(json_object_get(nic, "wire_kind")), "UDP"))
            printf("             port 4791: %s; segmentation offload: %s\n",
                   port ? "joined, other hosts reach this NIC" : "not joined",
                   json_is_true(json_object_get(nic, "segmentation")) ? "yes" : "no");
        if (note && *note) printf("             note: %s\n", note);
        info_print_gpus(nic);
    } else {
        printf("             what is in force cannot be asked for: no socket for `gpuwire nic`\n");
    }
    json_decref(all);
}

/* The settings of connections that a program does not set. */
static void print_settings(void)
{
    static const char *const names[] = {"GPUWIRE_GID_INDEX",
                                        "GPUWIRE_PKEY",
                                        "GPUWIRE_SL",
                                        "GPUWIRE_TC",
                                        "GPUWIRE_TIMEOUT",
                                        "GPUWIRE_GRH",
                                        "GPUWIRE_RELAXED_ORDERING",
                                        "GPUWIRE_GPU_FLUSH"};

    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        if (getenv(names[k]) && *getenv(names[k]))
            printf("             setting: %s=%s\n", names[k], getenv(names[k]));
}

static void print_gid_warning(const struct gw_device_info *i)
{
    bool link_local = i->gid[0] == 0xfe && (i->gid[1] & 0xc0) == 0x80;

    if (!i->soft && !i->lid && link_local)
        printf("             note: that is a link-local address, which no router passes and rdma_cm needs an "
               "interface for:\n             give the NIC's interface an IP address (`ip addr add`)\n");
}

static void print_nic(const struct gw_device_info *i)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    const char *settings = getenv("GPUWIRE_NIC");
    char addr[INET6_ADDRSTRLEN];

    if (memcmp(i->gid, v4, 12))
        inet_ntop(AF_INET6, i->gid, addr, sizeof(addr));
    else
        inet_ntop(AF_INET, i->gid + 12, addr, sizeof(addr));
    printf("NIC          %s, %s, address %s\n", i->soft ? "software NIC" : i->name, i->board, addr);
    printf("             path MTU %u bytes, GID index %u%s%s%s\n", i->mtu, i->gid_index,
           i->gid_why[0] ? " (" : "", i->gid_why, i->gid_why[0] ? ")" : "");
    if (i->near_why[0]) printf("             chosen because: %s\n", i->near_why);
    print_settings();
    print_gid_warning(i);
    if (i->soft) {
        printf("             settings (GPUWIRE_NIC): %s\n",
               settings && *settings ? settings : "none, all defaults");
        print_soft();
        print_same_host();
    }
    info_print_real(i->soft_why);
}

/* ---- which ways there are, each tried ------------------------------------------------------------------ */

static void print_way(const char *what, const char *way, int err, bool chosen)
{
    printf("%-12s %s: %s%s\n", what, way, err ? "no: " : "works",
           err      ? gw_last_error()
           : chosen ? ", chosen"
                    : "");
}

static void print_modes(struct gw_device *dev, const struct gw_device_info *i)
{
    static const struct {
        uint32_t mode;
        const char *what;
    } all[] = {{GW_POST_DIRECT, "direct, kernels ring the NIC themselves"},
               {GW_POST_PROXY_DOORBELL, "proxy-doorbell, a CPU thread rings for them"},
               {GW_POST_PROXY_POST, "proxy-post, a CPU thread posts what they ask for"}};

    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
        print_way(k ? "" : "posting", all[k].what, gw_post_try(dev, all[k].mode),
                  i->post_mode == all[k].mode);
    if (i->post_why[0]) printf("             chosen because: %s\n", i->post_why);
}

static void print_atomics(const struct gw_device_info *i)
{
    const char *why = i->masked_why;

    printf("%-12s %s%s%s\n", "atomics", i->masked_atomics ? "masked ones, too" : "no masked ones",
           *why ? ": " : "", why);
}

/* Does who sees a completion see its data? */
static void print_order(const struct gw_device_info *i)
{
    if (i->gpu_flush)
        printf("             order: the GPU does not promise that completions find their data: %s.\n"
               "             So polls READ from its memory first, which takes some microseconds each\n",
               i->flush_why);
    else if (i->gpu_reach > GW_REACH_HOST)
        printf("             order: completions find their data in GPU memory\n");
}

static void print_memory(struct gw_device *dev, const struct gw_device_info *i)
{
    bool gpu = gw_exec_kind(gw_device_exec(dev)) == GW_EXEC_GPU;

    print_way("memory", gpu ? "mapped host memory" : "host memory", gw_reach_try(dev, GW_REACH_HOST),
              !gpu || i->gpu_reach == GW_REACH_NONE);
    if (!i->soft) print_locked();
    if (!gpu) return;
    print_way("", i->soft ? "GPU memory by its address" : "GPU memory by its address (peer memory)",
              gw_reach_try(dev, GW_REACH_DIRECT), i->gpu_reach == GW_REACH_DIRECT);
    print_way("", "GPU memory as a dma-buf", gw_reach_try(dev, GW_REACH_DMABUF),
              i->gpu_reach == GW_REACH_DMABUF);
    print_order(i);
}

static void print_connections(struct gw_device *dev)
{
    struct gw_listener *l = NULL;

    print_way("connections", "by address and port, rdma_cm", gw_cm_listen(dev, NULL, 0, &l), false);
    gw_cm_unlisten(l);
}

/* Each way below works within this process even then, and none to another. */
static bool info_cut_off(const struct gw_device_info *i)
{
    struct sn_addr addr = {.scope = 0};

    memcpy(addr.gid, i->gid, sizeof(addr.gid));
    return i->soft && sn_addr_is_loopback(&addr) && sn_lo_is_down();
}

static void print_ways(struct gw_device *dev, const struct gw_device_info *i)
{
    print_modes(dev, i);
    print_atomics(i);
    print_memory(dev, i);
    print_connections(dev);
}

static int info_report(const char *device, const char *which)
{
    struct gw_device_info info;
    struct gw_device *dev;
    struct gw_exec *exec;
    bool cut;

    if (gw_exec_create(which, NULL, &exec)) {
        fprintf(stderr, "gpuwire info: %s\n", gw_last_error());
        return 1;
    }
    print_executors(exec);
    if (gw_device_open(device, exec, &dev)) {
        printf("NIC          none\n");
        info_print_real("");
        fflush(stdout);
        fprintf(stderr, "gpuwire info: %s\n", gw_last_error());
        gw_exec_destroy(exec);
        return 1;
    }
    gw_device_query(dev, &info);
    print_nic(&info);
    cut = info_cut_off(&info);
    if (!cut) print_ways(dev, &info);
    fflush(stdout);
    if (cut)
        fprintf(stderr, "gpuwire info: lo is down in this network namespace, and no peer is reached: `ip "
                        "link set lo up`\n");
    gw_device_close(dev);
    gw_exec_destroy(exec);
    return cut;
}

int gw_cli_info(int argc, char **argv)
{
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"exec", required_argument, NULL, 'e'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *device = NULL, *which = "auto";
    int c;

    optind = 1;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (c) {
        case 'd': device = optarg; break;
        case 'e': which = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        default: return gw_option_wrong("info", argv, c);
        }
    }
    if (optind != argc) return gw_usage_error("info", "%s: not understood", argv[optind]);
    if (strcmp(which, "auto") && strcmp(which, "cpu") && strcmp(which, "gpu"))
        return gw_usage_error("info", "--exec %s: must be gpu, cpu or auto", which);
    return info_report(device, which);
}
