/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of one word: characters to symbols, then merges from a heap, over a linked list of the
 * symbols. */
#include "src/generate/text/bpe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/bpe_read.h"
#include "src/generate/text/utf8.h"
#include "src/generate/text/vocab.h"

#define NONE UINT32_MAX

/* A part of the word. `bytes` 0: it was merged into the one before. */
struct bpe_symbol {
    uint32_t id, before, after, bytes;
};

void gen_bpe_scratch_free(struct gen_bpe_scratch *s)
{
    free(s->symbols);
    free(s->heap);
    memset(s, 0, sizeof(*s));
}

/* Room for a word of `bytes`: each merge takes a symbol away, and pushes two pairs at most. */
static int scratch_reserve(struct gen_bpe_scratch *s, size_t bytes)
{
    if (s->symbol_room >= bytes) return 0;
    size_t room = s->symbol_room ? s->symbol_room : 256;
    while (room < bytes) room *= 2;
    void *symbols = realloc(s->symbols, room * sizeof(*s->symbols));
    if (!symbols) return -ENOMEM;
    s->symbols = symbols;
    void *heap = realloc(s->heap, 3 * room * sizeof(*s->heap));
    if (!heap) return -ENOMEM;
    s->heap = heap;
    s->symbol_room = room;
    s->heap_room = 3 * room;
    return 0;
}

/* Pairs that could merge, in a heap whose nodes have four children, which lie side by side: a long word's
 * heap is larger than the caches. An entry is rank << 32 | place: the lowest rank comes first, and of those
 * the leftmost place. */
static void heap_push(uint64_t *heap, size_t *count, uint64_t entry)
{
    size_t i = (*count)++;
    while (i) {
        size_t parent = (i - 1) / 4;
        if (heap[parent] <= entry) break;
        heap[i] = heap[parent];
        i = parent;
    }
    heap[i] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count)
{
    uint64_t top = heap[0], last = heap[--*count];
    size_t i = 0;
    for (size_t child; (child = 4 * i + 1) < *count;) {
        size_t end = child + 4 < *count ? child + 4 : *count, least = child;
        while (++child < end) {
            if (heap[child] < heap[least]) least = child;
        }
        if (heap[least] >= last) break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = last;
    return top;
}

/* The symbols of a word as they are found. An unknown one waits: the next may be fused with it. */
struct bpe_word {
    const struct gen_bpe *bpe;
    struct bpe_symbol *symbols;
    uint32_t count;
    uint32_t unknown_bytes; /* of the unknown symbol that waits; 0: none */
};

static void word_add(struct bpe_word *w, uint32_t id, uint32_t bytes)
{
    uint32_t i = w->count++;
    w->symbols[i] = (struct bpe_symbol){.id = id, .before = i ? i - 1 : NONE, .after = NONE, .bytes = bytes};
    if (i) w->symbols[i - 1].after = i;
}

static void word_flush(struct bpe_word *w)
{
    if (w->unknown_bytes) word_add(w, w->bpe->unknown, w->unknown_bytes);
    w->unknown_bytes = 0;
}

/* A character that the vocabulary lacks: its bytes, or the unknown token, or nothing. */
static void word_unknown(struct bpe_word *w, const char *at, uint32_t bytes)
{
    if (w->bpe->byte_fallback) {
        for (uint32_t i = 0; i < bytes; i++) word_add(w, w->bpe->bytes[(unsigned char)at[i]], 1);
        return;
    }
    if (w->bpe->unknown == NONE) return;
    if (w->unknown_bytes && !w->bpe->fuse_unknown) word_flush(w);
    w->unknown_bytes += bytes;
}

/* The id of one character of the word; the first and the last may be written in another way. */
static uint32_t word_char(const struct gen_bpe *bpe, const char *at, uint32_t bytes, bool first, bool last)
{
    bool prefix = !first && bpe->prefix_bytes, suffix = last && bpe->suffix_bytes;
    if (!prefix && !suffix) return gen_bpe_char(bpe, at, bytes);
    char text[2 * GEN_MAX_AFFIX + 4];
    size_t n = 0;
    if (prefix) {
        memcpy(text, bpe->prefix, bpe->prefix_bytes);
        n = bpe->prefix_bytes;
    }
    memcpy(text + n, at, bytes);
    n += bytes;
    if (suffix) {
        memcpy(text + n, bpe->suffix, bpe->suffix_bytes);
        n += bpe->suffix_bytes;
    }
    return gen_vocab_find(&bpe->vocab, text, n);
}

static void word_split(struct bpe_word *w, const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint32_t n = gen_utf8_length(at + i);
        uint32_t id = word_char(w->bpe, at + i, n, i == 0, i + n == bytes);
        if (id == NONE) {
            word_unknown(w, at + i, n);
        } else {
            word_flush(w);
            word_add(w, id, n);
        }
        i += n;
    }
    word_flush(w);
}

/* Pushes the pair of the symbol at `place` and the one after it, where they can merge. */
static void push_pair(const struct bpe_word *w, uint32_t place, uint64_t *heap, size_t *count)
{
    uint32_t after = w->symbols[place].after;
    if (after == NONE) return;
    const struct gen_bpe_pair *pair = gen_bpe_pair(w->bpe, w->symbols[place].id, w->symbols[after].id);
    if (pair) heap_push(heap, count, (uint64_t)pair->rank << 32 | place);
}

static void word_merge(struct bpe_word *w, uint64_t *heap)
{
    size_t count = 0;
    for (uint32_t i = 0; i + 1 < w->count; i++) push_pair(w, i, heap, &count);
    while (count) {
        uint64_t top = heap_pop(heap, &count);
        uint32_t place = (uint32_t)top, id = w->bpe->merged[top >> 32];
        struct bpe_symbol *left = &w->symbols[place];
        if (!left->bytes || left->after == NONE) continue;
        struct bpe_symbol *right = &w->symbols[left->after];
        const struct gen_bpe_pair *pair = gen_bpe_pair(w->bpe, left->id, right->id);
        if (!pair || pair->id != id) continue; /* one of the two became something else since */
        left->id = id;
        left->bytes += right->bytes;
        left->after = right->after;
        right->bytes = 0;
        if (left->after != NONE) w->symbols[left->after].before = place;
        if (left->before != NONE) push_pair(w, left->before, heap, &count);
        push_pair(w, place, heap, &count);
    }
}

int gen_bpe_word(const struct gen_bpe *bpe, const char *word, size_t bytes, struct gen_bpe_scratch *s,
                 struct gen_ids *ids)
{
    if (bpe->ignore_merges) {
        uint32_t id = gen_vocab_find(&bpe->vocab, word, bytes);
        if (id != NONE) return gen_ids_add(ids, id);
    }
    int err = scratch_reserve(s, bytes);
    if (err) return err;
    struct bpe_word w = {.bpe = bpe, .symbols = s->symbols};
    word_split(&w, word, bytes);
    word_merge(&w, s->heap);
    for (uint32_t i = 0; i < w.count && !err; i++) {
        if (w.symbols[i].bytes) err = gen_ids_add(ids, w.symbols[i].id);
    }
    return err;
}
