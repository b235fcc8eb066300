/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the keys of GPUWIRE_NIC that are about Ethernet. */
#include "softnic/config/eth_config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { DATAGRAM_MTU = 1500 };

/* Decimal, at most max. */
static bool eth_config_read_number(const char *text, unsigned max, unsigned *value)
{
    unsigned v = 0;

    if (!*text || strlen(text) > 5) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        v = v * 10 + (unsigned)(*text - '0');
    }
    *value = v;
    return v <= max;
}

static bool read_socket(const char *text, struct sockaddr_in *sa)
{
    const char *colon = strchr(text, ':');
    char ip[INET_ADDRSTRLEN];
    unsigned port;

    if (!colon || (size_t)(colon - text) >= sizeof(ip) || !eth_config_read_number(colon + 1, 65535, &port) ||
        !port)
        return false;
    memcpy(ip, text, (size_t)(colon - text));
    ip[colon - text] = 0;
    sa->sin_family = AF_INET;
    sa->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, ip, &sa->sin_addr) == 1;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One station's: neither a group's nor 0. */
static bool read_mac(const char *text, uint8_t mac[6])
{
    static const uint8_t none[6];

    if (strlen(text) != 17) return false;
    for (int i = 0; i < 6; i++, text += 3) {
        int high = hex(text[0]), low = hex(text[1]);

        if (high < 0 || low < 0 || (i < 5 && text[2] != ':')) return false;
        mac[i] = (uint8_t)(high << 4 | low);
    }
    return !(mac[0] & 1) && memcmp(mac, none, 6);
}

bool sn_eth_config_set(struct sn_eth_config *eth, const char *key, const char *value)
{
    if (strcmp(key, "if") == 0) {
        if (!*value || strlen(value) >= sizeof(eth->interface) || strchr(value, '/')) return false;
        strcpy(eth->interface, value);
        return true;
    }
    if (strcmp(key, "bind") == 0) return read_socket(value, &eth->bind);
    if (strcmp(key, "peer") == 0) return read_socket(value, &eth->peer);
    if (strcmp(key, "mac") == 0) return eth->has_mac = read_mac(value, eth->mac);
    return strcmp(key, "gw") == 0 && (eth->has_gateway = sn_addr_parse(value, &eth->gateway) == 0);
}

bool sn_eth_config_prefix(struct sn_eth_config *eth, const char *text, bool ipv4)
{
    unsigned bits;

    if (!eth_config_read_number(text, ipv4 ? 32 : 128, &bits)) return false;
    eth->has_prefix = true;
    eth->prefix = (uint8_t)bits;
    return true;
}

static const char *fault_of(const struct sn_eth_config *eth, const struct sn_addr *addr)
{
    bool datagrams = eth->bind.sin_family && eth->peer.sin_family;

    if (!addr) return "wire=eth needs an address that is the NIC's alone: addr=IP/PREFIX";
    if (!*eth->interface && !datagrams)
        return "wire=eth needs a link: if=NAME, or bind=IP:PORT and peer=IP:PORT";
    if (*eth->interface && (eth->bind.sin_family || eth->peer.sin_family))
        return "wire=eth has one link: either if= or bind= and peer=";
    if (!eth->has_gateway) return NULL;
    if (!eth->has_prefix) return "gw= needs to know the subnet: addr=IP/PREFIX";
    if (sn_gid_is_ipv4(addr->gid) != sn_gid_is_ipv4(eth->gateway.gid))
        return "gw= and addr= are of two kinds";
    return NULL;
}

bool sn_eth_config_check(const struct sn_eth_config *eth, const struct sn_addr *addr, char *why, size_t size)
{
    const char *fault = NULL;

    if (eth->on)
        fault = fault_of(eth, addr);
    else if (*eth->interface || eth->bind.sin_family || eth->peer.sin_family || eth->has_mac ||
             eth->has_prefix || eth->has_gateway)
        fault = "if=, bind=, peer=, mac=, gw= and a prefix in addr= are for wire=eth";
    if (fault) snprintf(why, size, "GPUWIRE_NIC: %s", fault);
    return !fault;
}

uint32_t sn_eth_path_mtu(const struct sn_eth_config *eth)
{
    return *eth->interface ? sn_if_path_mtu(eth->interface) : sn_path_mtu(DATAGRAM_MTU);
}
