/* SPDX-License-Identifier: Apache-2.0 */
/* The client in CUDA's words, on a thread of the CPU and as a kernel of its own launching. */
#ifndef GW_TESTS_SOCKET_GPUNET_RUN_H
#define GW_TESTS_SOCKET_GPUNET_RUN_H

#ifdef __cplusplus
extern "C" {
#endif
struct gpunet;
struct sockaddr_in;
int words_cpu_start(struct gpunet *g);
int words_cpu_run(struct sockaddr_in *addr, int *result, int messages);
int words_gpu_start(struct gpunet *g);
int words_gpu_run(struct sockaddr_in *addr, int *result, int messages);
#ifdef __cplusplus
}
#endif
#endif
