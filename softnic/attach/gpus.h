/* SPDX-License-Identifier: Apache-2.0 */
/* The distance between NIC and GPUs that libraries are told. */
#ifndef SOFTNIC_ATTACH_GPUS_H
#define SOFTNIC_ATTACH_GPUS_H

/* sn_gpus_tell_near - on a machine with a GPU, has this process's NCCL use GPUDirect at any distance, unless
 * the environment says otherwise. Before the program's main() alone: it changes the environment. */
void sn_gpus_tell_near(void);

#endif
