/*
 * docker.c - the docker commands that `wrangler dev` and its plugin for Vite call, on Atoll's Docker socket.
 *
 * It is called by its own name through WRANGLER_DOCKER_BIN, or as `docker` after `atoll docker install`. It asks the
 * daemon over $ATOLL_RUN/docker.sock, or the socket that --host or DOCKER_HOST names. Images are built and pulled by
 * `atoll build` and `atoll pull`, on the daemon whose socket it is.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/docker/docker.h"
#include "cli/docker/words.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, NAME_LENGTH = 256 };

static const char *self = "atoll-docker";
static char sock_path[108];

static const char about[] = "usage: atoll-docker [--host unix://PATH] COMMAND\n"
			    "\n"
			    "The docker commands that 'wrangler dev' needs, with sandboxes of Atoll as containers:\n";
static const char hint[] = "\n  WRANGLER_DOCKER_BIN=$(command -v atoll-docker) npx wrangler dev\n";

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

/* One request. By HTTP/1.0 the answer ends with the connection and has no chunks; an answer that was cut off is no JSON.
 * The status, or -1 after a message. */
static int ask(const char *method, const char *target, struct str body, struct buf *ret)
{
	auto_buf struct buf out = {0}, in = {.max = ANSWER_MAX};
	char chunk[16384];
	ssize_t n;
	int fd = connect_daemon(), status = 0;
	if (fd < 0)
		return -1;
	buf_printf(&out, "%s %s HTTP/1.0\r\nHost: docker\r\nContent-Length: %zu\r\n\r\n", method, target, body.n);
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

static int context_ls(const struct command_words *w)
{
	auto_buf struct buf out = {0};
	auto_free char *endpoint = xasprintf("unix://%s", sock_path);
	const char *format = words_value(w, "--format");
	if (format && strcmp(format, "json") != 0 && strcmp(format, "{{json .}}") != 0)
		return fail("context ls: unknown format '%s'", format);
	struct json_writer j = json_writer(&out);
	json_object_begin(&j);
	json_member_bool(&j, "Current", true);
	json_member_cstr(&j, "Description", "Atoll");
	json_member_cstr(&j, "DockerEndpoint", endpoint);
	json_member_cstr(&j, "Error", "");
	json_member_cstr(&j, "Name", "atoll");
	json_object_end(&j);
	puts(buf_cstr(&out));
	return 0;
}

static int info(const struct command_words *w)
{
	auto_buf struct buf body = {0};
	const char *format = words_value(w, "--format") ? words_value(w, "--format") : words_value(w, "-f");
	if (format && strcmp(format, "{{json .SecurityOptions}}") != 0 && strcmp(format, "{{json .DriverStatus}}") != 0)
		return fail("info: unknown format '%s'", format);
	if (call("GET", "/info", STR_NULL, &body))
		return 1;
	puts(format ? "[]" : "Server: Atoll");
	return 0;
}

/* ---- the image builder, which `atoll` knows how to speak to ---- */

/* Runs this program as `atoll`, on the daemon of the Docker socket. Its exit code. */
static int run_atoll(char **argv)
{
	static const char program[] = "/proc/self/exe";
	char run[sizeof sock_path];
	int status = 0;
	snprintf(run, sizeof run, "%s", sock_path);
	*strrchr(run, '/') = 0;
	argv[0] = (char *)"atoll";
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		/* Who ends this program alone ends the build, too. */
		prctl(PR_SET_PDEATHSIG, SIGTERM);
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

struct docker_build {
	char *argv[2 * WORDS_MAX + 16]; /* of `atoll build` */
	size_t argc;
};

static void add(struct docker_build *b, const char *word)
{
	if (b->argc < ARRAY_LEN(b->argv) - 1)
		b->argv[b->argc++] = (char *)word;
}

/* The platform is the host's, the network that of the image builder; the output is always the daemon's. */
static int build(const struct command_words *w)
{
	static const char *const passed[] = {"-f", "--file", "--build-arg", "--target", "--secret"};
	struct docker_build b = {.argv = {NULL, (char *)"build"}, .argc = 2};
	const char *tag = words_value(w, "-t") ? words_value(w, "-t") : words_value(w, "--tag");
	char image[NAME_LENGTH];
	if (!tag)
		return fail("build needs -t TAG");
	for (size_t i = 0; i < w->options_n; i++)
		for (size_t k = 0; k < ARRAY_LEN(passed); k++)
			if (option_is(&w->options[i], passed[k])) {
				add(&b, passed[k]);
				add(&b, w->options[i].value);
			}
	if (words_value(w, "--no-cache"))
		add(&b, "--no-cache");
	/* Tags belong to their user. */
	if (snprintf(image, sizeof image, "docker-%u/%s", (unsigned)getuid(), tag) >= (int)sizeof image)
		return fail("build: the tag is too long");
	add(&b, "-t");
	add(&b, image);
	add(&b, w->v[0]);
	int code = run_atoll(b.argv);
	return code ? code : name_image(tag, image);
}

static int pull(const struct command_words *w)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *image = w->v[0];
	buf_add_c(&target, "/images/create?fromImage=");
	encode(&target, image);
	int status = ask("POST", buf_cstr(&target), STR_NULL, &answer);
	if (status == 200 || status < 0)
		return status != 200;
	char *words[] = {NULL, (char *)"pull", (char *)image, NULL};
	int code = run_atoll(words);
	return code ? code : name_image(image, image);
}

static int tag(const struct command_words *w)
{
	auto_buf struct buf target = {0}, answer = {0};
	buf_add_c(&target, "/images/");
	encode(&target, w->v[0]);
	buf_add_c(&target, "/tag?repo=");
	encode(&target, w->v[1]);
	return call("POST", buf_cstr(&target), STR_NULL, &answer);
}

/* ---- lists ---- */

/* {"label":["a=b"]} of --filter label=a=b; 1 after a message. */
static int add_filters(const struct command_words *w, struct buf *target)
{
	static const char *const known[] = {"ancestor", "id", "label", "name", "status"};
	auto_buf struct buf filters = {0};
	struct json_writer j = json_writer(&filters);
	size_t n = 0, asked = 0;
	json_object_begin(&j);
	for (size_t k = 0; k < ARRAY_LEN(known); k++) {
		bool any = false;
		for (size_t i = 0; i < w->options_n; i++) {
			const char *value = w->options[i].value;
			size_t length = strlen(known[k]);
			if (!(option_is(&w->options[i], "--filter") || option_is(&w->options[i], "-f")) ||
				strncmp(value, known[k], length) != 0 || value[length] != '=')
				continue;
			if (!any) {
				json_key(&j, known[k]);
				json_array_begin(&j);
			}
			any = true;
			n++;
			json_cstr(&j, value + length + 1);
		}
		if (any)
			json_array_end(&j);
	}
	json_object_end(&j);
	for (size_t i = 0; i < w->options_n; i++)
		asked += option_is(&w->options[i], "--filter") || option_is(&w->options[i], "-f");
	if (asked != n)
		return fail("unknown filter '%s'",
			words_value(w, "--filter") ? words_value(w, "--filter") : words_value(w, "-f"));
	if (n) {
		buf_add_c(target, strchr(buf_cstr(target), '?') ? "&filters=" : "?filters=");
		encode(target, buf_cstr(&filters));
	}
	return 0;
}

/* The member that a format prints; NULL: it is no such format. */
static const char *member_of(const char *format)
{
	static const char *const known[][2] = {{"{{.ID}}", "Id"}, {"{{.Image}}", "Image"}, {"{{.State}}", "State"},
		{"{{.Names}}", "Names"}, {"{{.Name}}", "Name"}};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(format, known[i][0]) == 0)
			return known[i][1];
	return NULL;
}

