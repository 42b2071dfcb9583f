#!/bin/bash
# A client of the bridge in shell: curl, base64 and jq.
#
#   ATOLL_TOKEN=… ./sandbox.sh new                      prints a fresh id
#   ./sandbox.sh ID exec COMMAND ARGUMENT…              prints its output; its exit code is ours
#   ./sandbox.sh ID get workspace/file >file
#   ./sandbox.sh ID put workspace/file <file
#   ./sandbox.sh ID save >workspace.tar | load <workspace.tar | rm
# SESSION names a session whose shell the commands share.
set -euo pipefail
url=${ATOLL_URL:-http://127.0.0.1:8700}/v1/sandbox
auth=(-H "Authorization: Bearer ${ATOLL_TOKEN:-$(cat /var/lib/atoll/token)}")
[ -z "${SESSION:-}" ] || auth+=(-H "Session-Id: $SESSION")

call() { curl -sS --fail-with-body -N "${auth[@]}" "$@"; }

run() { # run ID COMMAND…
	local id=$1 event='' line code=1
	shift
	while IFS= read -r line; do
		case $line in
		event:*) event=${line#event: } ;;
		data:*)
			line=${line#data: }
			case $event in
			stdout) base64 -d <<<"$line" ;;
			stderr) base64 -d <<<"$line" >&2 ;;
			exit) code=$(jq .exit_code <<<"$line") ;;
			error) jq -r .error <<<"$line" >&2 ;;
			esac
			;;
		esac
	done < <(jq -n '{argv: $ARGS.positional}' --args -- "$@" | call -X POST "$url/$id/exec" -H 'Content-Type: application/json' -d @-)
	return "$code"
}

id=${1:?an id, or new}
[ "$id" != new ] || { call -X POST "$url" | jq -r .id; exit; }
verb=${2:?exec, get, put, save, load or rm}
shift 2
case $verb in
exec) run "$id" "$@" ;;
get) call "$url/$id/file/$1" ;;
put) call -X PUT "$url/$id/file/$1" -H 'Content-Type: application/octet-stream' --data-binary @- >/dev/null ;;
save) call -X POST "$url/$id/persist" ;;
load) call -X POST "$url/$id/hydrate" -H 'Content-Type: application/octet-stream' --data-binary @- >/dev/null ;;
rm) call -X DELETE "$url/$id" ;;
*) echo "unknown verb '$verb'" >&2; exit 2 ;;
esac
