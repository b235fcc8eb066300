/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/runtime/control.h"

bool link_can(void)
{
    return !getenv("GPUWIRE_DEVICE");
}

/* The NIC's socket; its name begins with the process' number. */
static void socket_name(char *name, size_t size)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512], begin[64];
    const char *at = NULL;

    snprintf(begin, sizeof(begin), "@" SN_CONTROL_PREFIX "%d-", (int)getpid());
    while (f && !at && fgets(line, sizeof(line), f)) at = strstr(line, begin);
    if (f) fclose(f);
    if (!at) fail_msg("the software NIC has no socket %s…", begin);
    snprintf(name, size, "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
}

/* One request; false when the NIC was too busy for it. */
static bool ask(const char *name, const char *faults)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char answer[4096] = "";
    size_t got = 0;
    ssize_t n;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(sa.sun_path + 1, name, strlen(name));
    assert_int_equal(connect(fd, (struct sockaddr *)&sa,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    assert_true(dprintf(fd, "fault %s\n", faults) > 0);
    while (got < sizeof(answer) - 1 && (n = read(fd, answer + got, sizeof(answer) - 1 - got)) > 0)
        got += (size_t)n;
    close(fd);
    if (strstr(answer, "nothing was changed")) return false;
    if (!got || strstr(answer, "\"error\"")) fail_msg("fault %s: %s", faults, answer);
    return true;
}

void link_set(const char *faults)
{
    char name[64];

    socket_name(name, sizeof(name));
    for (int i = 0; i < 60; i++) /* each time takes a second */
        if (ask(name, faults)) return;
    fail_msg("fault %s: the NIC is always busy", faults);
}
