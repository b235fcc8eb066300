/* SPDX-License-Identifier: Apache-2.0 */
/* What libraries are told of the NIC's distance to GPUs. */
#ifndef SOFTNIC_ATTACH_GPUS_H
#define SOFTNIC_ATTACH_GPUS_H

/* sn_gpus_tell_near - on a machine with a GPU, has this process's NCCL use GPUDirect at any distance, unless
 * the environment says otherwise. Before the program's main() alone: it changes the environment. */
void sn_gpus_tell_near(void);

#endif
