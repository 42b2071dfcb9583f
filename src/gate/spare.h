/*
 * spare.h - descriptors that connections lend to each other: for pipes of bulk transfers (relay.h) and attempts to dial
 * beside the first (dial.h). places.h says how many there are; without any, bytes are copied and attempts follow each
 * other. Thread: the loop's.
 */
#pragma once

#include "base/base.h"

/* How many there are in all. */
void spare_init(size_t most);
/* False: there are not so many left. */
bool spare_take(size_t n);
void spare_give(size_t n);
