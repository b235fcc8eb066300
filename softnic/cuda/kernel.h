/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h: what the NIC and its copy kernel say to each other. The kernel (kernel.c) is one block,
 * resident while there is work; the host's side of it is copier.c.
 *
 * Commands have numbers, from 1 on; number n stands in slot n % SN_KERNEL_SLOTS. A slot is 16 words of 8
 * bytes. Each word holds 4 bytes of the command in its lower half, and the lower half of the command's number
 * in its upper one. Words are read and written whole. So a slot whose words all name the expected command has
 * been read right, in one trip over the bus and with no order among its words.
 */
#ifndef SOFTNIC_CUDA_KERNEL_H
#define SOFTNIC_CUDA_KERNEL_H

#include <stdint.h>

enum {
    SN_KERNEL_SLOTS = 64,
    SN_KERNEL_WORDS = 16,
    SN_KERNEL_BYTES = 40, /* that a command may bring along */
    SN_KERNEL_THREADS = 256,

    /* How to copy: units of 1, 4, 8 or 16 bytes (its logarithm), and the number of bytes before them and
     * after them. The addresses have the units' alignment after the first bytes. */
    SN_KERNEL_HEAD_SHIFT = 8,
    SN_KERNEL_TAIL_SHIFT = 16,
    SN_KERNEL_HERE = 1 << 24,      /* the bytes are in the command; src is not looked at */
    SN_KERNEL_FROM_HOST = 1 << 25, /* for the host's own use */
    SN_KERNEL_TO_HOST = 1 << 26,
    SN_KERNEL_FROM_PEER = 1 << 27, /* src is another GPU's, of the context whose address the bytes are */
};

struct sn_kernel_command {
    uint64_t dst, src;
    uint32_t units;
    uint32_t how;
    uint8_t bytes[SN_KERNEL_BYTES];
};

/* Pinned memory, at one address for both. */
struct sn_kernel_ring {
    uint64_t slot[SN_KERNEL_SLOTS][SN_KERNEL_WORDS];
    /* The kernel's. done: all commands up to this number are executed, and visible to everybody. alive, gone:
     * the launch that takes commands; that takes none any more, and then done is final. */
    _Alignas(64) uint64_t done;
    uint64_t alive, gone;
    /* The host's: the launch that is to end. */
    _Alignas(64) uint64_t stop;
    /* The commands as they were given, in case the kernel leaves some. */
    struct sn_kernel_command sent[SN_KERNEL_SLOTS];
};

/*
 * PTX text of the kernel "gw_copy", launched with one block of SN_KERNEL_THREADS. Its parameters, 8 bytes
 * each: the ring, the number of the first command, the number of the launch, and for how long, in
 * nanoseconds, it stays without a command, and at all.
 */
extern const char sn_kernel_text[];

#endif
