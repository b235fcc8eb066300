/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the socket for Ethernet frames: on an interface, or of QEMU's kind. */
#include "softnic/wire/eth_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softnic/base/name.h"
#include "softnic/wire/eth_frame.h"
#include "src/roce/hdr.h"

enum { SOCKET_BUFFER = 4 << 20 };

static void eth_link_set_buffers(int fd)
{
    int size = SOCKET_BUFFER;

    /* The FORCE forms may exceed the system's limit, and need CAP_NET_ADMIN. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* ---- datagrams that hold frames ------------------------------------------------------------------------ */

/* Locally administered, and told from the address, so that it stays the same from run to run. */
static void default_mac(const struct sn_addr *addr, uint8_t mac[6])
{
    mac[0] = 0x02;
    mac[1] = 0x67;
    memcpy(mac + 2, addr->gid + 12, 4);
}

static int open_datagrams(const struct sn_addr *addr, const struct sn_eth_config *config,
                          struct sn_eth_link *link, char *why)
{
    const struct sockaddr_in *at[2] = {&config->bind, &config->peer};
    static const char *const names[2] = {"bind", "peer"};

    default_mac(addr, link->mac);
    link->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    for (int i = 0; i < 2 && link->fd >= 0; i++) {
        char ip[INET_ADDRSTRLEN];
        /* Connected, the socket takes datagrams of the peer alone. */
        int err = i ? connect(link->fd, (const struct sockaddr *)at[i], sizeof(*at[i]))
                    : bind(link->fd, (const struct sockaddr *)at[i], sizeof(*at[i]));

        if (!err) continue;
        err = -errno;
        inet_ntop(AF_INET, &at[i]->sin_addr, ip, sizeof(ip));
        snprintf(why, 256, "cannot use %s=%s:%d for Ethernet frames: %s", names[i], ip,
                 ntohs(at[i]->sin_port), strerror(-err));
        return err;
    }
    if (link->fd >= 0) return 0;
    snprintf(why, 256, "cannot make a UDP socket: %s", strerror(errno));
    return -errno;
}

/* ---- an interface -------------------------------------------------------------------------------------- */

static int no_packet_socket(int err, const char *name, char *why)
{
    if (err == EPERM || err == EACCES)
        snprintf(why, 256,
                 "wire=eth,if=%s needs the right to packet sockets: run as root or with CAP_NET_RAW, or use "
                 "UDP sockets "
                 "(without wire=eth)",
                 name);
    else
        snprintf(why, 256, "cannot make a packet socket for %s: %s", name, strerror(err));
    return -err;
}

static int interface_mac(int fd, const char *name, uint8_t mac[6], char *why)
{
    struct ifreq req;

    memset(&req, 0, sizeof(req));
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFHWADDR, &req)) {
        snprintf(why, 256, "there is no interface %s", name);
        return -ENODEV;
    }
    if (req.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        snprintf(why, 256, "interface %s is no Ethernet", name);
        return -EINVAL;
    }
    memcpy(mac, req.ifr_hwaddr.sa_data, 6);
    return 0;
}

/*
 * A filter for frames that the kernel need not copy to us. Only to save work: everything that passes is
 * looked at again. Frames with a VLAN tag, which the kernel has taken off, are another network's.
 */
static int set_filter(int fd, const struct sn_addr *addr)
{
    bool v4 = sn_gid_is_ipv4(addr->gid);
    uint32_t low = (uint32_t)addr->gid[12] << 24 | (uint32_t)addr->gid[13] << 16 |
                   (uint32_t)addr->gid[14] << 8 | addr->gid[15];
    uint32_t ip = SN_ETH_HDR, udp = SN_ETH_HDR + (v4 ? SN_IPV4_HDR : SN_IPV6_HDR);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 10),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v4 ? ETH_P_ARP : 0, 9, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v4 ? ETH_P_IP : ETH_P_IPV6, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip + (v4 ? 9 : 6)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v4 ? 0x100 : IPPROTO_ICMPV6, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + (v4 ? 16 : 36)), /* the destination's last four bytes */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 2),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, udp + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffff),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/* The interface is to take frames for these MAC addresses too, as long as the socket is open. */
