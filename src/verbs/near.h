/* SPDX-License-Identifier: Apache-2.0 */
/* How far NICs are from a GPU, as the PCI tree in /sys tells. */
#ifndef GW_VERBS_NEAR_H
#define GW_VERBS_NEAR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct gw_exec;

/* A PCI device: its folder in the tree, such as /sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0, and its
 * NUMA node, -1: unknown. */
struct gw_place_in_pci {
    char path[PATH_MAX];
    int node;
};

/* Where a folder of /sys leads to; false: there is no such. */
bool gw_pci_find(const char *folder, struct gw_place_in_pci *at);
/* Where the executor's GPU is; false: it runs on CPU threads, or that cannot be found out. */
bool gw_pci_of_exec(const struct gw_exec *exec, struct gw_place_in_pci *at);

/* The smaller, the nearer: switches between them count most, then root complex, then NUMA node. */
uint32_t gw_pci_distance(const struct gw_place_in_pci *a, const struct gw_place_in_pci *b);
/* In words: what both have in common. */
const char *gw_pci_distance_text(uint32_t distance);

#endif
