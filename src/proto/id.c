#include "proto/id.h"

#include "proto/limits.h"
#include <ctype.h>
#include <stdio.h>

static const char *const reserved[] = {"www", "api", "admin", "root", "system", "cloudflare", "workers"};

/* "." and ".." mean a directory to every URL library, which takes them out of the path before it is sent. */
static bool dots_alone(struct str id)
{
	size_t i = 0;
	while (i < id.n && id.p[i] == '.')
		i++;
	return i == id.n;
}

int box_id_check(struct str id, struct err *e)
{
	if (id.n < 1 || id.n > BOX_ID_MAX)
		return err_set(e, ERRC_INVALID_SANDBOX_ID_LENGTH,
			"sandbox id must be 1-%d characters long, this one has %zu", BOX_ID_MAX, id.n);
	if (id.p[0] == '-' || id.p[id.n - 1] == '-')
		return err_set(e, ERRC_INVALID_SANDBOX_ID_HYPHENS, "sandbox id must not start or end with a hyphen");
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] <= ' ' || id.p[i] > '~' || id.p[i] == '/')
			return err_set(e, ERRC_INVALID_SANDBOX_ID_CHARACTERS,
				"sandbox id must be printable ASCII without blanks or '/'; byte %zu is 0x%02x", i + 1,
				(unsigned)(unsigned char)id.p[i]);
	if (dots_alone(id))
		return err_set(e, ERRC_INVALID_SANDBOX_ID_CHARACTERS,
			"sandbox id must not consist of dots alone; choose one with a letter or a digit");
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (str_eq_nocase(id, str_of(reserved[i])))
			return err_set(e, ERRC_RESERVED_SANDBOX_ID, "sandbox id '%s' is reserved", reserved[i]);
	return 0;
}

static bool is_uuid(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? s.p[i] != '-' : !isxdigit((unsigned char)s.p[i]))
			return false;
	return s.n == 36;
}

bool box_id_is_given(struct str id)
{
	static const struct str prefixes[] = {STR("image-"), STR("docker-"), STR("bridge-")};
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_starts(id, prefixes[i]))
			return true;
	return str_starts(id, STR("backup-")) && !is_uuid(str_skip(id, 7));
}

static bool plain(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

void box_id_filename(struct str id, char ret[BOX_FILENAME_MAX])
{
	INVARIANT(id.n <= BOX_ID_MAX);
	size_t n = 0;
	for (size_t i = 0; i < id.n; i++) {
		if (plain(id.p[i]))
			ret[n++] = id.p[i];
		else
			n += (size_t)snprintf(
				ret + n, BOX_FILENAME_MAX - n, "%%%02X", (unsigned)(unsigned char)id.p[i]);
	}
	ret[n] = 0;
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool box_id_from_filename(struct str name, char ret[BOX_ID_MAX + 1])
{
	char id[BOX_ID_MAX + 1];
	size_t n = 0;
	for (size_t i = 0; i < name.n; n++) {
		if (n == BOX_ID_MAX)
			return false;
		if (name.p[i] != '%') {
			id[n] = name.p[i++];
			continue;
		}
		int hi = i + 2 < name.n ? hex_value(name.p[i + 1]) : -1;
		int lo = i + 2 < name.n ? hex_value(name.p[i + 2]) : -1;
		if (hi < 0 || lo < 0)
			return false;
		id[n] = (char)(hi * 16 + lo);
		i += 3;
	}
	id[n] = 0;
	char again[BOX_FILENAME_MAX];
	if (box_id_check(str_n(id, n), NULL) < 0)
		return false;
	box_id_filename(str_n(id, n), again);
	if (!str_eq_c(name, again))
		return false;
	memcpy(ret, id, n + 1);
	return true;
}

bool box_image_name_ok(struct str name)
{
	if (name.n < 1 || name.n > BOX_IMAGE_NAME_MAX || !isalnum((unsigned char)name.p[0]))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!(islower((unsigned char)name.p[i]) || isdigit((unsigned char)name.p[i]) ||
			    strchr("._-", name.p[i])))
			return false;
	return true;
}

bool snapshot_name_ok(struct str name)
{
	if (name.n < 1 || name.n > SNAPSHOT_NAME_MAX || name.p[0] == '-')
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!islower((unsigned char)name.p[i]) && !isdigit((unsigned char)name.p[i]) && name.p[i] != '-')
			return false;
	return true;
}

bool volume_name_ok(struct str name)
{
	_Static_assert(VOLUME_NAME_MAX == BOX_IMAGE_NAME_MAX, "both names have one rule");
	return box_image_name_ok(name);
}

bool volume_name_is_given(struct str name)
{
	return str_starts(name, STR("atoll.build."));
}

static bool part_ok(struct str part)
{
	if (!part.n || str_eq_c(part, ".") || str_eq_c(part, ".."))
		return false;
	for (size_t i = 0; i < part.n; i++)
		if ((unsigned char)part.p[i] < ' ' || part.p[i] == 127)
			return false;
	return true;
}

static bool is_or_in(struct str path, struct str above)
{
	return str_starts(path, above) && (path.n == above.n || path.p[above.n] == '/');
}

bool volume_paths_overlap(struct str a, struct str b)
{
	return is_or_in(a, b) || is_or_in(b, a);
}

bool volume_path_ok(struct str path)
{
	static const struct str kernels[] = {STR("/proc"), STR("/dev"), STR("/sys")};
	if (path.n < 2 || path.n > VOLUME_PATH_MAX || path.p[0] != '/' || path.p[path.n - 1] == '/')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kernels); i++)
		if (is_or_in(path, kernels[i]))
			return false;
	struct str rest = str_skip(path, 1);
	while (rest.n)
		if (!part_ok(str_split(rest, '/', &rest)))
			return false;
	return true;
}
