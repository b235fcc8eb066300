/* SPDX-License-Identifier: Apache-2.0 */
/* GPUnet's echo server: its kernel compiled for CPU threads, and main. */
#include "gpunet_server.h"

int main(int argc, char **argv)
{
    return gpunet_example(argc, argv, &server_kernel);
}
