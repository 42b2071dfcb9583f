/*
 * The packages of an image, from the databases that package managers leave in it. All of them are hostile: a file that
 * is too large, or no regular file, counts as missing, and what cannot be read is left out.
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "mover/mover.h"

struct package_list {
	struct json_writer w;
	size_t n;
};

static void list_add(struct package_list *l, const char *type, struct str name, struct str version)
{
	if (!name.n || !version.n || name.n > MOVER_PART_MAX || version.n > MOVER_PART_MAX || !str_is_utf8(name) ||
		!str_is_utf8(version) || l->n == MOVER_PACKAGES_MAX)
		return;
	l->n++;
	json_object_begin(&l->w);
	json_member_cstr(&l->w, "type", type);
	json_member_str(&l->w, "name", name);
	json_member_str(&l->w, "version", version);
	json_object_end(&l->w);
}

static bool read_regular(const char *path, struct buf *ret)
{
	struct stat st;
	char piece[65536];
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	ret->max = MOVER_DB_MAX;
	for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;)
		if (n < 0 || !buf_add(ret, piece, (size_t)n))
			return false;
	return true;
}

/* Stanzas of "Key: value" lines, divided by empty lines. */
struct stanza {
	const char *name, *version, *state; /* the keys */
	const char *type;
};

static void read_stanzas(struct package_list *l, struct str text, const struct stanza *s)
{
	struct str name = STR_NULL, version = STR_NULL;
	bool there = true;
	while (text.n) {
		struct str line = str_split(text, '\n', &text);
		if (str_starts(line, str_of(s->name)))
			name = str_trim(str_skip(line, strlen(s->name)));
		else if (str_starts(line, str_of(s->version)))
			version = str_trim(str_skip(line, strlen(s->version)));
		else if (s->state && str_starts(line, str_of(s->state)))
			there = str_ends(str_trim(line), STR(" installed"));
		if (line.n && text.n)
			continue;
		if (there)
			list_add(l, s->type, name, version);
		name = version = STR_NULL;
		there = true;
	}
}

static void read_files(struct package_list *l, const char *pattern, const struct stanza *s)
{
	glob_t found;
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		auto_buf struct buf text = {0};
		if (read_regular(found.gl_pathv[i], &text))
			read_stanzas(l, buf_str(&text), s);
	}
	globfree(&found);
}

/* A path that ends with name-version.dist-info, name-version.egg-info or name-version-py3.11.egg-info. */
static void add_python(struct package_list *l, const char *path)
{
	static const struct str ends[] = {{".dist-info", 10}, {".egg-info", 9}};
	const char *slash = strrchr(path, '/');
	struct str rest, file = str_of(slash ? slash + 1 : path);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_ends(file, ends[i]))
			file.n -= ends[i].n;
	struct str name = str_split(file, '-', &rest);
	list_add(l, "pypi", name, str_split(rest, '-', &rest));
}

static void read_python(struct package_list *l, const char *pattern)
{
	glob_t found;
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		add_python(l, found.gl_pathv[i]);
	globfree(&found);
}

static void read_node(struct package_list *l, const char *pattern)
{
	glob_t found;
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		auto_buf struct buf text = {0};
		struct str name = STR_NULL, version = STR_NULL;
		if (!read_regular(found.gl_pathv[i], &text))
			continue;
		auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL);
		if (doc && json_read_str(json_root(doc), "name", &name, NULL) == 0 &&
			json_read_str(json_root(doc), "version", &version, NULL) == 0)
			list_add(l, "npm", name, version);
	}
	globfree(&found);
}

/* Node.js itself is no package of npm's: its headers say its version. */
static void read_runtime(struct package_list *l, const char *path)
{
	static const char *const names[] = {
		"#define NODE_MAJOR_VERSION ", "#define NODE_MINOR_VERSION ", "#define NODE_PATCH_VERSION "};
	auto_buf struct buf text = {0}, version = {0};
	if (!read_regular(path, &text))
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *at = strstr(buf_cstr(&text), names[i]);
		buf_printf(&version, i ? ".%u" : "%u", at ? (unsigned)strtoul(at + strlen(names[i]), NULL, 10) : 0);
	}
	list_add(l, "generic", STR("node"), buf_str(&version));
}

int mover_packages(int argc, char **argv)
{
	static const struct stanza deb = {"Package:", "Version:", "Status:", "deb"}, apk = {"P:", "V:", NULL, "apk"};
	static const char *const python[] = {"/usr/lib/python3*/*-packages/*-info",
		"/usr/local/lib/python3*/*-packages/*-info", "/opt/venv/lib/python3*/site-packages/*-info"};
	static const char *const node[] = {"/usr/local/lib/node_modules/*/package.json",
		"/usr/local/lib/node_modules/@*/*/package.json", "/usr/lib/node_modules/*/package.json",
		"/usr/lib/node_modules/@*/*/package.json"};
	auto_buf struct buf out = {0};
	struct package_list l = {.w = json_writer(&out)};
	(void)argc;
	(void)argv;
	json_array_begin(&l.w);
	read_files(&l, "/var/lib/dpkg/status", &deb);
	read_files(&l, "/var/lib/dpkg/status.d/*", &deb);
	read_files(&l, "/lib/apk/db/installed", &apk);
	for (size_t i = 0; i < ARRAY_LEN(python); i++)
		read_python(&l, python[i]);
	for (size_t i = 0; i < ARRAY_LEN(node); i++)
		read_node(&l, node[i]);
	read_runtime(&l, "/usr/local/include/node/node_version.h");
	json_array_end(&l.w);
	return fd_write_full(1, buf_str(&out).p, buf_size(&out)) < 0;
}