static struct str text_of(const struct json *c, const char *member)
{
	const struct json *v = json_get(c, member);
	v = v && v->type == JSON_T_ARRAY ? v->first : v;
	struct str text = v ? v->text : STR_NULL;
	return text.n && text.p[0] == '/' ? str_skip(text, 1) : text;
}

static int ps(const struct command_words *w)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *format = words_value(w, "--format");
	const char *member = words_have(w, "-q", "--quiet") ? "Id" : format ? member_of(format) : NULL;
	if (format && !member)
		return fail("ps: unknown format '%s'", format);
	buf_printf(&target, "/containers/json?all=%d", words_have(w, "-a", "--all"));
	if (add_filters(w, &target) || call("GET", buf_cstr(&target), STR_NULL, &answer))
		return 1;
	auto_json struct json_doc *doc = json_parse(buf_str(&answer), NULL);
	if (!member)
		printf("%-12s  %-40s  %-8s  %s\n", "CONTAINER ID", "IMAGE", "STATE", "NAMES");
	json_each(c, doc ? json_root(doc) : NULL)
	{
		if (member)
			printf("%.*s\n", STR_ARG(text_of(c, member)));
		else
			printf("%.12s  %-40.*s  %-8.*s  %.*s\n", text_of(c, "Id").p, STR_ARG(text_of(c, "Image")),
				STR_ARG(text_of(c, "State")), STR_ARG(text_of(c, "Names")));
	}
	return 0;
}

