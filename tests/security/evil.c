/* SPDX-License-Identifier: Apache-2.0 */
/* A library that another user wants loaded: it tells with whose rights it runs. */
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void come_in(void)
{
    printf("loaded with the rights of user %d\n", (int)geteuid());
}
