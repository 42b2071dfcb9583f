/*
 * json_oracle.h - jansson's opinion of a JSON text, for comparison.
 *
 * jansson and we use the same names (json_null, JSON_TRUE …), so it is loaded with dlopen and only json_oracle.c
 * sees its header.
 */
#pragma once

#include "base/buf.h"

enum oracle_verdict {
	ORACLE_ACCEPTS,
	ORACLE_REFUSES,
	/* What we take and jansson does not: integers past 64 bits and reals past a double (we keep the literal,
	 * readers check the range), and keys that hold NUL. */
	ORACLE_REFUSES_RANGE,
};

/* With ORACLE_ACCEPTS, *ret is the value as a row of one-line items: see dump() in either file. */
enum oracle_verdict json_oracle(struct str text, struct buf *ret);