static int eth_link_join(int fd, int index, int type, const uint8_t mac[6])
{
    struct packet_mreq req = {.mr_ifindex = index, .mr_type = (unsigned short)type, .mr_alen = 6};

    memcpy(req.mr_address, mac, 6);
    return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &req, sizeof(req)) ? -errno : 0;
}

static int set_up_packets(int fd, int index, const struct sn_addr *addr, const uint8_t *own_mac)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
    uint8_t mac[6];
    int on = 1, err = set_filter(fd, addr);

    if (err) return err;
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on))) return -errno;
    if (own_mac) err = eth_link_join(fd, index, PACKET_MR_UNICAST, own_mac);
    sn_solicited_mac(addr->gid, mac);
    if (!err && !sn_gid_is_ipv4(addr->gid)) err = eth_link_join(fd, index, PACKET_MR_MULTICAST, mac);
    if (!err && bind(fd, (struct sockaddr *)&at, sizeof(at))) err = -errno; /* from here on frames arrive */
    return err;
}

/* One NIC per address and interface: a name that only one process of this network can have, and loses when it
 * dies. */
static int eth_link_claim(const char *name, const struct sn_addr *addr, struct sn_eth_link *link, char *why)
{
    char text[SN_ADDR_TEXT];
    struct sn_name at = sn_name("eth/%s/%s", name, sn_addr_text(addr, text));
    int err;

    link->claim_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    err = link->claim_fd < 0 ? -errno : sn_name_bind(link->claim_fd, &at);
    if (!err) return 0;
    if (err == -EADDRINUSE)
        snprintf(why, 256, "another process's NIC has the address %s at %s; give this one its own: addr=IP",
                 text, name);
    else
        snprintf(why, 256, "cannot claim %s at %s: %s", text, name, strerror(-err));
    return err;
}

static int open_interface(const struct sn_addr *addr, const struct sn_eth_config *config,
                          struct sn_eth_link *link, char *why)
{
    const char *name = config->interface;
    int err;

    link->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0) return no_packet_socket(errno, name, why);
    err = interface_mac(link->fd, name, link->mac, why);
    if (!err) err = eth_link_claim(name, addr, link, why);
    if (err) return err;
    err = set_up_packets(link->fd, (int)if_nametoindex(name), addr, config->has_mac ? config->mac : NULL);
    if (err) snprintf(why, 256, "cannot receive frames at %s: %s", name, strerror(-err));
    return err;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

static int refuse_own(const struct sn_addr *addr, char *why)
{
    char text[SN_ADDR_TEXT];

    if (!sn_addr_is_local(addr)) return 0;
    snprintf(why, 256,
             "%s is an address of this host, which would answer for it too; with wire=eth the NIC needs one "
             "that no other host has",
             sn_addr_text(addr, text));
    return -EADDRINUSE;
}

int sn_eth_link_open(const struct sn_addr *addr, const struct sn_eth_config *config, struct sn_eth_link *link,
                     char why[256])
{
    int err;

    link->fd = link->claim_fd = -1;
    if (*config->interface) {
        err = refuse_own(addr, why);
        if (!err) err = open_interface(addr, config, link, why);
    } else {
        err = open_datagrams(addr, config, link, why);
    }
    if (err) {
        sn_eth_link_close(link);
        return err;
    }
    if (config->has_mac) memcpy(link->mac, config->mac, 6);
    eth_link_set_buffers(link->fd);
    return 0;
}

void sn_eth_link_close(struct sn_eth_link *link)
{
    if (link->fd >= 0) close(link->fd);
    if (link->claim_fd >= 0) close(link->claim_fd);
    link->fd = link->claim_fd = -1;
}
