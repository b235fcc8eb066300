/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a build without libmicrohttpd: there is none. */
#include <errno.h>

#include <gpuwire/error.h>

#include "apps/faceverify/page/page.h"

int face_page_start(const struct sockaddr_storage *address, const struct face_page_source *source,
                    struct face_page **out)
{
    (void)address;
    (void)source;
    (void)out;
    return gw_error(-ENOSYS, "there is no page: this was built without libmicrohttpd");
}

const char *face_page_name(const struct face_page *page)
{
    (void)page;
    return "";
}

void face_page_stop(struct face_page *page)
{
    (void)page;
}
