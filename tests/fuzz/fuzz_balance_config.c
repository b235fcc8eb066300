/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file of the balancer. What is taken must be written in a form that is taken again, with
 * the same words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/control/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gw_bal_config c, again;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    int error = gw_bal_config_parse("fuzz", text, &c);
    free(text);
    char *written = error ? NULL : gw_bal_config_write(&c.model);
    if (written) {
        char *copy = strdup(written);
        if (gw_bal_config_parse("again", copy, &again)) abort();
        char *once_more = gw_bal_config_write(&again.model);
        if (!once_more || strcmp(written, once_more) != 0) abort();
        free(once_more);
        free(copy);
        gw_bal_config_free(&again);
    }
    free(written);
    gw_bal_config_free(&c);
    return 0;
}
