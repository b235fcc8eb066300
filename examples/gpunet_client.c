/* SPDX-License-Identifier: Apache-2.0 */
/* GPUnet's echo client: its kernel compiled for CPU threads, and main. */
#include "gpunet_client.h"

int main(int argc, char **argv)
{
    return gpunet_example(argc, argv, &client_kernel);
}