static int volume_ls(const struct command_words *w)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *format = words_value(w, "--format");
	if (format && strcmp(format, "{{.Name}}") != 0)
		return fail("volume ls: unknown format '%s'", format);
	buf_add_c(&target, "/volumes");
	if (add_filters(w, &target) || call("GET", buf_cstr(&target), STR_NULL, &answer))
		return 1;
	auto_json struct json_doc *doc = json_parse(buf_str(&answer), NULL);
	if (!format && !words_have(w, "-q", "--quiet"))
		puts("VOLUME NAME");
	json_each(v, doc ? json_get(json_root(doc), "Volumes") : NULL) printf("%.*s\n", STR_ARG(text_of(v, "Name")));
	return 0;
}

/* ---- removal ---- */

static int remove_each(const struct command_words *w, const char *prefix, const char *query)
{
	int code = 0;
	for (size_t i = 0; i < w->n; i++) {
		auto_buf struct buf target = {0}, answer = {0};
		buf_add_c(&target, prefix);
		encode(&target, w->v[i]);
		buf_add_c(&target, query);
		if (call("DELETE", buf_cstr(&target), STR_NULL, &answer))
			code = 1;
		else
			puts(w->v[i]);
	}
	return code;
}

/* The sidecar of a container that the user removes goes with it: no one else would remove it. */
static int rm(const struct command_words *w)
{
	return remove_each(
		w, "/containers/", words_have(w, "-f", "--force") ? "?force=1&sidecar=1" : "?force=0&sidecar=1");
}

static int rmi(const struct command_words *w)
{
	return remove_each(w, "/images/", "");
}

static int volume_rm(const struct command_words *w)
{
	return remove_each(w, "/volumes/", "");
}

/* ---- the rest ---- */

static int image_inspect(const struct command_words *w)
{
	auto_buf struct buf target = {0}, answer = {0};
	const char *format = words_value(w, "--format") ? words_value(w, "--format") : words_value(w, "-f");
	if (format && !strstr(format, "ExposedPorts") && !strstr(format, "RepoTags"))
		return fail("image inspect: unknown format '%s'", format);
	buf_add_c(&target, "/images/");
	encode(&target, w->v[0]);
	buf_add_c(&target, "/json");
	if (call("GET", buf_cstr(&target), STR_NULL, &answer))
		return 1;
	if (format)
		puts(strstr(format, "ExposedPorts") ? "1" : w->v[0]);
	else
		printf("[%s]\n", buf_cstr(&answer));
	return 0;
}

static int version(const struct command_words *w)
{
	(void)w;
	puts("Atoll " ATOLL_VERSION " (atoll-docker)");
	return 0;
}

static int login(const struct command_words *w)
{
	(void)w;
	return fail("registries are not supported; name cloudflare/sandbox, or a Dockerfile");
}

/* ---- the command line ---- */

