/* SPDX-License-Identifier: Apache-2.0 */
/* devices.h: what a user calls a device, and what DPDK does. Pure functions, any thread. */
#ifndef GW_SRC_BALANCE_DEVICES_H
#define GW_SRC_BALANCE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bal_device {
    char bus[8];     /* "vdev" or "pci" */
    char name[64];   /* "net_af_packet0", "0000:17:00.0" */
    char args[700];  /* of the driver */
    char kernel[16]; /* the kernel's interface that must be there, or "" */
    bool needs_raw;  /* raw sockets */
    bool file;       /* of packets: it is no link */
    bool any_size;   /* its packets are as large as its arguments say, or its file */
    /* the kernel moves its packets: polling it without a pause takes the processor from that */
    bool software;
};

/* The device that `text` names (run.h), the index-th of the balancer's, with that many queues. 0; or -EINVAL,
 * and one line in `error`. */
struct bal_device_wish {
    uint32_t index, queues;
    uint32_t mtu; /* of IP */
};
int bal_device_parse(const char *text, const struct bal_device_wish *wish, struct bal_device *d, char *error,
                     size_t size);

#endif
