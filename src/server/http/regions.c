/* SPDX-License-Identifier: Apache-2.0 */
/* v2/systemsharedmemory and v2/cudasharedmemory: memory that clients share with the server. */
#include <stdio.h>
#include <string.h>

#include "src/server/http/calls.h"

/* Splits "[/region/NAME]/WHAT". Returns WHAT, or NULL; no name: "". */
static const char *http_regions_split(const char *rest, char name[GW_INFER_NAME])
{
    name[0] = 0;
    if (!strncmp(rest, "/region/", 8)) {
        size_t n = strcspn(rest + 8, "/");
        if (!n || n >= GW_INFER_NAME) return NULL;
        memcpy(name, rest + 8, n);
        name[n] = 0;
        rest += 8 + n;
    }
    return *rest == '/' ? rest + 1 : NULL;
}

static unsigned status(struct gw_api *api, const struct gw_http_request *r, const char *name, json_t **reply)
{
    struct gw_regions *regions = gw_infer_regions(api->infer);
    struct gw_region_info info;
    json_t *all = json_array();
    for (uint32_t i = 0; gw_region_status(regions, GW_REGION_SYSTEM, r->who, name, i, &info); i++)
        json_array_append_new(all,
                              json_pack("{s:s, s:s, s:I, s:I}", "name", info.name, "key", info.key, "offset",
                                        (json_int_t)info.offset, "byte_size", (json_int_t)info.bytes));
    if (*name && !json_array_size(all)) {
        json_decref(all);
        return gw_http_fail(404, reply, "Unable to find that shared memory region: it is not registered");
    }
    return gw_http_done(200, reply, all);
}

/* The server opens the file with its own rights: for a client that is known, and still there. */
static unsigned nobody_is_here(const struct gw_http_request *r, json_t **reply)
{
    if (gw_http_is_here(r)) return 0;
    return gw_http_fail(
        403, reply,
        "shared memory: only for users of the server's host, by a direct connection that stays open");
}

static unsigned register_one(struct gw_api *api, const struct gw_http_request *r, const char *name,
                             json_t **reply)
{
    struct gw_region_info info = {0};
    struct gw_infer_error error;
    const char *key = json_string_value(json_object_get(r->body, "key"));
    json_int_t bytes = json_integer_value(json_object_get(r->body, "byte_size"));
    json_int_t offset = json_integer_value(json_object_get(r->body, "offset"));
    if (!*name || !key || strlen(key) >= sizeof(info.key) || bytes <= 0 || offset < 0)
        return gw_http_fail(400, reply, "key and byte_size are missing, and offset if it is not 0");
    snprintf(info.name, sizeof(info.name), "%s", name);
    snprintf(info.key, sizeof(info.key), "%s", key);
    info.bytes = (uint64_t)bytes;
    info.offset = (uint64_t)offset;
    unsigned refused = nobody_is_here(r, reply);
    if (refused) return refused;
    if (gw_region_register(gw_infer_regions(api->infer), r->who, &info, &error))
        return gw_http_fail_infer(&error, reply);
    return gw_http_done(200, reply, json_object());
}

unsigned gw_http_regions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                         json_t **reply)
{
    char name[GW_INFER_NAME];
    const char *what = http_regions_split(rest, name);
    if (!what) return gw_http_nothing(reply);
    if (!strcmp(what, "status")) return status(api, r, name, reply);
    if (strcmp(r->method, "POST")) return gw_http_fail(405, reply, "POST only");
    if (!strcmp(what, "register")) return register_one(api, r, name, reply);
    if (strcmp(what, "unregister")) return gw_http_nothing(reply);
    gw_region_unregister(gw_infer_regions(api->infer), GW_REGION_SYSTEM, r->who, name);
    return gw_http_done(200, reply, json_object());
}

/* ---- memory of GPUs ---- */

static int http_regions_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Base64 of exactly `bytes` bytes. */
static int http_regions_decode(const char *text, uint8_t *to, size_t bytes)
{
    size_t n = 0, length = strlen(text), digits = length;
    uint32_t held = 0;
    while (digits && text[digits - 1] == '=') digits--;
    if (length % 4 || length - digits > 2 || digits * 3 / 4 != bytes) return -1;
    for (size_t i = 0; i < digits; i++) {
        int value = http_regions_digit(text[i]);
        if (value < 0) return -1;
        held = held << 6 | (uint32_t)value;
        if (i % 4) to[n++] = (uint8_t)(held >> (6 - 2 * (i % 4)));
    }
    return 0;
}

static unsigned cuda_status(struct gw_api *api, const struct gw_http_request *r, const char *name,
                            json_t **reply)
{
    struct gw_regions *regions = gw_infer_regions(api->infer);
    struct gw_region_info info;
    json_t *all = json_array();
    for (uint32_t i = 0; gw_region_status(regions, GW_REGION_CUDA, r->who, name, i, &info); i++)
        json_array_append_new(all, json_pack("{s:s, s:I, s:I}", "name", info.name, "device_id",
                                             (json_int_t)info.device, "byte_size", (json_int_t)info.bytes));
    if (*name && !json_array_size(all)) {
        json_decref(all);
        return gw_http_fail(404, reply,
                            "Unable to find that CUDA shared memory region: it is not registered");
    }
    return gw_http_done(200, reply, all);
}

static unsigned http_regions_register_cuda(struct gw_api *api, const struct gw_http_request *r,
                                           const char *name, json_t **reply)
{
    struct gw_region_info info = {0};
    struct gw_infer_error error;
    uint8_t handle[GW_CUDA_HANDLE];
    const char *text = json_string_value(json_object_get(json_object_get(r->body, "raw_handle"), "b64"));
    json_int_t bytes = json_integer_value(json_object_get(r->body, "byte_size"));
    json_int_t device = json_integer_value(json_object_get(r->body, "device_id"));
    if (!*name || !text || bytes <= 0 || device < 0)
        return gw_http_fail(400, reply, "raw_handle with b64, byte_size and device_id must be given");
    if (http_regions_decode(text, handle, sizeof(handle)))
        return gw_http_fail(400, reply, "raw_handle: b64 is not a cudaIpcMemHandle's 64 bytes");
    snprintf(info.name, sizeof(info.name), "%s", name);
    info.bytes = (uint64_t)bytes;
    info.device = (uint64_t)device;
    unsigned refused = nobody_is_here(r, reply);
    if (refused) return refused;
    if (gw_infer_register_cuda(api->infer, r->who, &info, handle, sizeof(handle), &error))
        return gw_http_fail_infer(&error, reply);
    return gw_http_done(200, reply, json_object());
}

unsigned gw_http_cuda_regions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                              json_t **reply)
{
    char name[GW_INFER_NAME];
    struct gw_infer_error error;
    const char *what = http_regions_split(rest, name);
    if (!what) return gw_http_nothing(reply);
    if (!strcmp(what, "status")) return cuda_status(api, r, name, reply);
    if (strcmp(r->method, "POST")) return gw_http_fail(405, reply, "POST only");
    if (!strcmp(what, "register")) return http_regions_register_cuda(api, r, name, reply);
    if (strcmp(what, "unregister")) return gw_http_nothing(reply);
    if (gw_infer_unregister_cuda(api->infer, r->who, name, &error)) return gw_http_fail_infer(&error, reply);
    return gw_http_done(200, reply, json_object());
}