/* Flags have a blank before and behind each. A switch may have a value behind '='. */
static const struct command {
	const char *name, *usage;
	int (*run)(const struct command_words *w);
	const char *switches, *valued;
	size_t min, max; /* arguments */
} commands[] = {{"context ls", "[--format json]", context_ls, "", " --format ", 0, 0},
	{"info", "[--format FORMAT]", info, "", " --format -f ", 0, 0}, {"version", "", version, "", "", 0, 0},
	{"build",
		"-t TAG [-f FILE] [--build-arg NAME=VALUE]... [--target STAGE] [--secret SECRET]... [--no-cache] "
		"DIRECTORY",
		build, " --load --provenance --sbom --no-cache ",
		" -t --tag -f --file --build-arg --target --secret --platform --network --output --progress --label ",
		1, 1},
	{"pull", "IMAGE", pull, "", " --platform ", 1, 1}, {"tag", "IMAGE TAG", tag, "", "", 2, 2},
	{"ps", "[-a] [-q] [--filter ancestor=TAG] [--filter label=NAME=VALUE] [--format FORMAT]", ps,
		" -a --all -q --quiet --no-trunc ", " --filter -f --format ", 0, 0},
	{"rm", "[-f] CONTAINER...", rm, " -f --force ", "", 1, WORDS_MAX},
	{"image inspect", "IMAGE [--format FORMAT]", image_inspect, "", " --format -f ", 1, 1},
	{"rmi", "IMAGE...", rmi, " -f --force ", "", 1, WORDS_MAX},
	{"image rm", "IMAGE...", rmi, " -f --force ", "", 1, WORDS_MAX},
	{"volume ls", "[-q] [--filter label=NAME=VALUE]", volume_ls, " -q --quiet ", " --filter -f --format ", 0, 0},
	{"volume rm", "VOLUME...", volume_rm, " -f --force ", "", 1, WORDS_MAX},
	{"login", NULL, login, " --password-stdin ", " --username -u --password -p ", 0, 1}};

static int help(void)
{
	fputs(about, stdout);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].usage)
			printf("  %s %s\n", commands[i].name, commands[i].usage);
	fputs(hint, stdout);
	return 0;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	static struct command_words w;
	char why[200];
	enum words_result r = words_read(&w, argc, argv, c->switches, c->valued, why, sizeof why);
	if (r == WORDS_HELP) {
		printf("usage: %s %s %s\n", self, c->name, c->usage ? c->usage : "");
		return 0;
	}
	if (r == WORDS_WRONG)
		return fail("%s: %s", c->name, why);
	if (w.n < c->min || w.n > c->max)
		return fail("%s: %s\n  usage: %s %s %s", c->name,
			w.n < c->min ? "an argument is missing" : "too many arguments", self, c->name,
			c->usage ? c->usage : "");
	return c->run(&w);
}

/* The words of its name that stand in front: 0, it is not this command. */
static int matches(const struct command *c, int argc, char **argv)
{
	const char *blank = strchr(c->name, ' ');
	size_t first = strcspn(c->name, " ");
	if (argc < 1 || strlen(argv[0]) != first || strncmp(argv[0], c->name, first) != 0)
		return 0;
	if (!blank)
		return 1;
	return argc > 1 && strcmp(argv[1], blank + 1) == 0 ? 2 : 0;
}

/* --host X, -H X, --host=X; the number of words, or -1 after a message. */
static int read_host(int argc, char **argv)
{
	int n = 0;
	while (n < argc && (words_list_has(" --host -H ", argv[n]))) {
		const char *equals = strchr(argv[n], '=');
		if (!equals && n + 1 >= argc)
			return -fail("%s needs a value", argv[n]);
		if (use_host(equals ? equals + 1 : argv[n + 1]))
			return -1;
		n += equals ? 1 : 2;
	}
	return n;
}

int docker_main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	self = slash ? slash + 1 : argc ? argv[0] : self;
	int i = 1 + read_host(argc - 1, argv + 1), n;
	if (i < 1 || find_socket())
		return 1;
	if (i < argc && (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-v") == 0))
		return version(NULL);
	if (i < argc && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "help") == 0))
		return help();
	for (size_t k = 0; k < ARRAY_LEN(commands); k++)
		if ((n = matches(&commands[k], argc - i, argv + i)))
			return run_command(&commands[k], argc - i - n, argv + i + n);
	/* A command of two words is named whole. */
	bool two = i + 1 < argc && words_list_has(" context image volume ", argv[i]);
	if (i < argc)
		fail("unknown command '%s%s%s'", argv[i], two ? " " : "", two ? argv[i + 1] : "");
	fprintf(stderr, "'%s --help' lists the commands\n", self);
	return 2;
}
