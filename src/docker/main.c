/*
 * atoll-docker - the docker commands that `wrangler dev` and its plugin for Vite call, on Atoll's Docker socket.
 *
 * It is called by its own name through WRANGLER_DOCKER_BIN, or as `docker` after `atoll docker install`. It asks the
 * daemon over $ATOLL_RUN/docker.sock, or the socket that --host or DOCKER_HOST names. Images are built and pulled by
 * `atoll build` and `atoll pull`, on the daemon whose socket it is.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, ARGS_MAX = 256, NAME_LENGTH = 256 };

static const char *self = "atoll-docker";
static char sock_path[108];

static const char usage[] =
	"usage: atoll-docker [--host unix://PATH] COMMAND\n"
	"\n"
	"The docker commands that 'wrangler dev' needs, with sandboxes of Atoll as containers:\n"
	"  context ls   info   version   build -t TAG -f - DIRECTORY   pull IMAGE   tag IMAGE TAG\n"
	"  ps [-a] [--filter ancestor=TAG]   rm [-f] CONTAINER...   image inspect IMAGE   rmi IMAGE...\n"
	"\n"
	"  WRANGLER_DOCKER_BIN=$(command -v atoll-docker) npx wrangler dev\n";

static PRINTF_LIKE(1, 2) int fail(const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "%s: ", self);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

/* ---- the daemon ---- */

static int use_host(const char *host)
{
	if (strncmp(host, "unix://", 7) == 0)
		host += 7;
	if (host[0] != '/' || strlen(host) >= sizeof sock_path)
		return fail("'%s' is no unix:///path", host);
	snprintf(sock_path, sizeof sock_path, "%s", host);
	return 0;
}

static int find_socket(void)
{
	const char *host = getenv("DOCKER_HOST"), *run = getenv("ATOLL_RUN");
	if (sock_path[0])
		return 0;
	if (host && *host)
		return use_host(host);
	snprintf(sock_path, sizeof sock_path, "%.80s/docker.sock", run && *run ? run : "/run/atoll");
	return 0;
}

static int connect_daemon(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	memcpy(at.sun_path, sock_path, sizeof at.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
		return fd;
	fprintf(stderr, "%s: cannot reach Atoll at %s: %s%s\n", self, sock_path, strerror(errno),
		errno == EACCES ? " (your user must be in the group atoll)" : " ('atoll up' starts it)");
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool send_all(int fd, struct str s)
{
	while (s.n) {
		ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		s = str_skip(s, n > 0 ? (size_t)n : 0);
	}
	return true;
}

/* One request; the daemon closes behind its answer. The status, or -1 after a message. */
static int ask(const char *method, const char *target, struct str body, struct buf *ret)
{
	auto_buf struct buf out = {0}, in = {.max = ANSWER_MAX};
	char chunk[16384];
	ssize_t n;
	int fd = connect_daemon(), status = 0;
	if (fd < 0)
		return -1;
	buf_printf(&out, "%s %s HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", method,
		target, body.n);
	buf_add_str(&out, body);
	if (send_all(fd, buf_str(&out)))
		while ((n = read(fd, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
			if (n > 0)
				buf_add(&in, chunk, (size_t)n);
	close(fd);
	struct str all = buf_str(&in);
	const char *end = all.n ? memmem(all.p, all.n, "\r\n\r\n", 4) : NULL;
	if (!end || sscanf(buf_cstr(&in), "HTTP/1.%*d %d", &status) != 1)
		return -fail("the daemon gave no answer to %s", target);
	buf_clear(ret);
	buf_add_str(ret, str_skip(all, (size_t)(end + 4 - all.p)));
	return status;
}

/* The same; other answers than 2xx are told. 0 or 1, as an exit code. */
static int call(const char *method, const char *target, struct str body, struct buf *ret)
{
	int status = ask(method, target, body, ret);
	struct str message = STR_NULL;
	if (status >= 200 && status < 300)
		return 0;
	if (status < 0)
		return 1;
	struct json_doc *doc = json_parse(buf_str(ret), NULL);
	if (doc && json_root(doc)->type == JSON_T_OBJECT)
		json_read_str(json_root(doc), "message", &message, NULL);
	fprintf(stderr, "%s: %.*s\n", self, STR_ARG(message.p ? message : STR("the daemon refused")));
	json_free(doc);
	return 1;
}

static void encode(struct buf *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	for (; *text; text++)
		if (strchr(plain, *text))
			buf_add_byte(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned char)*text);
}

/* ---- commands ---- */

static int context(int argc, char **argv)
{
	if (argc < 1 || strcmp(argv[0], "ls") != 0)
		return fail("unknown command: context %s", argc ? argv[0] : "");
	find_socket();
	printf("{\"Current\":true,\"Description\":\"Atoll\",\"DockerEndpoint\":\"unix://"
	       "%s\",\"Error\":\"\",\"Name\":\"atoll\"}\n",
		sock_path);
	return 0;
}

static const char *option_value(int argc, char **argv, const char *name)
{
	size_t n = strlen(name);
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], name) == 0 && i + 1 < argc)
			return argv[i + 1];
		if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
			return argv[i] + n + 1;
	}
	return NULL;
}

