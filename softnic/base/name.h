/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name.h: names by which processes of a host find and keep off each other: abstract ones of UNIX sockets. One
 * process of a network name space can have a name, of any user. The kernel frees it when that process dies,
 * however it dies. Any thread.
 */
#ifndef SOFTNIC_BASE_NAME_H
#define SOFTNIC_BASE_NAME_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sn_name {
    struct sockaddr_un un;
    socklen_t len;
};

/* The name "gpuwire/…"; one that is too long is cut short. */
struct sn_name sn_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A GID as it stands in names. Returns text. */
char *sn_name_of_gid(const uint8_t gid[16], char text[33]);

/* As bind and connect: 0 or a negative errno. */
int sn_name_bind(int fd, const struct sn_name *name);
int sn_name_connect(int fd, const struct sn_name *name);

#endif
