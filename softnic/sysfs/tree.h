/* SPDX-License-Identifier: Apache-2.0 */
/* The part of sysfs that shows the software NIC: files and folders as the kernel makes them for a ConnectX.
 */
#ifndef SOFTNIC_SYSFS_TREE_H
#define SOFTNIC_SYSFS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NIC number n is mlx5_n, and its character device this followed by n. */
#define SN_DEV_FOLDER  "/dev/infiniband"
#define SN_CDEV_PATH   SN_DEV_FOLDER "/uverbs"
#define SN_VENDOR_ID   0x02c9u /* what mlx5 devices report as vendor: the OUI, not the PCI id */
#define SN_PCI_VENDOR  0x15b3u
#define SN_PCI_DEVICE  0x1021u /* ConnectX-7: the newest one that rdma-core 44 knows */
#define SN_FW_MAJOR    28u
#define SN_FW_MINOR    0u
#define SN_FW_SUBMINOR 1u
#define SN_BOARD_ID    "GPUWIRE_SOFT"

enum { SN_TREE_GIDS = 16, SN_TREE_PKEYS = 8 };

/* An entry of the GID table. */
struct sn_tree_gid {
    uint8_t gid[16];
    char ndev[16]; /* the interface that has it, "" when unknown */
    bool v1;       /* of RoCE v1 */
};

/* The facts of the tree about a NIC. */
struct sn_tree_info {
    uint8_t gid[16]; /* the NIC's address */
    char ndev[16];   /* the interface that has it, "" when unknown */
    unsigned gids, pkeys;
    struct sn_tree_gid table[SN_TREE_GIDS];
    uint16_t pkey[SN_TREE_PKEYS];
};

/* sn_tree_cdev - which NIC's character device a path names, -1: none's. `count`: how many NICs there are. */
int sn_tree_cdev(const char *path, unsigned count);

/*
 * sn_tree_path - the folder that SYSFS_PATH names, fixed at the first call in a process: nothing is written
 * yet. NULL with a line on stderr when there is no folder to put it in.
 */
const char *sn_tree_path(void);

/* sn_tree_build - writes the tree, of n NICs, if it is not there, and removes those of dead processes. 0 or a
 * negative errno. */
int sn_tree_build(const struct sn_tree_info *nics, unsigned n);

/* sn_tree_owns - is a path, below /sys or wherever SYSFS_PATH leads to, shown by the tree, and not by the
 * kernel? */
bool sn_tree_owns(const char *path);

/* sn_tree_mentioned - could a path, whatever it is relative to, name what the tree shows? By its letters. */
bool sn_tree_mentioned(const char *path);

/* sn_tree_below - what follows the folder of a tree, this process's or another one's, in a path without
 * links; NULL: it is in none. */
const char *sn_tree_below(const char *path);

/* sn_tree_put - gives a file of the tree another text; `path`: below the tree. Readers that have it open
 * keep the old text. Returns 0, or a negative errno: -ENOENT if this process has no tree, or the tree has
 * no such folder. */
int sn_tree_put(const char *path, const char *text);

/* sn_tree_remove - takes this process's tree away, if this process (not a parent) made it. */
void sn_tree_remove(void);

/* sn_tree_forget - in a forked child: the tree belongs to the parent; a new one gets a new name. */
void sn_tree_forget(void);

/* sn_tree_sweep - removes the trees that dead processes left; what `gpuwire run` does at its end. */
void sn_tree_sweep(void);

/* sn_guid - the node GUID of NIC number `index` of a process, at an address, in host byte order. */
uint64_t sn_guid(const uint8_t gid[16], unsigned index);

#endif
