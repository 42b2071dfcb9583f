/*
 * uses.h - which sandboxes name a volume in their setting `volumes`.
 *
 * Kept while settings change, so that no list of volumes reads the settings of all sandboxes. A volume may be used that
 * there is none of: its row came later, or it was deleted while a change of settings was under way.
 *
 * Ownership: a sandbox owns its uses, the table (daemon.volume_users) what they are counted in. Thread: the loop's.
 */
#pragma once

#include "daemon/core/sandbox.h"

/* The settings of the sandbox have changed, or are there now. */
void uses_note(struct sandbox *s);
/* The sandbox has left the table. */
void uses_drop(struct sandbox *s);

size_t uses_count(const struct daemon *d, const char *volume);
/* Calls each() for the sandboxes that name the volume until it returns false. */
void uses_each(const struct daemon *d, const char *volume, bool (*each)(void *arg, const struct sandbox *s), void *arg);
