/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the option that says where the page is. */
#include <stdio.h>
#include <string.h>

#include "apps/faceverify/args.h"
#include "apps/faceverify/page/page.h"

int face_page_address(const char *command, const char *text, struct sockaddr_storage *address)
{
    char local[32];
    socklen_t len;
    if (*text && strlen(text) < 8 && strspn(text, "0123456789") == strlen(text)) {
        snprintf(local, sizeof(local), "127.0.0.1:%s", text);
        text = local;
    }
    return face_address(command, text, 0, true, address, &len);
}
