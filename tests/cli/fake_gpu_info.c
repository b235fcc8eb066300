/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuwire info` on a machine with the GPU of tests/exec/fake_gpu.c. */
#include "src/cli/cli.h"

int main(int argc, char **argv)
{
    return gw_cli_info(argc, argv);
}
