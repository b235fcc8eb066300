/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the port's GID table that connections leave from, and the addresses by which rdma_cm knows the
 * device.
 *
 * On RoCE a GID is an address of a network interface. A port has several, and most of them lead nowhere.
 * Link-local ones reach one subnet alone. Addresses of a VLAN reach only its members, and those of an
 * interface that is down reach no host.
 */
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <arpa/inet.h>

#include "src/verbs/impl.h"

static bool gid_is_v4(const uint8_t gid[16])
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

    return !memcmp(gid, v4, sizeof(v4));
}

static bool is_link_local(const uint8_t gid[16])
{
    if (gid_is_v4(gid)) return gid[12] == 169 && gid[13] == 254;
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static bool is_empty(const uint8_t gid[16])
{
    static const uint8_t empty[16];

    return !memcmp(gid, empty, sizeof(empty));
}

/* ---- interfaces ---------------------------------------------------------------------------------------- */

static bool gid_has_address(const struct ifaddrs *i, const uint8_t gid[16])
{
    if (!i->ifa_addr) return false;
    if (i->ifa_addr->sa_family == AF_INET && gid_is_v4(gid))
        return !memcmp(&((const struct sockaddr_in *)i->ifa_addr)->sin_addr, gid + 12, 4);
    return i->ifa_addr->sa_family == AF_INET6 &&
           !memcmp(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, gid, 16);
}

static bool is_vlan(const char *interface)
{
    struct vlan_ioctl_args a = {.cmd = GET_VLAN_VID_CMD};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool vlan;

    snprintf(a.device1, sizeof(a.device1), "%s", interface);
    vlan = fd >= 0 && !ioctl(fd, SIOCGIFVLAN, &a);
    if (fd >= 0) close(fd);
    return vlan;
}

/* What is against the interface that has the GID for its address; empty: nothing is known. In a container it
 * may be another network namespace's. */
static void against_interface(const struct ifaddrs *all, const uint8_t gid[16], char *why, size_t size)
{
    *why = 0;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!gid_has_address(i, gid)) continue;
        if (!(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING))
            snprintf(why, size, "%s is down", i->ifa_name);
        else if (is_vlan(i->ifa_name))
            snprintf(why, size, "%s is a VLAN", i->ifa_name);
        return;
    }
}

/* ---- the choice ---------------------------------------------------------------------------------------- */

/* RoCE v2 over IPv4 first, which any router passes on; then IPv6; then what stays on the link; then RoCE v1.
 * On InfiniBand all are alike, and the first is the port's own. */
static int gid_rank(const struct ibv_gid_entry *e)
{
    if (e->gid_type == IBV_GID_TYPE_IB) return 1;
    if (e->gid_type != IBV_GID_TYPE_ROCE_V2) return is_link_local(e->gid.raw) ? 0 : 1;
    if (is_link_local(e->gid.raw)) return 2;
    return gid_is_v4(e->gid.raw) ? 4 : 3;
}

static void gid_append(char *text, size_t size, const char *what, uint32_t index, const char *why)
{
    size_t n = strlen(text);

    snprintf(text + n, size - n, "%s%u%s%s", n ? ", " : what, index, *why ? ": " : "", why);
}

static void gid_take(struct gw_device *dev, const struct ibv_gid_entry *e)
{
    memcpy(dev->info.gid, e->gid.raw, 16);
    dev->info.gid_index = e->gid_index;
}

/* All entries that are not empty, as in "0 (RoCE v1, fe80::1), 3 (RoCE v2, 10.0.0.1)". */
static void list(const struct gw_device *dev, uint32_t gids, char *text, size_t size)
{
    static const char *const types[] = {[IBV_GID_TYPE_IB] = "InfiniBand",
                                        [IBV_GID_TYPE_ROCE_V1] = "RoCE v1",
                                        [IBV_GID_TYPE_ROCE_V2] = "RoCE v2"};

    snprintf(text, size, "none");
    for (uint32_t i = 0, n = 0; i < gids && n < size; i++) {
        char address[INET6_ADDRSTRLEN] = "";
        struct ibv_gid_entry e;
        int added;

        if (ibv_query_gid_ex(dev->ctx, dev->info.port, i, &e, 0) || is_empty(e.gid.raw)) continue;
        inet_ntop(gid_is_v4(e.gid.raw) ? AF_INET : AF_INET6,
                  gid_is_v4(e.gid.raw) ? e.gid.raw + 12 : e.gid.raw, address, sizeof(address));
        added = snprintf(text + n, size - n, "%s%u (%s, %s)", n ? ", " : "", i,
                         e.gid_type <= IBV_GID_TYPE_ROCE_V2 ? types[e.gid_type] : "?", address);
        n += added > 0 ? (uint32_t)added : 0;
    }
}

/* The one that was asked for, whatever is against it. */
static int choose_given(struct gw_device *dev, uint32_t gids)
{
    uint32_t index = (uint32_t)dev->settings.gid_index;
    struct ibv_gid_entry e;
    char there[300];

    if (index >= gids || ibv_query_gid_ex(dev->ctx, dev->info.port, index, &e, 0) || is_empty(e.gid.raw)) {
        list(dev, gids, there, sizeof(there));
        return gw_error(-EINVAL, "GPUWIRE_GID_INDEX=%u: %s port %u has no such GID; its GIDs are %s", index,
                        dev->info.name, dev->info.port, there);
    }
    gid_take(dev, &e);
    snprintf(dev->info.gid_why, sizeof(dev->info.gid_why), "GPUWIRE_GID_INDEX");
    return 0;
}

