#include <stdio.h>
#include <sys/stat.h>

#include "agent/api.h"
#include "agent/file/path.h"

/*
 * exists, mkdir and delete. Renames are in api_move.c, contents in api_read.c and api_write.c, lists in api_list.c.
 */

void agent_request_fail_errno(const struct agent_request *r, int os, const char *what, const char *path)
{
	struct err e;
	err_os(&e, errc_from_file_errno(os), os, "%s '%.150s'", what, path);
	agent_request_fail_file(r, &e, path, NULL);
}

void agent_request_done(const struct agent_request *r, const char *path, const char *key, const char *value)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	if (key)
		json_member_cstr(&w, key, value);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

static void answer_flag(const struct agent_request *r, const char *path, const char *key, bool value)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	json_member_cstr(&w, "path", path);
	json_member_bool(&w, key, value);
	json_member_now(&w);
	json_object_end(&w);
	agent_request_json(r, buf_str(&b));
}

void api_exists(struct agent_request *r)
{
	auto_free char *path = NULL;
	struct err e;
	struct stat st;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	answer_flag(r, agent_request_given(r, "path"), "exists", stat(path, &st) == 0);
}

void api_mkdir(struct agent_request *r)
{
	auto_free char *path = NULL;
	bool recursive = false;
	struct err e;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	if (json_read_bool(r->body, "recursive", &recursive, &e) < 0)
		return agent_request_refuse(r, &e);
	int os = recursive ? -path_make_dirs(path) : -path_make_dir(path);
	if (os == EEXIST) {
		/* Upstream's code for an existing directory; its client knows the status. */
		err_os(&e, ERRC_FILESYSTEM_ERROR, os, "mkdir '%.150s'", path);
		return agent_request_fail_file(r, &e, agent_request_given(r, "path"), "\"exitCode\":1");
	}
	if (os)
		return agent_request_fail_errno(r, os, "mkdir", agent_request_given(r, "path"));
	answer_flag(r, agent_request_given(r, "path"), "recursive", recursive);
}

void api_delete(struct agent_request *r)
{
	auto_free char *path = NULL;
	struct err e;
	struct stat st;
	if (agent_request_path(r, "path", &path, &e) < 0)
		return agent_request_refuse(r, &e);
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		err_set(&e, ERRC_IS_DIRECTORY,
			"Cannot delete directory with deleteFile() at '%.100s'. Use exec('rm -rf <path>') instead.",
			agent_request_given(r, "path"));
		return agent_request_fail_file(r, &e, agent_request_given(r, "path"), NULL);
	}
	if (unlink(path) < 0)
		return agent_request_fail_errno(r, errno, "delete", agent_request_given(r, "path"));
	agent_request_done(r, agent_request_given(r, "path"), NULL, NULL);
}