static int info(int argc, char **argv)
{
	auto_buf struct buf body = {0};
	const char *format = option_value(argc, argv, "--format");
	if (call("GET", "/info", STR_NULL, &body))
		return 1;
	if (format && strcmp(format, "{{json .SecurityOptions}}") != 0 && strcmp(format, "{{json .DriverStatus}}") != 0)
		return fail("unknown format '%s'", format);
	printf("%s\n", format ? "[]" : "Server: Atoll");
	return 0;
}

/* ---- the image builder, which `atoll` knows how to speak to ---- */

/* Runs the `atoll` beside this program, on the daemon of the Docker socket. Its exit code. */
static int run_atoll(char **argv)
{
	char program[PATH_MAX], run[sizeof sock_path];
	int status = 0;
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 8);
	program[n > 0 ? n : 0] = 0;
	char *slash = strrchr(program, '/');
	if (!slash)
		return fail("the path of this program is not known");
	snprintf(slash, 8, "/atoll");
	snprintf(run, sizeof run, "%s", sock_path);
	*strrchr(run, '/') = 0;
	argv[0] = (char *)"atoll";
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("ATOLL_RUN", run, 1);
		unsetenv("ATOLL_URL");
		unsetenv("ATOLL_TOKEN");
		execv(program, argv);
		_exit(fail("cannot start %s: %s", program, strerror(errno)));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Tells the socket that `tag` stands for an image of Atoll. */
static int name_image(const char *tag, const char *image)
{
	auto_buf struct buf target = {0}, json = {0}, answer = {0};
	struct json_writer w = json_writer(&json);
	json_object_begin(&w);
	json_member_cstr(&w, "image", image);
	json_object_end(&w);
	buf_add_c(&target, "/atoll/images?t=");
	encode(&target, tag);
	return call("POST", buf_cstr(&target), buf_str(&json), &answer);
}

struct build {
	const char *tag, *context;
	char *argv[2 * ARGS_MAX]; /* of `atoll build` */
	size_t argc;
};

static void add(struct build *b, const char *word)
{
	if (b->argc < ARRAY_LEN(b->argv) - 8)
		b->argv[b->argc++] = (char *)word;
}

static int read_build(int argc, char **argv, struct build *b)
{
	static const char *const ignored[] = {"--platform", "--network", "--output", "--progress", "--label"};
	static const char *const passed[] = {"-f", "--file", "--build-arg", "--target", "--secret"};
	for (int i = 0; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		bool skip = false, pass = false;
		for (size_t k = 0; k < ARRAY_LEN(ignored); k++)
			skip |= strncmp(a, ignored[k], strlen(ignored[k])) == 0;
		for (size_t k = 0; k < ARRAY_LEN(passed); k++)
			pass |= strcmp(a, passed[k]) == 0;
		bool names = strcmp(a, "-t") == 0 || strcmp(a, "--tag") == 0;
		if ((pass || names || (skip && !strchr(a, '='))) && !value)
			return fail("build: %s needs a value", a);
		if (names)
			b->tag = argv[++i];
		else if (pass) {
			add(b, a);
			add(b, argv[++i]);
		} else if (strcmp(a, "--no-cache") == 0)
			add(b, a);
		else if (skip)
			i += !strchr(a, '=');
		else if (strcmp(a, "--load") == 0 || strncmp(a, "--provenance", 12) == 0)
			continue;
		else if (a[0] == '-' && a[1])
			return fail("build: unknown flag '%s'", a);
		else
			b->context = a;
	}
	return b->tag && b->context ? 0 : fail("build needs -t TAG and a directory");
}

