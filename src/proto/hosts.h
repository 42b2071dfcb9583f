/*
 * hosts.h - the line of /etc/hosts with which a box knows its own name.
 *
 * The agent writes it at the start of each box. It is no part of an image: the mark at its end tells it from lines of
 * the image's or box's owner. Pure.
 */
#pragma once

#include "base/buf.h"

#define HOSTS_MARK "\t# the name of this sandbox"

/* Adds `text` to *ret, line by line, without lines that have the mark. */
void hosts_without_mark(struct str text, struct buf *ret);
