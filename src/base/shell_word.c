#include "base/shell_word.h"

#include <string.h>

void shell_word(struct buf *ret, struct str word)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+:,./-_";
	bool plain = word.n > 0;
	for (size_t i = 0; i < word.n && plain; i++)
		plain = word.p[i] && strchr(safe, word.p[i]);
	if (plain)
		return (void)buf_add_str(ret, word);
	buf_add_byte(ret, '\'');
	for (size_t i = 0; i < word.n; i++)
		if (word.p[i] == '\'')
			buf_add_c(ret, "'\\''");
		else
			buf_add_byte(ret, word.p[i]);
	buf_add_byte(ret, '\'');
}
