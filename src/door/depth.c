/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at JSON before a parser does that calls itself for each level. */
#include "src/door/depth.h"

int gw_json_depth(const char *text, size_t bytes)
{
    int depth = 0, deepest = 0, in_string = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\') i++;
        if (in_string) continue;
        if (text[i] == '[' || text[i] == '{') depth++;
        if (text[i] == ']' || text[i] == '}') depth--;
        if (depth > deepest) deepest = depth;
    }
    return deepest;
}
