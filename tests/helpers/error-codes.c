/* Prints every error code, and for each whether the rpc transport takes it for one that upstream's list has not. */
#include <stdio.h>

#include "agent/rpc/rpc.h"
#include "proto/errc.h"

int main(void)
{
	for (int code = ERRC_OK + 1; code < ERRC_MAX; code++) {
		const char *name = errc_info(code)->code;
		printf("%s %s\n", name, rpc_is_own_code(str_of(name)) ? "own" : "upstream");
	}
	return 0;
}
