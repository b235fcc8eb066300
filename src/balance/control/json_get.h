/* SPDX-License-Identifier: Apache-2.0 */
/* json_get.h: values out of JSON, which may say anything. */
#ifndef GW_BALANCE_CONTROL_JSON_GET_H
#define GW_BALANCE_CONTROL_JSON_GET_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A number, a text or a bool of an object. 1: it is there, 0: it is not, -EINVAL with the reason. */
int gw_bal_get_number(const json_t *from, const char *name, uint64_t least, uint64_t most, uint64_t *out);
int gw_bal_get_text(const json_t *from, const char *name, char *out, size_t size);
int gw_bal_get_yes(const json_t *from, const char *name, uint8_t *out);

#endif
