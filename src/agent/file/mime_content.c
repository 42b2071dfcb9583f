#include "agent/file/mime.h"
#include "base/base.h"
#include "base/json.h"

/* The type of a file by its first bytes. The order is that of file(1): binary signatures, then the start of a text. */

struct signature {
	size_t at;
	struct str magic;
	const char *mime;
};

static const struct signature signatures[] = {
	{0, STR("\x89PNG\r\n\x1a\n"), "image/png"},
	{0, STR("\xff\xd8\xff"), "image/jpeg"},
	{0, STR("GIF8"), "image/gif"},
	{0, STR("II*\0"), "image/tiff"},
	{0, STR("MM\0*"), "image/tiff"},
	{8, STR("WEBPVP8"), "image/webp"},
	{14, STR("\x28\0\0\0"), "image/bmp"},
	{8, STR("WAVE"), "audio/x-wav"},
	{0, STR("fLaC"), "audio/flac"},
	{0, STR("ID3"), "audio/mpeg"},
	{8, STR("AVI "), "video/x-msvideo"},
	{4, STR("ftypqt  "), "video/quicktime"},
	{4, STR("ftypavif"), "image/avif"},
	{4, STR("ftypheic"), "image/heic"},
	{4, STR("ftyp"), "video/mp4"},
	{0, STR("%PDF-"), "application/pdf"},
	{0, STR("PK\x03\x04"), "application/zip"},
	{0, STR("PK\x05\x06"), "application/zip"},
	{0, STR("\x1f\x8b"), "application/gzip"},
	{0, STR("\x1f\x9d"), "application/x-compress"},
	{0, STR("BZh"), "application/x-bzip2"},
	{0,
		STR("\xfd"
		    "7zXZ\0"),
		"application/x-xz"},
	{0, STR("\x28\xb5\x2f\xfd"), "application/zstd"},
	{0, STR("7z\xbc\xaf\x27\x1c"), "application/x-7z-compressed"},
	{0, STR("Rar!\x1a\x07"), "application/x-rar"},
	{0, STR("!<arch>\ndebian"), "application/vnd.debian.binary-package"},
	{257, STR("ustar"), "application/x-tar"},
	{0,
		STR("\x7f"
		    "ELF"),
		"application/x-executable"},
	{0, STR("\0asm"), "application/wasm"},
	{0, STR("\xca\xfe\xba\xbe"), "application/x-java-applet"},
	{0, STR("SQLite format 3\0"), "application/vnd.sqlite3"},
	{0, STR("\x89HDF\r\n\x1a\n"), "application/x-hdf5"},
	{0, STR("wOFF"), "font/woff"},
	{0, STR("wOF2"), "font/woff2"},
};

/* A signature inside a file counts only if the file begins with its container's word. */
static bool begins_so(struct str head, const struct signature *s)
{
	if (s->at == 8)
		return str_starts(head, STR("RIFF"));
	return s->at != 14 || str_starts(head, STR("BM"));
}

static const char *by_signature(struct str head)
{
	for (size_t i = 0; i < ARRAY_LEN(signatures); i++) {
		const struct signature *s = &signatures[i];
		if (head.n > s->at && str_starts(str_skip(head, s->at), s->magic) && begins_so(head, s))
			return s->mime;
	}
	/* EBML: the kind of document is named in its head. */
	if (str_starts(head, STR("\x1a\x45\xdf\xa3")))
		return memmem(head.p, head.n < 64 ? head.n : 64, "webm", 4) ? "video/webm" : "video/x-matroska";
	return NULL;
}

/* Text as file(1) sees it: UTF-8 without control characters other than the usual ones. */
static bool looks_like_text(struct str s, bool whole)
{
	while (s.n) {
		unsigned char c = (unsigned char)s.p[0];
		if ((c < 0x20 && !strchr("\a\b\t\n\v\f\r\x1b", c)) || c == 0 || c == 0x7f)
			return false;
		int len = str_utf8_len(s);
		if (len < 0)
			return !whole; /* the head ends inside a character */
		if (len == 0)
			return false;
		s = str_skip(s, (size_t)len);
	}
	return true;
}

/* "#!/usr/bin/env python3 -u": the program's name decides. */
static const char *by_interpreter(struct str text)
{
	static const struct {
		const char *name, *mime;
	} known[] = {
		{"sh", "text/x-shellscript"},
		{"bash", "text/x-shellscript"},
		{"dash", "text/x-shellscript"},
		{"ksh", "text/x-shellscript"},
		{"zsh", "text/x-shellscript"},
		{"python", "text/x-script.python"},
		{"node", "application/javascript"},
		{"perl", "text/x-perl"},
		{"ruby", "text/x-ruby"},
		{"awk", "text/x-awk"},
	};
	struct str rest, line = str_trim(str_split(str_skip(text, 2), '\n', &rest));
	struct str program = str_split(line, ' ', &rest);
	if (str_ends(program, STR("/env")))
		program = str_split(str_trim(rest), ' ', &rest);
	const char *slash = program.n ? memrchr(program.p, '/', program.n) : NULL;
	if (slash)
		program = str_skip(program, (size_t)(slash - program.p) + 1);
	while (program.n && strchr("0123456789.", program.p[program.n - 1]))
		program.n--;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq_c(program, known[i].name))
			return known[i].mime;
	return "text/plain";
}

/* An object or array, as far as `text` shows it. */
static bool is_json(struct str text, bool whole)
{
	struct json_parser p;
	struct err e;
	if (!text.n || (text.p[0] != '{' && text.p[0] != '['))
		return false;
	json_parser_init(&p, NULL, NULL);
	return json_feed(&p, text, &e) == 0 && (!whole || json_finish(&p, &e) == 0);
}

/* One value per line; the last line may be cut. */
static bool is_json_lines(struct str text, bool whole)
{
	while (text.n) {
		struct str rest, line = str_split(text, '\n', &rest);
		bool last = line.n == text.n;
		if (!is_json(str_trim(line), !last || whole))
			return false;
		text = rest;
	}
	return true;
}

static struct str skip_blanks(struct str s)
{
	while (s.n && strchr(" \t\r\n", s.p[0]) && s.p[0])
		s = str_skip(s, 1);
	return s;
}

static bool starts_nocase(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq_nocase(str_n(s.p, prefix.n), prefix);
}

static const char *by_text(struct str head, bool whole)
{
	static const struct {
		struct str words;
		const char *mime;
	} known[] = {
		{STR("<!doctype html"), "text/html"},
		{STR("<html"), "text/html"},
		{STR("<svg"), "image/svg+xml"},
		{STR("<?php"), "text/x-php"},
		{STR("{\\rtf"), "text/rtf"},
		{STR("%!PS"), "application/postscript"},
		{STR("BEGIN:VCALENDAR"), "text/calendar"},
		{STR("diff --git "), "text/x-diff"},
	};
	struct str text = skip_blanks(head);
	if (str_starts(head, STR("#!")))
		return by_interpreter(head);
	if (str_starts(text, STR("<?xml")))
		return memmem(text.p, text.n, "<svg", 4) ? "image/svg+xml" : "text/xml";
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (starts_nocase(text, known[i].words))
			return known[i].mime;
	if (is_json(text, whole))
		return "application/json";
	return text.n && text.p[0] == '{' && is_json_lines(text, whole) ? "application/x-ndjson" : "text/plain";
}

const char *mime_of_content(struct str head, bool whole)
{
	if (head.n == 0)
		return "inode/x-empty";
	const char *mime = by_signature(head);
	if (mime)
		return mime;
	return looks_like_text(head, whole) ? by_text(head, whole) : "application/octet-stream";
}
