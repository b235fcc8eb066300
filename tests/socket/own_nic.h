/* SPDX-License-Identifier: Apache-2.0 */
/* A software NIC at an address that no other test of this host has at the time: all of 127.0.0.0/8 is this
 * host's. */
#ifndef GW_TESTS_SOCKET_OWN_NIC_H
#define GW_TESTS_SOCKET_OWN_NIC_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One of this process' 254, with a port. */
static inline struct sockaddr_in own_addr(uint32_t number, uint16_t port)
{
    uint32_t pid = (uint32_t)getpid();
    struct sockaddr_in a = {.sin_family = AF_INET};

    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(127u << 24 | (20 + pid % 200) << 16 | (1 + pid / 200 % 250) << 8 | number);
    return a;
}

/* This process' NIC, from its first device on, is there; more: further settings, with a comma before each. */
static inline void own_nic(const struct sockaddr_in *at, const char *more)
{
    char nic[64], text[INET_ADDRSTRLEN];

    inet_ntop(AF_INET, &at->sin_addr, text, sizeof(text));
    snprintf(nic, sizeof(nic), "addr=%s%s", text, more);
    setenv("GPUWIRE_NIC", nic, 1);
}

#endif
