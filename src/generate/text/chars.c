/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of characters, upper and lower case, and Unicode's normal forms, by utf8proc. */
#include "src/generate/text/chars.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "src/generate/text/utf8.h"

static bool category_within(uint32_t c, utf8proc_category_t first, utf8proc_category_t last)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= first && category <= last;
}

bool gen_char_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool gen_char_is_numeric(uint32_t c)
{
    if (c < 0x80) return c >= '0' && c <= '9';
    return category_within(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool gen_char_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
    return category_within(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool gen_char_is_mark(uint32_t c)
{
    return c >= 0x80 && category_within(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool gen_char_is_word(uint32_t c)
{
    if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    /* Letters, marks, decimal digits and numbers that are letters, connectors; then symbols that Unicode
     * counts as letters, and the two joiners. */
    return category_within(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
           utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_PC || (c >= 0x24B6 && c <= 0x24E9) ||
           (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

static void put_char(uint32_t c, struct gw_text *text)
{
    char out[4];
    gw_text_add(text, out, gen_utf8_put(out, c));
}

void gen_char_lower(uint32_t c, struct gw_text *text)
{
    if (c == 0x130) { /* the one character that becomes two */
        gw_text_add(text, "i\xCC\x87", 3);
        return;
    }
    put_char((uint32_t)utf8proc_tolower((utf8proc_int32_t)c), text);
}

void gen_char_upper(uint32_t c, struct gw_text *text)
{
    if (c == 0xDF) {
        gw_text_add(text, "SS", 2);
        return;
    }
    put_char((uint32_t)utf8proc_toupper((utf8proc_int32_t)c), text);
}

void gen_char_normalize(enum gen_form form, const char *at, size_t bytes, struct gw_text *text)
{
    static const utf8proc_option_t options[] = {
        [GEN_NFC] = UTF8PROC_COMPOSE,
        [GEN_NFD] = UTF8PROC_DECOMPOSE,
        [GEN_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [GEN_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    size_t ascii = 0;
    while (ascii < bytes && (unsigned char)at[ascii] < 0x80) ascii++;
    if (ascii == bytes) { /* ASCII is its own form, whichever */
        gw_text_add(text, at, bytes);
        return;
    }
    utf8proc_uint8_t *out = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)at, (utf8proc_ssize_t)bytes, &out,
                                      UTF8PROC_STABLE | options[form]);
    if (n < 0)
        text->broken = 1; /* it lacks memory: the text is valid */
    else
        gw_text_add(text, out, (size_t)n);
    free(out);
}
