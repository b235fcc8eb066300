/* SPDX-License-Identifier: Apache-2.0 */
/* fake_fleet.c: a process of controllers and workers for tests of the tool. It prints the address of the
 * first controller, and ends with its standard input. Words there change what the first worker does:
 *     refuse    it refuses; `answer`: it answers again; `die`: it is gone */
#include <stdio.h>
#include <string.h>

#include "src/server/wire/wire.h"
#include "tests/fleet/client/fake.h"

int main(void)
{
    static struct fake f;
    char word[32];
    fake_begin(&f);
    fake_grant(&f, 0, 64, 1e6f);
    fake_grant(&f, 1, 64, 1e6f);
    printf("%s\n", f.controller[0].address);
    fflush(stdout);
    while (scanf("%31s", word) == 1) {
        if (!strcmp(word, "refuse")) f.worker[0].status = f.worker[1].status = GW_SERVE_OVER_BUDGET;
        if (!strcmp(word, "answer")) f.worker[0].status = f.worker[1].status = GW_SERVE_OK;
        if (!strcmp(word, "die")) fake_kill(&f, 0);
        printf("%s\n", word);
        fflush(stdout);
    }
    fake_end(&f);
    return 0;
}
