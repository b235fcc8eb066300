/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the NIC through calls of libc that take a path, as some library might, and prints what a
 * ConnectX does not have so. view INTERFACE
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define IB   "/sys/class/infiniband/mlx5_0"
#define CDEV "/dev/infiniband/uverbs0"

static int wrong;

static void check(bool right, const char *what)
{
    if (right) return;
    fprintf(stderr, "%s: not as a ConnectX has it\n", what);
    wrong++;
}

/* The first line of a file. */
static const char *line_of(const char *path)
{
    static char line[256];
    FILE *f = fopen(path, "r");

    line[0] = 0;
    if (f && !fgets(line, sizeof(line), f)) line[0] = 0;
    if (f) fclose(f);
    line[strcspn(line, "\n")] = 0;
    return line;
}

static bool lists(const char *folder, const char *name)
{
    DIR *d = opendir(folder);
    bool found = false;

    for (struct dirent *e; d && (e = readdir(d));) found |= !strcmp(e->d_name, name);
    if (d) closedir(d);
    return found;
}

static void check_lists(const char *interface)
{
    struct dirent **names;
    glob_t found;

    check(lists("/sys/class/infiniband", "mlx5_0"), "opendir of /sys/class/infiniband");
    check(lists("/sys/class/infiniband_verbs", "uverbs0"), "opendir of /sys/class/infiniband_verbs");
    check(lists("/dev/infiniband", "uverbs0") && lists("/dev/infiniband", "rdma_cm"),
          "opendir of /dev/infiniband");
    check(lists(IB "/device/net", interface), "opendir of the device's net");
    check(scandir("/sys/class/infiniband", &names, NULL, alphasort) == 3 &&
              !strcmp(names[2]->d_name, "mlx5_0"),
          "scandir");
    check(!glob("/sys/class/infiniband/*/ports/*/state", 0, NULL, &found) && found.gl_pathc == 1 &&
              !strcmp(found.gl_pathv[0], IB "/ports/1/state"),
          "glob");
}

static void check_texts(const char *interface)
{
    check(!strcmp(line_of(IB "/ports/1/state"), "4: ACTIVE"), "state");
    check(!strcmp(line_of(IB "/ports/1/phys_state"), "5: LinkUp"), "phys_state");
    check(!strcmp(line_of(IB "/ports/1/link_layer"), "Ethernet"), "link_layer");
    check(!strcmp(line_of(IB "/ports/1/rate"), "100 Gb/sec (4X EDR)"), "rate");
    check(!strcmp(line_of(IB "/ports/1/gid_attrs/types/0"), "RoCE v2"), "gid_attrs/types");
    check(!strcmp(line_of(IB "/ports/1/gid_attrs/ndevs/0"), interface), "gid_attrs/ndevs");
    check(!strcmp(line_of(IB "/device/vendor"), "0x15b3"), "vendor");
    check(!strcmp(line_of(IB "/device/device"), "0x1021"), "device");
    check(strstr(line_of(IB "/device/max_link_speed"), "GT/s") != NULL, "max_link_speed");
    check(strstr(line_of(IB "/device/../max_link_speed"), "GT/s") != NULL, "the bridge's max_link_speed");
    check(line_of(IB "/device/numa_node")[0] != 0, "numa_node");
    check(line_of(IB "/ports/1/counters/port_xmit_data")[0] == '0', "counters of a NIC that did nothing");
    check(line_of(IB "/ports/1/hw_counters/out_of_sequence")[0] == '0', "hw_counters");
    check(line_of("/sys/class/misc/rdma_cm/abi_version")[0] == '4', "rdma_cm's abi_version");
}

/* NCCL and UCX take the end of this for the PCI address, and walk up from there. */
static void check_pci(void)
{
    unsigned domain, bus, device, function;
    char bus_path[256], link[PATH_MAX], *again;
    char *real = realpath(IB "/device", NULL);
    const char *address = real ? strrchr(real, '/') + 1 : "";

    check(real && !strncmp(real, "/sys/devices/pci", 16), "realpath of the device");
    check(sscanf(address, "%4x:%2x:%2x.%1x", &domain, &bus, &device, &function) == 4, "the PCI address");
    snprintf(bus_path, sizeof(bus_path), "/sys/class/pci_bus/%.7s/../../%s", address, address);
    again = realpath(bus_path, NULL);
    check(real && again && !strcmp(again, real), "the device by its bus");
    snprintf(bus_path, sizeof(bus_path), "/sys/bus/pci/devices/%s/class", address);
    check(!strcmp(line_of(bus_path), "0x020000"), "the device in the list of PCI devices");
    ssize_t n = readlink(IB "/device", link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = 0;
    check(n > 0 && !strcmp(strrchr(link, '/') + 1, address), "readlink of the device");
    free(real);
    free(again);
}

static void check_calls(void)
{
    struct stat st;
    struct statx stx;
    char text[8], own[256];

    check(!stat(CDEV, &st) && S_ISCHR(st.st_mode), "stat of the device file");
    check(!lstat(CDEV, &st) && S_ISCHR(st.st_mode), "lstat of the device file");
    check(!statx(AT_FDCWD, CDEV, 0, STATX_TYPE, &stx) && S_ISCHR(stx.stx_mode), "statx of the device file");
    check(!access(CDEV, R_OK | W_OK) && !access("/dev/infiniband/rdma_cm", R_OK | W_OK), "access");
    check(!faccessat(AT_FDCWD, IB "/node_guid", R_OK, AT_EACCESS), "faccessat");
    check(access(IB "/nothing", F_OK) && errno == ENOENT, "a file that is not there");
    int dir = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY),
        file = openat(dir, "mlx5_0/node_type", O_RDONLY);
    check(file >= 0 && read(file, text, 1) == 1 && text[0] == '1', "openat below an open folder");
    check(!fstatat(dir, "mlx5_0", &st, 0) && S_ISDIR(st.st_mode), "fstatat below an open folder");
    close(file);
    close(dir);
    check(realpath(CDEV, NULL) && !strcmp(realpath(CDEV, NULL), CDEV), "realpath of the device file");
    check(getcwd(own, sizeof(own)) && !chdir(IB "/ports/1") && !access("rate", R_OK) && !chdir(own), "chdir");
    check(!stat("/dev/null", &st) && !access("/sys/class/net", F_OK) && !access("/sys/devices/system", F_OK),
          "what is the system's own");
    check(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA) < 0 && errno == EPROTONOSUPPORT, "netlink of RDMA");
    int route = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    check(route >= 0, "netlink of routes");
    close(route);
}

int main(int argc, char **argv)
{
    const char *interface = argc > 1 ? argv[1] : "";

    check_lists(interface);
    check_texts(interface);
    check_pci();
    check_calls();
    if (!wrong) printf("ok\n");
    return wrong != 0;
}
