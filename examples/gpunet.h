/* SPDX-License-Identifier: Apache-2.0 */
/* What gpunet_client and gpunet_server share: GPUnet's calls, the words of CUDA in C, and the host's part. */
#include <limits.h>

#define GPUNET_CUDA_WORDS
#include <gpuwire/gpunet_compat.h>

#define BUF_SIZE 4096
#define NR_MSG   100
#define NR_TB    64      /* blocks at most */
#define NOT_YET  INT_MIN /* in tb_alloc_tbl: a number that a kernel has yet to write */

/* What the host gives to the kernels. They have the arguments that GPUnet's own programs have. */
struct gpunet_example_args {
    struct gpunet *gpunet;
    struct sockaddr_in *addr;
    int *tb_alloc_tbl; /* [nr_tb]: how each block ended, 0 or an error; and one more, the server's own */
    int nr_tb;
};

#ifdef __cplusplus
extern "C" {
#endif
/* PROGRAM cpu|gpu tcp|rdma BLOCKS PORT [HOST]: runs the kernel. The program's exit code. */
int gpunet_example(int argc, char **argv, const struct gw_kernel *kernel);
#ifdef __cplusplus
}
#endif
