/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of the tree: a PCI device, its RDMA device, and where they are listed. 0 or a negative
 * errno. */
#ifndef SOFTNIC_SYSFS_DEVICE_H
#define SOFTNIC_SYSFS_DEVICE_H

struct sn_tree_info;

/* sn_device_write_common - what there is once, however many NICs there are. `top`: the tree, an open
 * folder. */
int sn_device_write_common(int top);

/* sn_device_write - NIC number `index`. */
int sn_device_write(int top, unsigned index, const struct sn_tree_info *info);

#endif
