/* SPDX-License-Identifier: Apache-2.0 */
/* A vocabulary: texts in one block, a hash table over them, and a table by id. */
#include "src/generate/text/vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/text/hash.h"

static const char *vocab_entry_text(const struct gen_vocab *v, uint32_t entry)
{
    return v->texts.at + v->entries[entry].at;
}

/* The slot where the text is, or the free one where it belongs. */
static uint32_t vocab_slot(const struct gen_vocab *v, const char *text, size_t bytes)
{
    uint32_t mask = v->slot_count - 1, slot = (uint32_t)gen_hash(text, bytes) & mask;
    for (; v->slots[slot]; slot = (slot + 1) & mask) {
        const struct gen_vocab_entry *e = &v->entries[v->slots[slot] - 1];
        if (e->bytes == bytes && !memcmp(vocab_entry_text(v, v->slots[slot] - 1), text, bytes)) break;
    }
    return slot;
}

static int vocab_grow(struct gen_vocab *v)
{
    uint32_t room = v->room ? v->room * 2 : 1024;
    struct gen_vocab_entry *entries = realloc(v->entries, room * sizeof(*entries));
    if (!entries) return -ENOMEM;
    v->entries = entries;
    uint32_t *slots = calloc((size_t)room * 2, sizeof(*slots));
    if (!slots) return -ENOMEM;
    free(v->slots);
    v->slots = slots;
    v->slot_count = room * 2;
    v->room = room;
    for (uint32_t i = 0; i < v->count; i++)
        v->slots[vocab_slot(v, vocab_entry_text(v, i), v->entries[i].bytes)] = i + 1;
    return 0;
}

static int vocab_reach(struct gen_vocab *v, uint32_t id)
{
    if (id < v->ids) return 0;
    uint32_t ids = v->ids ? v->ids : 1024;
    while (ids <= id) ids *= 2;
    uint32_t *by_id = realloc(v->by_id, ids * sizeof(*by_id));
    if (!by_id) return -ENOMEM;
    memset(by_id + v->ids, 0, (ids - v->ids) * sizeof(*by_id));
    v->by_id = by_id;
    v->ids = ids;
    return 0;
}

int gen_vocab_add(struct gen_vocab *v, const char *text, size_t bytes, uint32_t id)
{
    if (id > GEN_MAX_TOKEN_ID) return -EINVAL;
    if (bytes > UINT32_MAX - v->texts.bytes) return -E2BIG;
    int err = v->count == v->room ? vocab_grow(v) : 0;
    if (err || (err = vocab_reach(v, id))) return err;
    uint32_t slot = vocab_slot(v, text, bytes);
    if (v->slots[slot]) return -EEXIST;
    uint32_t at = (uint32_t)v->texts.bytes;
    gw_text_add(&v->texts, text, bytes);
    if (v->texts.broken) return -ENOMEM;
    v->entries[v->count] = (struct gen_vocab_entry){.at = at, .bytes = (uint32_t)bytes, .id = id};
    v->slots[slot] = v->by_id[id] = ++v->count;
    return 0;
}

void gen_vocab_free(struct gen_vocab *v)
{
    free(v->texts.at);
    free(v->entries);
    free(v->slots);
    free(v->by_id);
    memset(v, 0, sizeof(*v));
}

uint32_t gen_vocab_find(const struct gen_vocab *v, const char *text, size_t bytes)
{
    if (!v->count) return UINT32_MAX;
    uint32_t slot = vocab_slot(v, text, bytes);
    return v->slots[slot] ? v->entries[v->slots[slot] - 1].id : UINT32_MAX;
}

const char *gen_vocab_text(const struct gen_vocab *v, uint32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id >= v->ids || !v->by_id[id]) return NULL;
    *bytes = v->entries[v->by_id[id] - 1].bytes;
    return vocab_entry_text(v, v->by_id[id] - 1);
}
