/*
 * script.h - the programs behind /api/backup/…, as scripts for bash. Their arguments come from requests; no text of a
 * request is part of a script.
 */
#pragma once

/* $1 directory, $2 archive, $3 format, $4 threads, $5 "1": leave out what git ignores; stdin: patterns to leave out,
 * one a line. Prints the size. The archive has its name only when it is complete. */
#define BACKUP_CREATE                                                                                                  \
	"set -u -o pipefail\n"                                                                                         \
	"dir=$1 archive=$2 part=$2.part.$$ list=$2.list.$$\n"                                                          \
	"trap 'rm -f \"$part\" \"$list\"' EXIT\n"                                                                      \
	"[ -d \"$dir\" ] || { echo \"there is no directory '$dir'\" >&2; exit 2; }\n"                                  \
	"command -v mksquashfs >/dev/null || { echo 'mksquashfs is not in this image' >&2; exit 127; }\n"              \
	"mkdir -p \"${archive%/*}\" && cat >\"$list\" || exit 1\n"                                                     \
	"if [ \"$5\" = 1 ] && command -v git >/dev/null && git -C \"$dir\" rev-parse --git-dir >/dev/null 2>&1; "      \
	"then\n"                                                                                                       \
	"  git -c safe.directory='*' -C \"$dir\" ls-files -z --others --ignored --exclude-standard --directory |\n"    \
	"    while IFS= read -r -d '' f; do case $f in *$'\\n'*) ;; *) printf '%s\\n' \"${f%/}\";; esac; done |\n"     \
	"    sed 's/[][*?\\\\]/\\\\&/g' >>\"$list\"\n"                                                                 \
	"fi\n"                                                                                                         \
	"mksquashfs \"$dir\" \"$part\" -comp \"$3\" -processors \"$4\" -no-progress -quiet -noappend -wildcards "      \
	"-ef \"$list\" >&2 || exit\n"                                                                                  \
	"mv \"$part\" \"$archive\" && stat -c %s \"$archive\"\n"

/* $1 archive: with what BACKUP_CREATE leaves when it is killed. */
#define BACKUP_DELETE "rm -f \"$1\" \"$1\".part.* \"$1\".list.*"

/* $1 directory, $2 archive, $3 directory for the mounts. The archive lies below, what is written from now on above it.
 */
#define BACKUP_RESTORE                                                                                                 \
	"set -u\n"                                                                                                     \
	"dir=$1 archive=$2 base=$3.$$\n"                                                                               \
	"for p in squashfuse fuse-overlayfs fusermount3; do\n"                                                         \
	"  command -v $p >/dev/null || { echo \"$p is not in this image\" >&2; exit 127; }\n"                          \
	"done\n"                                                                                                       \
	"[ -f \"$archive\" ] || { echo \"there is no archive $archive\" >&2; exit 2; }\n"                              \
	"undo() { fusermount3 -uzq \"$base/lower\"; rm -rf \"$base\"; exit 1; }\n"                                     \
	"fusermount3 -uzq \"$dir\"\n"                                                                                  \
	"mkdir -p \"$dir\" \"$base/lower\" \"$base/upper\" \"$base/work\" || exit 1\n"                                 \
	"squashfuse \"$archive\" \"$base/lower\" </dev/null >&2 || undo\n"                                             \
	"fuse-overlayfs -o \"lowerdir=$base/lower,upperdir=$base/upper,workdir=$base/work\" \"$dir\" </dev/null >&2 "  \
	"|| undo\n"                                                                                                    \
	"mountpoint -q \"$dir\" || { echo \"$dir is not mounted\" >&2; undo; }\n"

/* $1 archive; stdin: four lines a part, number, offset, size, URL. Prints "number etag" for each. Parts go out four at
 * a time, each from a file of its own, so that curl knows the length and can send it again. URLs are secrets: curl
 * reads them from a file. Each part is waited for by its process id: `wait -n` forgets children that ended before it.
 */
#define BACKUP_UPLOAD                                                                                                  \
	"set -u -o pipefail\n"                                                                                         \
	"archive=$1; umask 077; tmp=$(mktemp -d \"${archive%/*}/upload.XXXXXX\") || exit 1\n"                          \
	"trap 'rm -rf \"$tmp\"' EXIT\n"                                                                                \
	"command -v curl >/dev/null || { echo 'curl is not in this image' >&2; exit 127; }\n"                          \
	"one() {\n"                                                                                                    \
	"  local n=$1 at=$2 size=$3 url=$4 etag\n"                                                                     \
	"  dd if=\"$archive\" of=\"$tmp/$n\" bs=1M iflag=skip_bytes,count_bytes skip=\"$at\" count=\"$size\" "         \
	"status=none || "                                                                                              \
	"return 1\n"                                                                                                   \
	"  [ \"$(stat -c %s \"$tmp/$n\")\" = \"$size\" ] || { echo \"part $n goes past the end of the archive\" >&2; " \
	"return 1; }\n"                                                                                                \
	"  printf 'url = \"%s\"\\n' \"$url\" >\"$tmp/$n.url\"\n"                                                       \
	"  curl -sS --fail-with-body --connect-timeout 10 --max-time 1800 --retry 3 --retry-all-errors "               \
	"--retry-max-time 300 -o \"$tmp/$n.out\" "                                                                     \
	"-D \"$tmp/$n.head\" -H Expect: -T \"$tmp/$n\" -K \"$tmp/$n.url\" 2>\"$tmp/$n.err\" ||\n"                      \
	"    { echo \"part $n: $(head -n1 \"$tmp/$n.err\") $(head -c 400 \"$tmp/$n.out\" 2>/dev/null)\" >&2; return "  \
	"1; }\n"                                                                                                       \
	"  etag=$(sed -n 's/^[Ee][Tt][Aa][Gg]: *//p' \"$tmp/$n.head\" | tr -d '\\r' | tail -n1)\n"                     \
	"  [ -n \"$etag\" ] || { echo \"part $n: the server sent no ETag\" >&2; return 1; }\n"                         \
	"  rm -f \"$tmp/$n\"; printf '%s %s\\n' \"$n\" \"$etag\"\n"                                                    \
	"}\n"                                                                                                          \
	"pids=() failed=0\n"                                                                                           \
	"while IFS= read -r n && IFS= read -r at && IFS= read -r size && IFS= read -r url; do\n"                       \
	"  if [ ${#pids[@]} -ge 4 ]; then wait \"${pids[0]}\" || failed=1; pids=(\"${pids[@]:1}\"); fi\n"              \
	"  one \"$n\" \"$at\" \"$size\" \"$url\" </dev/null & pids+=($!)\n"                                            \
	"done\n"                                                                                                       \
	"for pid in \"${pids[@]}\"; do wait \"$pid\" || failed=1; done\n"                                              \
	"exit $failed\n"
