/*
 * base.h - the few macros every file uses: container_of, scope guards, assertions.
 *
 * Scope guards follow one rule: a guard keeps errno, so that a function may fail, clean up and still report the
 * first error. `take_fd` and `take_ptr` hand the resource over and disarm the guard:
 *
 *	auto_fd int fd = open(...);
 *	if (fd < 0)
 *		return -errno;
 *	*ret_fd = take_fd(&fd);
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define ARRAY_LEN(a)			(sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(fmt, args)		__attribute__((format(printf, fmt, args)))
#define MUST_CHECK			__attribute__((warn_unused_result))

/* Prints the place and the condition, then aborts. For states that only a bug of ours can reach; never for input. */
_Noreturn void base_bug(const char *file, int line, const char *what);
#define INVARIANT(cond) ((cond) ? (void)0 : base_bug(__FILE__, __LINE__, #cond))

static inline void guard_fd(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
}

static inline void guard_free(void *pp)
{
	int saved = errno;
	free(*(void **)pp);
	errno = saved;
}

#define auto_fd	  __attribute__((cleanup(guard_fd)))
#define auto_free __attribute__((cleanup(guard_free)))

static inline int take_fd(int *fd)
{
	int v = *fd;
	*fd = -1;
	return v;
}

#define take_ptr(pp)                                                                                                   \
	({                                                                                                             \
		__typeof__(*(pp)) taken_ = *(pp);                                                                      \
		*(pp) = NULL;                                                                                          \
		taken_;                                                                                                \
	})

/* Closes *fd if it is open and sets it to -1: for fds that live in structs. */
static inline void fd_close(int *fd)
{
	guard_fd(fd);
	*fd = -1;
}

/* Allocation failure aborts (see STYLE); sizes that users choose are checked before they come here. */
void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((returns_nonnull));
