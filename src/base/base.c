#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Noreturn void base_bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "bug: %s:%d: %s does not hold\n", file, line, what);
	abort();
}

static _Noreturn void out_of_memory(size_t n)
{
	fprintf(stderr, "out of memory: %zu bytes\n", n);
	abort();
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);
	if (!p)
		out_of_memory(n * size);
	return p;
}

void *xrealloc(void *old, size_t n)
{
	void *p = realloc(old, n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

char *xstrdup(const char *s)
{
	size_t n = strlen(s) + 1;
	return memcpy(xmalloc(n), s, n);
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = NULL;
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		out_of_memory(0);
	return s;
}

#ifdef __SANITIZE_ADDRESS__
#define ASAN_DEFAULTS "detect_leaks=0:detect_stack_use_after_return=1"
/* `make asan`: the leak checker reads /proc and traces the process, neither of which a box allows its agent. Tests that
 * can have it ask for it with ASAN_OPTIONS. The agent's stderr is not read by any program, and its box pays for the
 * memory that the checker holds back. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return getpid() == 1 ? ASAN_DEFAULTS ":log_path=/sanitizer:quarantine_size_mb=16" : ASAN_DEFAULTS;
}
#endif
