/*
 * list.h - intrusive doubly linked list. A head is made with list_init; a node that is in no list points to itself or
 * is zeroed.
 */
#pragma once

#include "base/base.h"

struct list {
	struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l || l->next == NULL;
}

static inline void list_push(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Safe on a node that is in no list. */
static inline void list_del(struct list *node)
{
	if (node->next) {
		node->prev->next = node->next;
		node->next->prev = node->prev;
	}
	list_init(node);
}

/* Takes the first node out. The list is not empty. */
static inline struct list *list_pop(struct list *head)
{
	struct list *first = head->next;
	head->next = first->next;
	head->next->prev = head;
	list_init(first);
	return first;
}

#define list_entry(node, type, member) container_of(node, type, member)
/* The body may delete the current node. */
#define list_each(it, head)                                                                                            \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)
