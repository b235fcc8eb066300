// SPDX-License-Identifier: Apache-2.0
// Indexes of C++ libraries: libcuckoo's map (a cuckoo table with its own locks), and std::unordered_map.
#include <libcuckoo/cuckoohash_map.hh>
#include <unordered_map>
#include <vector>

extern "C" {
#include "bench/flow/table.h"
}

namespace
{

struct Hash {
    size_t operator()(uint64_t key) const { return flow_scramble(key ^ 0x5bd1e995); }
};

using Cuckoo = libcuckoo::cuckoohash_map<uint64_t, int32_t, Hash>;
using Stl = std::unordered_map<uint64_t, int32_t, Hash>;

bool look(const Cuckoo &map, uint64_t key, int32_t *at)
{
    return map.find(key, *at);
}
bool look(const Stl &map, uint64_t key, int32_t *at)
{
    auto it = map.find(key);
    if (it == map.end()) return false;
    *at = it->second;
    return true;
}
void put(Cuckoo &map, uint64_t key, int32_t at)
{
    map.insert(key, at);
}
void put(Stl &map, uint64_t key, int32_t at)
{
    map.emplace(key, at);
}

// A map and the positions that it has not given.
template <class Map> struct Index {
    Map map;
    std::vector<int32_t> free;
    uint64_t entries;

    static void *open(uint64_t entries, enum flow_sharing)
    {
        auto *x = new Index;
        x->entries = entries;
        x->map.reserve(entries);
        x->free.reserve(entries);
        for (uint64_t i = entries; i; i--) x->free.push_back(static_cast<int32_t>(i - 1));
        return x;
    }
    static void close(void *index) { delete static_cast<Index *>(index); }
    static uint64_t positions(const void *index) { return static_cast<const Index *>(index)->entries; }
    static void find(void *index, const uint64_t *keys, size_t n, int32_t *at)
    {
        auto *x = static_cast<Index *>(index);
        for (size_t i = 0; i < n; i++)
            if (!look(x->map, keys[i], &at[i])) at[i] = -1;
    }
    static int32_t add(void *index, uint64_t key)
    {
        auto *x = static_cast<Index *>(index);
        int32_t at;
        if (look(x->map, key, &at)) return at;
        if (x->free.empty()) return -1;
        at = x->free.back();
        x->free.pop_back();
        put(x->map, key, at);
        return at;
    }
    static void del(void *index, uint64_t key, int32_t at)
    {
        auto *x = static_cast<Index *>(index);
        if (x->map.erase(key)) x->free.push_back(at);
    }
    static uint64_t count(const void *index)
    {
        auto *x = static_cast<const Index *>(index);
        return x->entries - x->free.size();
    }
    static constexpr flow_index ops = {open, close, positions, find, add, nullptr, del, nullptr, count};
};

constexpr unsigned some = 1u << FLOW_NEVER | 1u << FLOW_WHEEL | 1u << FLOW_SCAN;

constexpr flow_kind kind_of(const char *name, const flow_index *index)
{
    return {name,           1u << FLOW_PER_CORE, some,           flow_peer_open,  flow_peer_close,
            flow_peer_join, flow_peer_leave,     flow_peer_lookup, flow_peer_step, flow_peer_cost,
            flow_peer_count, flow_peer_bytes,    index};
}

} // namespace

extern "C" const flow_kind flow_cuckoo = kind_of("libcuckoo", &Index<Cuckoo>::ops);
extern "C" const flow_kind flow_stl = kind_of("unordered_map", &Index<Stl>::ops);
