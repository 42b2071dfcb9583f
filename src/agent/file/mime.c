#include "agent/file/mime.h"

#include "base/base.h"

struct extension {
	const char *name, *mime;
};

static const struct extension extensions[] = {
	{"txt", "text/plain"},
	{"text", "text/plain"},
	{"log", "text/plain"},
	{"conf", "text/plain"},
	{"ini", "text/plain"},
	{"md", "text/markdown"},
	{"markdown", "text/markdown"},
	{"html", "text/html"},
	{"htm", "text/html"},
	{"css", "text/css"},
	{"csv", "text/csv"},
	{"tsv", "text/tab-separated-values"},
	{"js", "text/javascript"},
	{"mjs", "text/javascript"},
	{"cjs", "text/javascript"},
	{"jsx", "text/javascript"},
	{"ts", "text/javascript"},
	{"tsx", "text/javascript"},
	{"mts", "text/javascript"},
	{"cts", "text/javascript"},
	{"py", "text/x-python"},
	{"c", "text/x-c"},
	{"h", "text/x-c"},
	{"cc", "text/x-c"},
	{"cpp", "text/x-c"},
	{"hpp", "text/x-c"},
	{"java", "text/x-java-source"},
	{"rs", "text/x-rust"},
	{"go", "text/x-go"},
	{"rb", "text/x-ruby"},
	{"ics", "text/calendar"},
	{"vtt", "text/vtt"},
	{"json", "application/json"},
	{"map", "application/json"},
	{"jsonl", "application/jsonl"},
	{"ipynb", "application/x-ipynb+json"},
	{"webmanifest", "application/manifest+json"},
	{"geojson", "application/geo+json"},
	{"xml", "application/xml"},
	{"xsl", "application/xml"},
	{"rss", "application/rss+xml"},
	{"atom", "application/atom+xml"},
	{"yaml", "application/yaml"},
	{"yml", "application/yaml"},
	{"toml", "application/toml"},
	{"sql", "application/sql"},
	{"sh", "application/x-sh"},
	{"bash", "application/x-sh"},
	{"tex", "application/x-tex"},
	{"php", "application/x-httpd-php"},
	{"svg", "image/svg+xml"},
	{"png", "image/png"},
	{"jpg", "image/jpeg"},
	{"jpeg", "image/jpeg"},
	{"gif", "image/gif"},
	{"webp", "image/webp"},
	{"avif", "image/avif"},
	{"bmp", "image/bmp"},
	{"ico", "image/x-icon"},
	{"tif", "image/tiff"},
	{"tiff", "image/tiff"},
	{"mp3", "audio/mpeg"},
	{"wav", "audio/wav"},
	{"ogg", "audio/ogg"},
	{"flac", "audio/flac"},
	{"mp4", "video/mp4"},
	{"webm", "video/webm"},
	{"mov", "video/quicktime"},
	{"woff", "font/woff"},
	{"woff2", "font/woff2"},
	{"ttf", "font/ttf"},
	{"otf", "font/otf"},
	{"pdf", "application/pdf"},
	{"zip", "application/zip"},
	{"gz", "application/gzip"},
	{"tgz", "application/gzip"},
	{"tar", "application/x-tar"},
	{"bz2", "application/x-bzip2"},
	{"xz", "application/x-xz"},
	{"zst", "application/zstd"},
	{"7z", "application/x-7z-compressed"},
	{"wasm", "application/wasm"},
	{"sqlite", "application/vnd.sqlite3"},
	{"parquet", "application/vnd.apache.parquet"},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	{"doc", "application/msword"},
	{"xls", "application/vnd.ms-excel"},
	{"ppt", "application/vnd.ms-powerpoint"},
	{"odt", "application/vnd.oasis.opendocument.text"},
	{"ods", "application/vnd.oasis.opendocument.spreadsheet"},
	{"odp", "application/vnd.oasis.opendocument.presentation"},
	{"epub", "application/epub+zip"},
	{"jar", "application/java-archive"},
	{"rar", "application/vnd.rar"},
	{"eot", "application/vnd.ms-fontobject"},
	{"xhtml", "application/xhtml+xml"},
	{"jsonld", "application/ld+json"},
	{"heic", "image/heic"},
	{"psd", "image/vnd.adobe.photoshop"},
	{"m4a", "audio/mp4"},
	{"avi", "video/x-msvideo"},
	{"mkv", "video/x-matroska"},
	{"mpeg", "video/mpeg"},
	{"bin", "application/octet-stream"},
};

static const char *by_extension(struct str name)
{
	const char *dot = name.n ? memrchr(name.p, '.', name.n) : NULL;
	const char *slash = name.n ? memrchr(name.p, '/', name.n) : NULL;
	if (!dot || (slash && dot < slash))
		return NULL;
	struct str ext = str_skip(name, (size_t)(dot - name.p) + 1);
	for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
		if (str_eq_nocase(ext, str_of(extensions[i].name)))
			return extensions[i].mime;
	return NULL;
}

const char *mime_of_file(struct str name, struct str head, bool whole)
{
	const char *mime = by_extension(name);
	return mime ? mime : mime_of_content(head, whole);
}

static const char *const text_types[] = {
	"application/json",
	"application/jsonl",
	"application/ld+json",
	"application/javascript",
	"application/x-javascript",
	"application/ecmascript",
	"application/typescript",
	"application/xml",
	"application/xhtml+xml",
	"application/yaml",
	"application/x-yaml",
	"application/toml",
	"application/sql",
	"application/graphql",
	"application/x-sh",
	"application/x-shellscript",
	"application/x-httpd-php",
	"application/x-tex",
	"application/x-ndjson",
	"inode/x-empty",
};

bool mime_is_text(const char *mime)
{
	struct str m = str_of(mime);
	if (str_starts(m, STR("text/")) || str_ends(m, STR("+json")) || str_ends(m, STR("+xml")))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(text_types); i++)
		if (str_eq_c(m, text_types[i]))
			return true;
	return false;
}
