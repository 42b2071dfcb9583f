/*
 * replay.c - runs a fuzz target over saved inputs: every file of the directories named as arguments.
 *
 * A target signals a finding by ending the process, so each file runs in a child. An input that takes longer than
 * SECONDS is a finding too. The last line is "N passed, N failed, N skipped".
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SECONDS = 60 };

static void feed(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	if (!f || fstat(fileno(f), &st) < 0)
		exit(2);
	size_t size = (size_t)st.st_size;
	/* Exactly as large as the input: a sanitizer then sees a read past its end. */
	uint8_t *data = malloc(size ? size : 1);
	if (!data || fread(data, 1, size, f) != size)
		exit(2);
	fclose(f);
	signal(SIGALRM, SIG_DFL);
	alarm(SECONDS);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	exit(0);
}

static int replay(const char *path)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		feed(path);
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("FAIL %s: still runs after %d s\n", path, SECONDS);
	else if (WIFSIGNALED(status))
		printf("FAIL %s: %s\n", path, strsignal(WTERMSIG(status)));
	else
		printf("FAIL %s: exit %d\n", path, WEXITSTATUS(status));
	return 1;
}

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;
	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		if (!d) {
			printf("FAIL %s: cannot be read\n", argv[i]);
			failed++;
			continue;
		}
		for (struct dirent *e; (e = readdir(d));) {
			char path[4096];
			if (e->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name) >= 4096)
				continue;
			if (replay(path))
				failed++;
			else
				passed++;
		}
		closedir(d);
	}
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0 || passed == 0;
}
