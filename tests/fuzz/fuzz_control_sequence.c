/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations with a NIC's control socket: several connections at once, requests in parts, ends and
 * silences at any moment. Every answer is whole, or absent. When all have hung up, the next client is
 * answered.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "softnic/runtime/control.h"
#include "softnic/runtime/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* LOOKS of a tenth of a second: a machine that stands still for a minute takes one of them, not all. */
enum { CALLERS = 4, LOOKS = 300, MOST = 1 << 20 };

static const struct sn_process_callbacks callbacks;
static struct sockaddr_un door = {.sun_family = AF_UNIX};
static socklen_t door_len;
static int caller[CALLERS] = {-1, -1, -1, -1};
static char text[MOST];

/* ---- the socket ---------------------------------------------------------------------------------------- */

static void find_door(void)
{
    FILE *f = fopen("/proc/net/unix", "re");
    char line[512], prefix[64];

    snprintf(prefix, sizeof(prefix), "@" SN_CONTROL_PREFIX "%d-", (int)getpid());
    while (f && fgets(line, sizeof(line), f)) {
        char *at = strstr(line, prefix);

        if (!at) continue;
        at[strcspn(at, "\n")] = 0;
        memcpy(door.sun_path + 1, at + 1, strlen(at + 1));
        door_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at));
    }
    if (f) fclose(f);
    if (!door_len) abort();
}

static int call(int flags)
{
    int err, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0) return -1;
    do err = connect(fd, (struct sockaddr *)&door, door_len);
    while (err && errno == EINTR); /* the fuzzer's own timer */
    if (!err) return fd;
    close(fd);
    return -1;
}

static void wait_for(int fd)
{
    for (int i = 0; i < LOOKS; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (poll(&p, 1, 100) == 1) return;
    }
    abort(); /* the server hangs */
}

/* All that comes until the end. */
static size_t hear(int fd)
{
    size_t n = 0;

    for (;;) {
        ssize_t got;

        wait_for(fd);
        got = recv(fd, text + n, sizeof(text) - n, MSG_DONTWAIT);
        if (got <= 0) return n;
        n += (size_t)got;
    }
}

static void check_answer(size_t n)
{
    if (n && (text[0] != '{' || n < 3 || memcmp(text + n - 2, "}\n", 2))) abort();
}

/* ---- steps --------------------------------------------------------------------------------------------- */

struct input {
    const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static void say(int fd, const void *bytes, size_t n)
{
    /* It may have hung up, or be full. */
    if (fd >= 0 && send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

static void say_known(struct input *in, int fd)
{
    static const char *const words[] = {
        "show",    "show ",        "fault ", "\n",         "0x1",    "16777215",   "none", "loss=0.5",
        ",seed=1", "tx.delay=1ms", "rx.",    "down=0+1ms", "dup=1%", "reorder=2%", "=",    "show\n"};
    const char *word = words[byte(in) % (sizeof(words) / sizeof(words[0]))];

    say(fd, word, strlen(word));
}

static void say_anything(struct input *in, int fd)
{
    size_t n = byte(in), left = (size_t)(in->end - in->at);

    if (n > left) n = left;
    say(fd, in->at, n);
    in->at += n;
}

static void hang_up(unsigned i)
{
    if (caller[i] >= 0) close(caller[i]);
    caller[i] = -1;
}

static void hear_out(unsigned i)
{
    if (caller[i] < 0) return;
    shutdown(caller[i], SHUT_WR);
    check_answer(hear(caller[i]));
    hang_up(i);
}

static void step(struct input *in)
{
    unsigned what = byte(in), i = what / 8 % CALLERS;
    char some[16];

    switch (what % 8) {
    case 0:
        hang_up(i);
        caller[i] = call(SOCK_NONBLOCK);
        break;
    case 1:
    case 2: say_known(in, caller[i]); break;
    case 3: say_anything(in, caller[i]); break;
    case 4: hang_up(i); break;
    case 5:
        if (caller[i] >= 0) shutdown(caller[i], byte(in) % 2 ? SHUT_WR : SHUT_RD);
        break;
    case 6: /* reads a little, and never the rest */
        if (caller[i] >= 0 && recv(caller[i], some, sizeof(some), MSG_DONTWAIT) > 0) hang_up(i);
        break;
    default: say(caller[i], "\n", 1); break;
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct sn_nic *nic;

    (void)argc;
    (void)argv;
    setenv("GPUWIRE_NIC", "addr=127.0.97.1,local=off", 1);
    if (sn_process_nic_get(0, &callbacks, &nic)) abort();
    find_door();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    int fd;

    while (in.at < in.end) step(&in);
    for (unsigned i = 0; i < CALLERS; i++)
        if (caller[i] >= 0) shutdown(caller[i], SHUT_WR); /* all of them: none waits for another's silence */
    for (unsigned i = 0; i < CALLERS; i++) hear_out(i);
    fd = call(0);
    if (fd < 0) abort();
    say(fd, "show\n", 5);
    size_t n = hear(fd);
    check_answer(n);
    if (!n) abort();
    close(fd);
    return 0;
}
