/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the files and folders that sysfs shows of the device. */
#include "softnic/sysfs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softnic/sysfs/put.h"
#include "softnic/sysfs/tree.h"

/*
 * No firmware gives out this PCI domain, so no other device has the addresses. Programs take NICs whose
 * addresses differ in the last digits for functions of one card. So each has a bus of its own, behind a
 * bridge of its own.
 */
#define DOMAIN "6777"
#define ROOT   "devices/pci" DOMAIN ":00"

#define TEXT_BYTES 128

/* The folder that is being filled, and the first error. */
struct folder {
    int top, err;
    char path[96];
};

static struct folder folder_at(int top, const char *format, ...)
{
    struct folder f = {.top = top};
    va_list ap;

    va_start(ap, format);
    if (vsnprintf(f.path, sizeof(f.path), format, ap) >= (int)sizeof(f.path)) f.err = -ENAMETOOLONG;
    va_end(ap);
    return f;
}

static void put_text(struct folder *f, const char *name, const char *text)
{
    char path[192];

    snprintf(path, sizeof(path), "%s/%s", f->path, name);
    if (!f->err) f->err = sn_put(f->top, path, text);
}

static void put_format(struct folder *f, const char *name, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    put_text(f, name, text);
}

static void put_link(struct folder *f, const char *name, const char *format, ...)
{
    char path[192], target[TEXT_BYTES];
    va_list ap;

    va_start(ap, format);
    vsnprintf(target, sizeof(target), format, ap);
    va_end(ap);
    snprintf(path, sizeof(path), "%s/%s", f->path, name);
    if (!f->err) f->err = sn_put_link(f->top, path, target);
}

static void put_folder(struct folder *f, const char *name)
{
    char path[192];

    snprintf(path, sizeof(path), "%s/%s", f->path, name);
    if (!f->err) f->err = sn_put_folder(f->top, path);
}

struct text {
    const char *name, *text;
};

static void put_all(struct folder *f, const struct text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) put_text(f, texts[i].name, texts[i].text);
}
#define PUT_ALL(folder, texts) put_all(folder, texts, sizeof(texts) / sizeof((texts)[0]))

uint64_t sn_guid(const uint8_t gid[16], unsigned index)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */
    for (int i = 0; i < 16; i++) h = (h ^ gid[i]) * 0x100000001b3;
    if (index) h = (h ^ index) * 0x100000001b3; /* several may share an address */
    /* Locally administered, so that it collides with no real device's; told by the address, as a NIC is an
     * address. */
    return (uint64_t)0x0267 << 48 | h >> 16;
}

int sn_tree_cdev(const char *path, unsigned count)
{
    char own[64];

    if (!path || strncmp(path, SN_CDEV_PATH, strlen(SN_CDEV_PATH))) return -1;
    for (unsigned i = 0; i < count; i++) {
        snprintf(own, sizeof(own), SN_CDEV_PATH "%u", i);
        if (!strcmp(path, own)) return (int)i;
    }
    return -1;
}

bool sn_tree_owns(const char *path)
{
    static const char *const starts[] = {"/class/infiniband", "/class/misc/rdma_cm", "/" ROOT,
                                         "/class/pci_bus/" DOMAIN ":", "/bus/pci/devices/" DOMAIN ":"};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (!strncmp(path, starts[i], strlen(starts[i]))) return true;
    return false;
}

bool sn_tree_mentioned(const char *path)
{
    return strstr(path, "infiniband") || strstr(path, "rdma_cm") || strstr(path, DOMAIN ":");
}

/* ---- the PCI device ---- */

#define LINK_SPEED "32.0 GT/s PCIe\n"
#define LINK_WIDTH "16\n"

static const struct text link_texts[] = {{"max_link_speed", LINK_SPEED},
                                         {"max_link_width", LINK_WIDTH},
                                         {"current_link_speed", LINK_SPEED},
                                         {"current_link_width", LINK_WIDTH}};

/* Copies what the kernel says of the interface's own device. A loopback interface has none; NULL: then
 * there is no file. */
static void put_near(struct folder *f, const char *ndev, const char *name, const char *otherwise)
{
    char path[64], text[TEXT_BYTES];
    ssize_t n = -1;

    snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", ndev, name);
    int fd = ndev[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n > 0)
        put_format(f, name, "%.*s", (int)n, text);
    else if (otherwise)
        put_text(f, name, otherwise);
}

static int write_bridge(int top, unsigned index)
{
    static const struct text texts[] = {
        {"vendor", "0x1022\n"}, {"device", "0x1483\n"}, {"class", "0x060400\n"}, {"numa_node", "-1\n"}};
    struct folder f = folder_at(top, ROOT "/" DOMAIN ":00:%02x.0", index);

    PUT_ALL(&f, texts);
    PUT_ALL(&f, link_texts);
    put_link(&f, "subsystem", "../../../bus/pci");
    return f.err;
}

