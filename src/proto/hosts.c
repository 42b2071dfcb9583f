#include "proto/hosts.h"

void hosts_without_mark(struct str text, struct buf *ret)
{
	while (text.n) {
		struct str line = str_split(text, '\n', &text);
		if (str_ends(line, STR(HOSTS_MARK)))
			continue;
		buf_add_str(ret, line);
		buf_add_str(ret, STR("\n"));
	}
}