static int build(int argc, char **argv)
{
	struct build b = {.argv = {NULL, (char *)"build"}, .argc = 2};
	char image[NAME_LENGTH];
	if (argc > ARGS_MAX)
		return fail("build: more than %d words", ARGS_MAX);
	if (read_build(argc, argv, &b))
		return 1;
	/* Tags belong to their user. */
	int n = snprintf(image, sizeof image, "docker-%u/%s", (unsigned)getuid(), b.tag);
	if (n >= (int)sizeof image)
		return fail("build: the tag is too long");
	add(&b, "-t");
	add(&b, image);
	add(&b, b.context);
	int code = run_atoll(b.argv);
	return code ? code : name_image(b.tag, image);
}

static int pull(int argc, char **argv)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *image = NULL;
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--platform") == 0)
			i++;
		else if (argv[i][0] != '-')
			image = argv[i];
	if (!image)
		return fail("pull needs an image");
	buf_add_c(&target, "/images/create?fromImage=");
	encode(&target, image);
	int status = ask("POST", buf_cstr(&target), STR_NULL, &answer);
	if (status == 200 || status < 0)
		return status != 200;
	char *words[] = {NULL, (char *)"pull", (char *)image, NULL};
	int code = run_atoll(words);
	return code ? code : name_image(image, image);
}

static int tag(int argc, char **argv)
{
	auto_buf struct buf target = {0}, answer = {0};
	if (argc != 2)
		return fail("tag needs an image and a name");
	buf_add_c(&target, "/images/");
	encode(&target, argv[0]);
	buf_add_c(&target, "/tag?repo=");
	encode(&target, argv[1]);
	return call("POST", buf_cstr(&target), STR_NULL, &answer);
}

static int ps(int argc, char **argv)
{
	auto_buf struct buf target = {0}, answer = {0}, filters = {0};
	const char *filter = option_value(argc, argv, "--filter"), *format = option_value(argc, argv, "--format");
	bool all = false;
	for (int i = 0; i < argc; i++)
		all |= strcmp(argv[i], "-a") == 0 || strcmp(argv[i], "--all") == 0;
	buf_printf(&target, "/containers/json?all=%d", all);
	if (filter && strncmp(filter, "ancestor=", 9) != 0)
		return fail("ps: unknown filter '%s'", filter);
	if (filter) {
		struct json_writer w = json_writer(&filters);
		json_object_begin(&w);
		json_key(&w, "ancestor");
		json_array_begin(&w);
		json_cstr(&w, filter + 9);
		json_array_end(&w);
		json_object_end(&w);
		buf_add_c(&target, "&filters=");
		encode(&target, buf_cstr(&filters));
	}
	if (call("GET", buf_cstr(&target), STR_NULL, &answer))
		return 1;
	struct json_doc *doc = json_parse(buf_str(&answer), NULL);
	if (!format)
		printf("%-12s  %-40s  %s\n", "CONTAINER ID", "IMAGE", "STATE");
	json_each(c, doc ? json_root(doc) : NULL)
	{
		struct str id = STR_NULL, image = STR_NULL, state = STR_NULL;
		json_read_str(c, "Id", &id, NULL);
		json_read_str(c, "Image", &image, NULL);
		json_read_str(c, "State", &state, NULL);
		if (format)
			printf("%.*s\n", STR_ARG(id));
		else
			printf("%.12s  %-40.*s  %.*s\n", id.p, STR_ARG(image), STR_ARG(state));
	}
	json_free(doc);
	return 0;
}