/* `device`: its folder, from the top. */
static int write_pci(int top, unsigned index, const char *device, const struct sn_tree_info *info)
{
    static const struct text texts[] = {{"class", "0x020000\n"},
                                        {"revision", "0x00\n"},
                                        {"subsystem_device", "0x0001\n"},
                                        {"enable", "1\n"},
                                        {"irq", "0\n"}};
    struct folder f = folder_at(top, "%s", device);
    char net[32];

    PUT_ALL(&f, texts);
    PUT_ALL(&f, link_texts);
    put_format(&f, "vendor", "0x%04x\n", SN_PCI_VENDOR);
    put_format(&f, "device", "0x%04x\n", SN_PCI_DEVICE);
    put_format(&f, "subsystem_vendor", "0x%04x\n", SN_PCI_VENDOR);
    put_format(&f, "modalias", "pci:v%08Xd%08Xsv%08Xsd00000001bc02sc00i00\n", SN_PCI_VENDOR, SN_PCI_DEVICE,
               SN_PCI_VENDOR);
    put_format(&f, "uevent", "DRIVER=mlx5_core\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=" DOMAIN ":%02x:00.0\n",
               SN_PCI_VENDOR, SN_PCI_DEVICE, index + 1);
    put_near(&f, info->ndev, "numa_node", "-1\n");
    put_near(&f, info->ndev, "local_cpulist", NULL);
    put_near(&f, info->ndev, "local_cpus", NULL);
    put_link(&f, "subsystem", "../../../../bus/pci");
    put_link(&f, "driver", "../../../../bus/pci/drivers/mlx5_core");
    /* The interface itself, with all that the kernel says of it. */
    snprintf(net, sizeof(net), "net/%s", info->ndev);
    if (info->ndev[0]) put_link(&f, net, "/sys/class/net/%s", info->ndev);
    return f.err;
}

/* Where the kernel lists PCI devices and buses. `from_root`: the device's folder. */
static int write_lists(int top, unsigned index, const char *from_root)
{
    struct folder buses = folder_at(top, "class/pci_bus"), devices = folder_at(top, "bus/pci/devices");
    char name[32], bus[96];

    snprintf(bus, sizeof(bus), ROOT "/" DOMAIN ":00:%02x.0/pci_bus/" DOMAIN ":%02x", index, index + 1);
    int err = sn_put_folder(top, bus);
    if (!err) err = sn_put_folder(top, "bus/pci/drivers/mlx5_core");
    if (err) return err;
    snprintf(name, sizeof(name), DOMAIN ":%02x", index + 1);
    put_link(&buses, name, "../../%s", bus);
    snprintf(name, sizeof(name), DOMAIN ":%02x:00.0", index + 1);
    put_link(&devices, name, "../../../%s", from_root);
    return buses.err ? buses.err : devices.err;
}

/* ---- the RDMA device ---- */

static void put_gid(struct folder *f, unsigned i, const struct sn_tree_gid *e)
{
    static const uint8_t none[16];
    bool empty = !memcmp(e->gid, none, sizeof(none));
    char name[32], gid[48];

    for (int k = 0; k < 8; k++)
        snprintf(gid + 5 * k, 6, "%02x%02x%c", e->gid[2 * k], e->gid[2 * k + 1], k < 7 ? ':' : '\n');
    snprintf(name, sizeof(name), "gids/%u", i);
    put_text(f, name, gid);
    /* The files of an empty one, and of a GID without an interface, cannot be read: attach/paths.c. */
    snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
    put_text(f, name, empty ? "" : e->v1 ? "IB/RoCE v1\n" : "RoCE v2\n");
    snprintf(name, sizeof(name), "gid_attrs/ndevs/%u", i);
    if (empty || !e->ndev[0])
        put_text(f, name, "");
    else
        put_format(f, name, "%s\n", e->ndev);
}

static int write_port(int top, const char *device, unsigned index, const struct sn_tree_info *info)
{
    static const struct text texts[] = {{"state", "4: ACTIVE\n"},
                                        {"phys_state", "5: LinkUp\n"},
                                        {"link_layer", "Ethernet\n"},
                                        {"rate", "100 Gb/sec (4X EDR)\n"},
                                        {"lid", "0x0\n"},
                                        {"lid_mask_count", "0\n"},
                                        {"sm_lid", "0x0\n"},
                                        {"sm_sl", "0\n"},
                                        {"cap_mask", "0x04010000\n"}};
    struct folder f = folder_at(top, "%s/infiniband/mlx5_%u/ports/1", device, index);

    PUT_ALL(&f, texts);
    for (unsigned i = 0; i < info->gids; i++) put_gid(&f, i, &info->table[i]);
    for (unsigned i = 0; i < info->pkeys; i++) {
        char name[32];

        snprintf(name, sizeof(name), "pkeys/%u", i);
        put_format(&f, name, "0x%04x\n", info->pkey[i]);
    }
    put_folder(&f, "counters"); /* sn_tree_put fills them */
    put_folder(&f, "hw_counters");
    return f.err;
}

