/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as writes to /dev/infiniband/rdma_cm: commands with right and wrong lengths, identifiers and
 * pointers, through two open files of a process whose NIC is alone at its address.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

#include "softnic/cm/cm.h"
#include "softnic/uverbs/uverbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where each command has its response pointer and its identifier; -1: it has none. */
static const struct {
    int response, id;
} at[] = {
    {8, -1},   {0, 8},  {0, 36}, {-1, 56}, {-1, 0}, {0, 8},  {-1, 272}, {-1, 0},
    {-1, 280}, {-1, 0}, {-1, 0}, {0, 8},   {0, -1}, {0, 8},  {0, 8},    {-1, 0},
    {0, 44},   {0, 8},  {0, 8},  {0, 8},   {-1, 0}, {-1, 0}, {0, 16},
};

static uint8_t answer[1024];

static size_t command(uint8_t *buf, const uint8_t *data, size_t n, const int *fds)
{
    struct rdma_ucm_cmd_hdr hdr = {.cmd = data[0] % 24, .out = sizeof(answer)};
    uint64_t to = (uint64_t)(uintptr_t)answer;
    uint8_t flags = data[1];
    uint8_t *in = buf + sizeof(hdr);

    memset(buf, 0, 600);
    hdr.in = flags & 1 ? (uint16_t)(n * 3) : 500;
    if (flags & 2) hdr.out = data[2];
    memcpy(in, data + 3, n - 3);
    if (hdr.cmd < sizeof(at) / sizeof(at[0])) {
        /* Where nothing can be, never anywhere: answers would be written over the tables of this process. */
        if (at[hdr.cmd].response >= 0 && flags & 4) to = (uint64_t)data[2] << 56 | (uint64_t)1 << 63;
        if (at[hdr.cmd].response >= 0) memcpy(in + at[hdr.cmd].response, &to, 8);
        if (at[hdr.cmd].id >= 0 && !(flags & 8))
            memcpy(in + at[hdr.cmd].id, &(uint32_t){data[2] % 8u + 1}, 4);
    }
    if (hdr.cmd == RDMA_USER_CM_CMD_CREATE_ID && !(flags & 16))
        memcpy(in + 16, &(uint16_t){data[2] & 1 ? RDMA_PS_TCP : RDMA_PS_UDP}, 2);
    if (hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID && !(flags & 16)) memcpy(in + 12, &fds[data[2] >> 7], 4);
    if ((hdr.cmd == RDMA_USER_CM_CMD_BIND || hdr.cmd == RDMA_USER_CM_CMD_RESOLVE_ADDR) && !(flags & 16)) {
        static const uint8_t local[16] = {2, 0, 0, 0, 127, 99, 98, 97};
        bool bind = hdr.cmd == RDMA_USER_CM_CMD_BIND;

        memcpy(in + 4, bind ? &(uint16_t[2]){16, 0} : &(uint16_t[2]){0, 0}, 4);
        if (bind) memcpy(in + 8, local, 16);
        if (!bind) memcpy(in + 8, &(uint16_t[4]){0, 16, 0, 0}, 8);
        if (!bind) memcpy(in + 144, local, 16);
    }
    memcpy(buf, &hdr, sizeof(hdr));
    return flags & 32 ? n : 600;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];

    setenv("GPUWIRE_NIC", "addr=127.99.98.97", 1);
    for (int i = 0; i < 2; i++) {
        fds[i] = ucm_open(O_RDWR | O_NONBLOCK | O_CLOEXEC, &uv_callbacks);
        if (fds[i] < 0) abort();
    }
    while (size > 4) {
        uint8_t buf[1200];
        size_t n = data[3] % 64 + 4u;

        if (n > size) n = size;
        n = command(buf, data, n, fds);
        if (ucm_write(fds[data[1] >> 7], buf, n) > (ssize_t)n) abort();
        n = data[3] % 64 + 4u;
        if (n > size) break;
        data += n;
        size -= n;
    }
    for (int i = 0; i < 2; i++) {
        ucm_close(fds[i]);
        close(fds[i]);
    }
    return 0;
}