/* The sidecar of a container that the user removes goes with it: no one else would remove it. */
static int rm(int argc, char **argv)
{
	bool force = false;
	int code = 0;
	for (int i = 0; i < argc; i++)
		force |= strcmp(argv[i], "-f") == 0 || strcmp(argv[i], "--force") == 0;
	for (int i = 0; i < argc; i++) {
		auto_buf struct buf target = {0}, answer = {0};
		if (argv[i][0] == '-')
			continue;
		buf_add_c(&target, "/containers/");
		encode(&target, argv[i]);
		buf_printf(&target, "?force=%d&sidecar=1", force);
		if (call("DELETE", buf_cstr(&target), STR_NULL, &answer))
			code = 1;
		else
			puts(argv[i]);
	}
	return code;
}

static int rmi(int argc, char **argv)
{
	int code = 0;
	for (int i = 0; i < argc; i++) {
		auto_buf struct buf target = {0}, answer = {0};
		if (argv[i][0] == '-')
			continue;
		buf_add_c(&target, "/images/");
		encode(&target, argv[i]);
		code |= call("DELETE", buf_cstr(&target), STR_NULL, &answer);
	}
	return code;
}

static int image(int argc, char **argv)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *format = option_value(argc, argv, "--format");
	if (argc < 2 || strcmp(argv[0], "inspect") != 0)
		return fail("unknown command: image %s", argc ? argv[0] : "");
	buf_add_c(&target, "/images/");
	encode(&target, argv[1]);
	buf_add_c(&target, "/json");
	if (call("GET", buf_cstr(&target), STR_NULL, &answer))
		return 1;
	if (format && strstr(format, "ExposedPorts"))
		puts("1");
	else if (format)
		puts(argv[1]);
	else
		printf("[%s]\n", buf_cstr(&answer));
	return 0;
}

static int version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("Atoll " ATOLL_VERSION " (atoll-docker)");
	return 0;
}

static int login(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return fail("registries are not supported; name cloudflare/sandbox, or a Dockerfile");
}

/* The flags of a command, each with a blank before and behind; NULL: it looks itself. */
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *switches, *valued;
} commands[] = {{"context", context, "", " --format "}, {"info", info, "", " --format -f "},
	{"build", build, NULL, NULL}, {"pull", pull, "", " --platform "}, {"tag", tag, "", ""},
	{"ps", ps, " -a --all ", " --filter --format "}, {"rm", rm, " -f --force ", ""},
	{"rmi", rmi, " -f --force ", ""}, {"image", image, "", " --format "}, {"version", version, NULL, NULL},
	{"login", login, NULL, NULL}};

/* The name before '='. */
static bool is_among(const char *names, const char *flag)
{
	char word[40];
	int n = snprintf(word, sizeof word, " %.*s ", (int)strcspn(flag, "="), flag);
	return n < (int)sizeof word && strstr(names, word);
}

static int check_flags(const struct command *c, int argc, char **argv)
{
	for (int i = 0; c->switches && i < argc; i++) {
		if (argv[i][0] != '-' || is_among(c->switches, argv[i]))
			continue;
		if (!is_among(c->valued, argv[i]))
			return fail("%s: unknown flag '%s'", c->name, argv[i]);
		if (!strchr(argv[i], '=') && ++i >= argc)
			return fail("%s: %s needs a value", c->name, argv[i - 1]);
	}
	return 0;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	return check_flags(c, argc, argv) ? 1 : c->run(argc, argv);
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	int i = 1;
	self = slash ? slash + 1 : argv[0];
	if (i + 1 < argc && (strcmp(argv[i], "--host") == 0 || strcmp(argv[i], "-H") == 0)) {
		if (use_host(argv[i + 1]))
			return 1;
		i += 2;
	}
	if (find_socket())
		return 1;
	if (i < argc && strcmp(argv[i], "--version") == 0)
		return version(0, NULL);
	for (size_t k = 0; i < argc && k < ARRAY_LEN(commands); k++)
		if (strcmp(argv[i], commands[k].name) == 0)
			return run_command(&commands[k], argc - i - 1, argv + i + 1);
	bool help = i < argc && strcmp(argv[i], "--help") == 0;
	if (i < argc && !help)
		fail("unknown command '%s'", argv[i]);
	fputs(usage, help ? stdout : stderr);
	return help ? 0 : 2;
}
