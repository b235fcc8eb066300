/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: doubly linked rings with the links inside the objects. A link that is in no list points to itself.
 */
#ifndef SOFTNIC_BASE_LIST_H
#define SOFTNIC_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include <gpuwire/detail/assert.h>

struct sn_link {
    struct sn_link *prev, *next;
};

#define sn_entry(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* Walks a list; the current entry may be taken out. */
#define sn_list_each(it, tmp, head)                                                                          \
    for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); (it) = (tmp), (tmp) = (it)->next)

static inline void sn_list_init(struct sn_link *l)
{
    l->prev = l->next = l;
}

static inline bool sn_list_empty(const struct sn_link *l)
{
    return l->next == l;
}

static inline void sn_list_del(struct sn_link *l)
{
    GW_ASSERT(l->prev->next == l && l->next->prev == l);
    l->prev->next = l->next;
    l->next->prev = l->prev;
    sn_list_init(l);
}

/* Appends an entry that is in no list. */
static inline void sn_list_add(struct sn_link *head, struct sn_link *l)
{
    GW_ASSERT(head->prev->next == head);
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

#endif