int gw_gid_choose(struct gw_device *dev, uint32_t gids)
{
    struct ifaddrs *all = NULL;
    int best = -1;

    if (dev->settings.gid_index >= 0) return choose_given(dev, gids);
    if (getifaddrs(&all)) all = NULL;
    for (uint32_t i = 0; i < gids; i++) {
        struct ibv_gid_entry e;
        char why[80];

        if (ibv_query_gid_ex(dev->ctx, dev->info.port, i, &e, 0) || is_empty(e.gid.raw)) continue;
        *why = 0;
        if (e.gid_type != IBV_GID_TYPE_IB) against_interface(all, e.gid.raw, why, sizeof(why));
        if (*why) {
            gid_append(dev->info.gid_why, sizeof(dev->info.gid_why), "not used: ", i, why);
            continue;
        }
        if (gid_rank(&e) <= best) continue;
        best = gid_rank(&e);
        gid_take(dev, &e);
    }
    if (all) freeifaddrs(all);
    if (best >= 0) return 0;
    if (dev->info.gid_why[0])
        return gw_error(-ENODEV,
                        "%s: port %u has no GID that works (%s); GPUWIRE_GID_INDEX takes one of them",
                        dev->info.name, dev->info.port, dev->info.gid_why);
    return gw_error(-ENODEV, "%s: port %u has no GID; give its network interface an address", dev->info.name,
                    dev->info.port);
}

/* ---- P_Keys -------------------------------------------------------------------------------------------- */

int gw_pkey_choose(struct gw_device *dev, uint32_t keys)
{
    char there[80] = "";

    dev->pkey_index = 0;
    if (dev->settings.pkey < 0) return 0;
    for (uint32_t i = 0; i < keys; i++) {
        __be16 be;
        uint16_t key;

        if (ibv_query_pkey(dev->ctx, (uint8_t)dev->info.port, (int)i, &be)) continue;
        key = be16toh(be);
        dev->pkey_index = (uint16_t)i;
        if (key && !((key ^ dev->settings.pkey) & 0x7fff)) return 0; /* its top bit tells full members */
        size_t n = strlen(there);
        if (key) snprintf(there + n, sizeof(there) - n, "%s0x%04x", n ? ", " : "", key);
    }
    return gw_error(-EINVAL, "GPUWIRE_PKEY=0x%04x: %s port %u is in no such partition; its P_Keys are %s",
                    dev->settings.pkey, dev->info.name, dev->info.port, there);
}

/* ---- addresses for rdma_cm ----------------------------------------------------------------------------- */

static void to_sockaddr(const struct ibv_gid_entry *e, struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

    memset(sa, 0, sizeof(*sa));
    if (gid_is_v4(e->gid.raw)) {
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, e->gid.raw + 12, 4);
        return;
    }
    v6->sin6_family = AF_INET6;
    memcpy(&v6->sin6_addr, e->gid.raw, 16);
    if (is_link_local(e->gid.raw)) v6->sin6_scope_id = e->ndev_ifindex;
}

/* The best GID of a family that the chosen one is not of. */
static bool best_of_family(const struct gw_device *dev, int family, struct sockaddr_storage *sa)
{
    struct ifaddrs *all = NULL;
    struct ibv_port_attr port;
    int best = -1;

    if (ibv_query_port(dev->ctx, (uint8_t)dev->info.port, &port)) return false;
    if (getifaddrs(&all)) all = NULL;
    for (uint32_t i = 0; i < (uint32_t)port.gid_tbl_len; i++) {
        struct ibv_gid_entry e;
        char why[80];

        if (ibv_query_gid_ex(dev->ctx, dev->info.port, i, &e, 0) || is_empty(e.gid.raw)) continue;
        if (e.gid_type != IBV_GID_TYPE_ROCE_V2 || gid_is_v4(e.gid.raw) != (family == AF_INET)) continue;
        against_interface(all, e.gid.raw, why, sizeof(why));
        if (*why || gid_rank(&e) <= best) continue;
        best = gid_rank(&e);
        to_sockaddr(&e, sa);
    }
    if (all) freeifaddrs(all);
    return best >= 0;
}

static bool roce_address(const struct gw_device *dev, int family, struct sockaddr_storage *sa)
{
    struct ibv_gid_entry e;

    if (gid_is_v4(dev->info.gid) != (family == AF_INET)) return best_of_family(dev, family, sa);
    if (ibv_query_gid_ex(dev->ctx, dev->info.port, dev->info.gid_index, &e, 0)) return false;
    to_sockaddr(&e, sa);
    return true;
}

/* Is that an IPoIB interface of the port? */
static bool is_ipoib(const struct gw_device *dev, const char *interface)
{
    char path[PATH_MAX], line[32];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/device/net/%.16s/type", dev->info.name,
             interface);
    if (!gw_first_line(path, line, sizeof(line)) || strcmp(line, "32")) return false; /* ARPHRD_INFINIBAND */
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/device/net/%.16s/dev_port", dev->info.name,
             interface);
    return !gw_first_line(path, line, sizeof(line)) || (uint32_t)atoi(line) + 1 == dev->info.port;
}

static bool ib_address(const struct gw_device *dev, int family, struct sockaddr_storage *sa)
{
    struct ifaddrs *all, *i;

    if (getifaddrs(&all)) return false;
    for (i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != family || !is_ipoib(dev, i->ifa_name)) continue;
        memset(sa, 0, sizeof(*sa));
        memcpy(sa, i->ifa_addr, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        break;
    }
    freeifaddrs(all);
    return i != NULL;
}

bool gw_own_address(const struct gw_device *dev, int family, struct sockaddr_storage *sa)
{
    return dev->roce ? roce_address(dev, family, sa) : ib_address(dev, family, sa);
}
