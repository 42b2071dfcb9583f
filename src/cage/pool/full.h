/*
 * full.h - what a pool does where the kernel has full quotas (pool.h says why). Helper processes call this.
 */
#pragma once

#include "cage/pool/pool.h"

/* Counts the quotas anew if the kernel has given up, and the debts of all boxes. Does nothing with other quotas. 0, or
 * why the kernel does not count yet: an error of the rescan, or -EUCLEAN. */
int full_watch_slow(const struct pool *p);
/* Deletes the groups of subvolumes that are gone, which older kernels keep, and debts without a box or a snapshot. Does
 * nothing with other quotas. */
void full_sweep_slow(const struct pool *p);
/* Counts the debt of the box whose layer is open, with a snapshot that is there already. -EDQUOT: it does not fit. */
int full_charge_snapshot(const struct pool *p, int layer, const struct layer_note *n);
