/* SPDX-License-Identifier: Apache-2.0 */
/* Binds and connects abstract UNIX sockets by name. */
#include "softnic/base/name.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "gpuwire/"

struct sn_name sn_name(const char *format, ...)
{
    struct sn_name name = {.un.sun_family = AF_UNIX};
    char *text = name.un.sun_path + 1; /* after a zero, which makes it an abstract one */
    size_t room = sizeof(name.un.sun_path) - 1 - strlen(PREFIX);
    va_list args;

    memcpy(text, PREFIX, strlen(PREFIX));
    va_start(args, format);
    vsnprintf(text + strlen(PREFIX), room, format, args);
    va_end(args);
    name.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text));
    return name;
}

char *sn_name_of_gid(const uint8_t gid[16], char text[33])
{
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", gid[i]);
    return text;
}

int sn_name_bind(int fd, const struct sn_name *name)
{
    return bind(fd, (const struct sockaddr *)&name->un, name->len) ? -errno : 0;
}

int sn_name_connect(int fd, const struct sn_name *name)
{
    return connect(fd, (const struct sockaddr *)&name->un, name->len) ? -errno : 0;
}
