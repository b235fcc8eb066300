/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs' context in the struct that its providers fill in. That struct grows at its front from release
 * to release, and its end stays: its size, then struct ibv_context. So a header says where the context lies
 * in one release alone. The library that runs writes the size before it is asked for anything else, and that
 * says where its context lies.
 */
#include <string.h>

#include "softnic/uverbs/uverbs.h"

/* Of the part in front: it had 45 pointers in release 44, and has 51 in release 65. */
enum { MAX_FRONT = 128 };

struct ibv_context *uv_context_in(void *verbs_context)
{
    for (size_t front = 0; front < MAX_FRONT; front++) {
        char *at = (char *)verbs_context + front * sizeof(void *);
        struct ibv_context *context = (struct ibv_context *)(void *)(at + sizeof(size_t));
        size_t size;

        memcpy(&size, at, sizeof(size));
        if (size != (front + 1) * sizeof(void *) + sizeof(*context)) continue;
        if (context->abi_compat == __VERBS_ABI_IS_EXTENDED) return context;
    }
    return NULL;
}
