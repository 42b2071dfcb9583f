/*
 * change.h - one change of a sandbox that is there, as a part of the operations that change settings.
 */
#pragma once

#include "daemon/op/op_impl.h"

/* Changes the sandbox call->id. `kind` NULL: the operation that this is a part of has the record. Takes what `change`
 * owns. */
struct operation *change_begin(const struct op_call *call, const struct op_kind *kind, struct api_change *change);
/* What settings name must be there. */
int change_check_settings(struct daemon *d, const char *settings, struct err *e);