static int write_ib(int top, const char *device, unsigned index, const struct sn_tree_info *info)
{
    static const struct text texts[] = {{"node_type", "1: CA\n"},
                                        {"node_desc", "gpuwire software NIC\n"},
                                        {"hca_type", "MT4129\n"},
                                        {"hw_rev", "0\n"},
                                        {"board_id", SN_BOARD_ID "\n"}};
    struct folder f = folder_at(top, "%s/infiniband/mlx5_%u", device, index),
                  list = folder_at(top, "class/infiniband");
    char guid[24], name[16];
    uint64_t g = sn_guid(info->gid, index);

    snprintf(guid, sizeof(guid), "%04x:%04x:%04x:%04x\n", (unsigned)(g >> 48) & 0xffff,
             (unsigned)(g >> 32) & 0xffff, (unsigned)(g >> 16) & 0xffff, (unsigned)g & 0xffff);
    PUT_ALL(&f, texts);
    put_text(&f, "node_guid", guid);
    put_text(&f, "sys_image_guid", guid);
    put_format(&f, "fw_ver", "%u.%u.%04u\n", SN_FW_MAJOR, SN_FW_MINOR, SN_FW_SUBMINOR);
    put_link(&f, "device", "../../../%s", strrchr(device, '/') + 1);
    put_link(&f, "subsystem", "../../../../../../class/infiniband");
    snprintf(name, sizeof(name), "mlx5_%u", index);
    put_link(&list, name, "../../%s", f.path);
    return f.err ? f.err : list.err;
}

/* Both character devices have the numbers of the file that is opened in their place. */
static int cdev_numbers(char text[24])
{
    struct stat null;

    if (stat("/dev/null", &null)) return -errno;
    snprintf(text, 24, "%u:%u\n", major(null.st_rdev), minor(null.st_rdev));
    return 0;
}

static int write_uverbs(int top, const char *device, unsigned index)
{
    struct folder f = folder_at(top, "%s/infiniband_verbs/uverbs%u", device, index),
                  list = folder_at(top, "class/infiniband_verbs"),
                  dev = folder_at(top, "%s", &SN_DEV_FOLDER[1]);
    char numbers[24], name[16];
    int err = cdev_numbers(numbers);

    if (err) return err;
    put_format(&f, "ibdev", "mlx5_%u\n", index);
    put_text(&f, "dev", numbers);
    put_text(&f, "abi_version", "1\n");
    put_link(&f, "device", "../../../%s", strrchr(device, '/') + 1);
    put_link(&f, "subsystem", "../../../../../../class/infiniband_verbs");
    snprintf(name, sizeof(name), "uverbs%u", index);
    put_link(&list, name, "../../%s", f.path);
    put_text(&dev, name, ""); /* listed there; opening it gives the device */
    return f.err ? f.err : list.err ? list.err : dev.err;
}

int sn_device_write_common(int top)
{
    struct folder classes = folder_at(top, "class"), dev = folder_at(top, "%s", &SN_DEV_FOLDER[1]);
    char numbers[24];
    int err = cdev_numbers(numbers);

    if (err) return err;
    put_text(&classes, "infiniband_verbs/abi_version", "6\n");
    put_text(&classes, "infiniband_mad/abi_version", "5\n");
    put_text(&classes, "misc/rdma_cm/abi_version", "4\n");
    put_text(&classes, "misc/rdma_cm/dev", numbers);
    put_text(&dev, "rdma_cm", "");
    return classes.err ? classes.err : dev.err;
}

int sn_device_write(int top, unsigned index, const struct sn_tree_info *info)
{
    char device[64];

    snprintf(device, sizeof(device), ROOT "/" DOMAIN ":00:%02x.0/" DOMAIN ":%02x:00.0", index, index + 1);
    int err = write_bridge(top, index);
    if (!err) err = write_pci(top, index, device, info);
    if (!err) err = write_lists(top, index, device);
    if (!err) err = write_ib(top, device, index, info);
    if (!err) err = write_port(top, device, index, info);
    if (!err) err = write_uverbs(top, device, index);
    return err;
}
