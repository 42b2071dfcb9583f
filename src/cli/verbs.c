/*
 * verbs.c - the verb table, in the order of `atoll help`. Completions and the manual page are made from it too.
 */
#include "cli/verbs.h"

#define OWN_CODES     .exit_failed = 1, .exit_usage = 2
#define COMMAND_CODES .exit_failed = 125, .exit_usage = 125

const struct verb cli_verbs[] = {
	{"up", "Run the daemon and the warden in the foreground", "",
		"Needs root. Makes the system user, the directories and the token if they are missing, starts both\n"
		"programs, and restarts them when they end. Ctrl-C stops them; boxes stay alive, and the next\n"
		"'atoll up' finds them again.\n\n"
		"ATOLL_LISTEN (127.0.0.1:8700) sets the address, ATOLL_RUN (/run/atoll), ATOLL_DATA (/var/lib/atoll)\n"
		"and ATOLL_IMAGES set the directories, ATOLL_USER (atoll) sets the daemon's user. With other values a\n"
		"second daemon runs beside the first.",
		verb_up, OWN_CODES, .section = "This machine", .examples = "sudo atoll up"},
	{"doctor", "Check which isolation layers this host has and lacks", "",
		"Works without a daemon. Without root some checks report \"unknown\". The exit code is 1 when this "
		"host\n"
		"cannot run boxes.",
		verb_doctor, OWN_CODES, .examples = "atoll doctor\natoll doctor --json | jq .ready"},
	{"selftest", "Test the whole installation in throw-away boxes", "[--escape [CHECK...]]", "", verb_selftest,
		OWN_CODES, .examples = "atoll selftest\nsudo atoll selftest --escape"},

	{"exec", "Run a command in a box; make the box if it does not exist", "ID [options] [--] COMMAND [ARG...]",
		"stdin, stdout and stderr are connected, and signals are passed on. The exit code is the command's:\n"
		"128+n after signal n, 124 after --timeout, 125 when Atoll itself failed, 126 when the program cannot\n"
		"be run and 127 when it is not found. No shell reads the command; to use one, write:\n"
		"-- sh -c 'ls | wc -l'\n\n"
		"With --session the command runs in the shell of that session, which remembers 'cd' and 'export'. One\n"
		"word is a line for that shell; several words are quoted. stdin is empty, the output comes when the\n"
		"command ends, and Ctrl-C leaves the command running in its session.",
		verb_exec, COMMAND_CODES, .section = "Commands", .words = WORDS_BOX,
		.examples = "atoll exec dev -- python3 -c 'print(6 * 7)'\n"
			    "cat data.csv | atoll exec dev -- wc -l\n"
			    "atoll exec dev -s work 'cd /tmp && export A=1'; atoll exec dev -s work 'pwd; echo $A'\n"
			    "atoll exec dev -d --name web --service -- python3 -m http.server 8080"},
	{"run", "Run a command in a new box and throw the box away", "[options] [--] COMMAND [ARG...]",
		"The exit codes are those of exec.", verb_run, COMMAND_CODES,
		.examples = "atoll run -- hostname\natoll run --memory 128m --timeout 5 -- ./untrusted"},
	{"shell", "Open a terminal in a box", "ID [options]",
		"The terminal lives in the box. 'exit' ends it. The keys Enter ~ . detach from it and leave it\n"
		"running; the same command attaches again and shows the last 256 KiB of its output. Use another\n"
		"--session for a second terminal; two users of the same name share one terminal. ~~ types a ~.\n\n"
		"The exit code is the shell's: 128+n after signal n, 0 after detaching, 125 when Atoll itself failed.",
		verb_shell, COMMAND_CODES, .words = WORDS_BOX,
		.examples = "atoll shell dev\natoll shell dev --session logs\natoll shell dev --shell python3 -s py"},
	{"code", "Run Python, JavaScript or TypeScript in a box", "ID [-l LANG] [-c CODE] [FILE...]",
		"A FILE is on this machine; - is stdin. Prints the output of the code and the value of its last\n"
		"expression. Pictures are saved here as atoll-1.png and so on, and their names are printed; --dir\n"
		"saves HTML too. Without CODE and FILE you type line by line, and variables are kept: Ctrl-C\n"
		"interrupts, exit() or Ctrl-D ends.\n\n"
		"The exit code is 1 when the code raised an error, n after Python's sys.exit(n), and 130 after "
		"Ctrl-C.\n"
		"--json prints a line for each event.",
		verb_code, OWN_CODES, .words = WORDS_BOX_FILES,
		.examples = "atoll code dev\natoll code dev -c 'import numpy; numpy.arange(5).sum()'\n"
			    "atoll code dev -l ts -c 'const a: number = 6; a * 7'\natoll code dev plot.py"},
	{"ps", "List the background processes of a box", "ID",
		"Lists processes that 'exec -d' or the API started, including those that have ended recently.", verb_ps,
		OWN_CODES, .words = WORDS_BOX, .examples = "atoll ps dev\natoll ps dev -q -r"},
	{"logs", "Print the output of a background process", "ID PROCESS [-f]",
		"Its stdout goes to stdout and its stderr to stderr, byte for byte. --follow goes on until the "
		"process\n"
		"ends; when the connection breaks, it reconnects and continues at the same byte.",
		verb_logs, OWN_CODES, .words = WORDS_PROCESS, .examples = "atoll logs dev web\natoll logs -f dev web"},
	{"kill", "End background processes of a box", "ID PROCESS... [-s SIG] | ID --all",
		"TERM (the default) and KILL end the process and all processes that it started, and wait for that;\n"
		"processes that do not end within 5 s of TERM are killed. Other signals are only sent to the process.",
		verb_kill, OWN_CODES, .words = WORDS_PROCESS,
		.examples = "atoll kill dev web\natoll kill dev web -s HUP\natoll kill dev --all"},
	{"sessions", "List, make and remove the sessions of a box", "ID [list | create [NAME] | rm NAME...]",
		"A session is a shell that keeps its directory and variables from one 'exec --session' to the next.",
		verb_sessions, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll sessions dev\natoll sessions dev create work --cwd /tmp -e A=1\natoll sessions dev "
			    "rm work"},

	{"env", "List, set and unset the variables of a box",
		"ID [list | set NAME=VALUE... | unset NAME...] | --export",
		"Programs that start later get the variables, also after the box was stopped; running programs keep\n"
		"their own. Values may be secrets, so only the names are listed.\n\n"
		"--export prints a line for your own shell that sets ATOLL_URL and ATOLL_TOKEN, for curl and the SDKs.",
		verb_env, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll env dev set API_KEY=abc MODE=test\natoll env dev\natoll env dev unset MODE\n"
			    "eval \"$(atoll env --export)\""},

	{"ls", "List a directory of a box", "ID [PATH] [-l] [-a] [-R]",
		"The default PATH is /workspace. A terminal shows control characters in names as escapes.", verb_ls,
		OWN_CODES, .section = "Files", .words = WORDS_BOX, .examples = "atoll ls dev\natoll ls -la dev /etc"},
	{"cat", "Print files of a box", "ID PATH...", "Prints files of any size, byte for byte.", verb_cat, OWN_CODES,
		.words = WORDS_BOX, .examples = "atoll cat dev /etc/os-release\natoll cat dev out.png > out.png"},
	{"write", "Write stdin into a file of a box", "ID PATH",
		"Makes missing directories. The file keeps its old content until all of the new content has arrived.",
		verb_write, OWN_CODES, .words = WORDS_BOX,
		.examples = "echo 'print(1)' | atoll write dev /workspace/a.py\natoll write dev data.bin < data.bin"},
	{"cp", "Copy files and directories into a box or out of it", "SRC DST",
		"One side is ID:PATH; the other is a path on this machine, or - for stdin or stdout. A directory is\n"
		"copied with everything in it; modes, times and symbolic links are kept. If DST is a directory, SRC "
		"is\n"
		"copied into it under its own name; SRC/. copies only the content of SRC. DST does not change before\n"
		"everything has arrived. Relative paths in a box begin at /workspace. The box must have sh and tar,\n"
		"unless one side is -.",
		verb_cp, OWN_CODES, .words = WORDS_COPY,
		.examples = "atoll cp src dev:\natoll cp dev:/workspace/out.png .\natoll cp dev:results/. ./results\n"
			    "tar -c . | atoll cp - dev:/tmp/all.tar"},
	{"watch", "Print changes in a directory of a box", "ID [PATH]",
		"Prints a line for each change until Ctrl-C; --json prints an object for each. The default PATH is\n"
		"/workspace.",
		verb_watch, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll watch dev\natoll watch dev /workspace/src --include '*.py'"},
	{"git", "Clone a repository into a box", "ID clone URL [DIR]",
		"The default DIR is /workspace/<name of the repository>. A user name and password in the URL do not\n"
		"appear in the clone or in messages.",
		verb_git, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll git dev clone https://example.org/demo.git\n"
			    "atoll git dev clone https://example.org/demo.git src --branch v2 --depth 1"},

	{"expose", "Make a port of a box reachable and print its URL", "ID PORT [options]",
		"The URL works in browsers and curl. Only those who know the URL can reach the port. The port keeps\n"
		"its URL until it is unexposed or the box is destroyed.",
		verb_expose, OWN_CODES, .section = "Ports", .words = WORDS_BOX,
		.examples =
			"atoll expose dev 8080\natoll expose dev 8080 --name web\ncurl \"$(atoll expose dev 8080)\""},
	{"ports", "List the exposed ports of a box", "ID", "", verb_ports, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll ports dev\natoll ports dev --json"},
	{"open", "Open a port of a box in the browser", "ID PORT",
		"Exposes the port if necessary and prints its URL. Without a desktop it only prints the URL.",
		verb_open, OWN_CODES, .words = WORDS_BOX, .examples = "atoll open dev 8080"},
	{"requests", "Show the last requests to an exposed port", "ID PORT", "", verb_requests, OWN_CODES,
		.words = WORDS_BOX, .examples = "atoll requests dev 8080"},
	{"unexpose", "Remove the URL of a port", "ID PORT", "", verb_unexpose, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll unexpose dev 8080"},

	{"build", "Build an image from a Dockerfile", "[options] DIRECTORY|-",
		"Each RUN is a command in a box of its own. Files that .dockerignore names are not sent. Steps whose\n"
		"inputs have not changed come from the cache. Ctrl-C cancels and leaves nothing.",
		verb_build, OWN_CODES, .section = "Images",
		.examples =
			"atoll build -t mytools .\natoll build -t mytools --build-arg VERSION=2 -f tools.dockerfile .\n"
			"printf 'FROM default\\nRUN pip install httpx\\n' | atoll build -t web -"},
	{"images", "List the images", "", "", verb_images, OWN_CODES, .examples = "atoll images"},
	{"image", "Show, name and remove images", "ls | inspect NAME | rm NAME... | prune | tag NAME NEW",
		"rm takes a name away; an image goes when nothing names or uses it. prune also forgets the steps of\n"
		"builds.",
		verb_image, OWN_CODES,
		.examples = "atoll image inspect mytools\natoll image tag mytools mytools:2\natoll image prune"},
	{"import", "Make an image from an archive", "ARCHIVE|DIRECTORY|- NAME",
		"Takes a tar of a root file system (plain, gzip, zstd, xz), an OCI layout as a directory or a tar, "
		"and\n"
		"the output of 'docker save'.",
		verb_import, OWN_CODES,
		.examples = "atoll import rootfs.tar.gz alpine\natoll import ./layout team/base:1"},
	{"export", "Write an image as an archive", "NAME [--oci] [-o FILE]",
		"The archive holds the image's files, or with --oci an OCI layout with one layer.", verb_export,
		OWN_CODES,
		.examples = "atoll export mytools -o mytools.tar\natoll export --oci mytools | skopeo copy "
			    "oci-archive:/dev/stdin …"},
	{"commit", "Make an image from a box", "BOX NAME",
		"The box's files become the next layer of its image; the box runs on. Variables of the box are not "
		"kept: "
		"they may\nbe secrets.",
		verb_commit, OWN_CODES, .examples = "atoll commit dev mytools:2"},
	{"pull", "Fetch an image from a registry", "REFERENCE",
		"Credentials come from docker's config.json. A cut pull goes on where it stopped.", verb_pull,
		OWN_CODES, .examples = "atoll pull docker.io/library/alpine:3.19"},
	{"push", "Send an image to a registry", "NAME REFERENCE",
		"The image goes as one layer. Credentials come from docker's config.json.", verb_push, OWN_CODES,
		.examples = "atoll push mytools registry.example.org/team/mytools:1"},
	{"net", "Show or change what a box may reach",
		"ID [allow|deny|remove RULE... | mode MODE | log [-f]] [options]",
		"A rule is a host name (HTTP and TLS), a name with a port (any protocol), '*.name', an address range,\n"
		"or udp://name:port. Deny beats allow. Modes: open (everything public), list (only allowed\n"
		"destinations), off. A change applies at once, to open connections as well.",
		verb_net, OWN_CODES, .section = "Network", .words = WORDS_BOX,
		.examples = "atoll net dev mode list\natoll net dev allow pypi.org\natoll net dev mode list --ask "
			    "--ask-timeout 2m\n"
			    "atoll net dev --rate 1m --max-connections 64\natoll net dev log -f"},
	{"secret", "Keep values that boxes use and never see",
		"[set NAME --host HOST... [options] | list | rm NAME...]",
		"The value is read from standard input. A box that is given the secret (atoll create --secret) has a\n"
		"placeholder in the variable; on its way to one of the hosts, over TLS, it becomes the value in the\n"
		"headers that keys usually stand in (Authorization, X-Api-Key …), or in the places of --in.",
		verb_secret, OWN_CODES,
		.examples = "pass show openai | atoll secret set openai --host api.openai.com --env OPENAI_API_KEY\n"
			    "atoll create dev --secret openai\natoll secret list\natoll secret rm openai"},
	{"approve", "Answer connections that wait for an approval", "[APPROVAL...] [options]",
		"A box whose policy has \"ask\" holds connections that no rule decides. In a terminal each is shown "
		"and\n"
		"answered as it comes, until Ctrl-C; elsewhere, and with --list, they are listed. An answer counts\n"
		"once, or becomes a rule of the sandbox or of all sandboxes (--remember).",
		verb_approve, OWN_CODES,
		.examples = "atoll approve\natoll approve --list\natoll approve --all --remember sandbox\n"
			    "atoll approve 5f0c7a91d2e3b4c5d6e7f801 --deny"},

	{"mount", "Mount a bucket in a box", "ID BUCKET PATH --endpoint URL --secret NAME [options]",
		"s3fs in the box serves the bucket. The keys stay with the daemon: requests are signed on their way "
		"out.\n"
		"The mount comes back whenever the box starts.",
		verb_mount, OWN_CODES, .words = WORDS_BOX,
		.examples =
			"printf %s \"$SECRET\" | atoll secret set s3 --host s3.example.com --aws AKIA1 --service s3\n"
			"atoll mount dev my-bucket /mnt/data --endpoint https://s3.example.com --secret s3\n"
			"atoll mounts dev\natoll unmount dev /mnt/data"},
	{"mounts", "List the buckets of a box", "ID", "", verb_mounts, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll mounts dev"},
	{"unmount", "Unmount a bucket of a box", "ID PATH", "", verb_unmount, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll unmount dev /mnt/data"},
	{"volume", "Keep directories that boxes share and that outlive them",
		"[create NAME [--size SIZE] | ls | rm NAME...]",
		"A box gets volumes when it is made (atoll create --volume NAME:PATH). Several boxes may have the "
		"same\n"
		"volume at once. 'create' with the name of a volume that exists changes its size.",
		verb_volume, OWN_CODES,
		.examples = "atoll volume create cache --size 2g\natoll create dev --volume cache:/cache\n"
			    "atoll create reader --volume cache:/cache:ro\natoll volume ls"},
	{"snapshot", "Keep the files of a box as they are now", "ID [NAME]",
		"Prints the id of the snapshot. A running box is frozen for the moment of the copy; nothing in it "
		"ends.\n"
		"Before Linux 6.7 a snapshot counts in the disk limit of the box as much as the box's files.",
		verb_snapshot, OWN_CODES, .section = "Snapshots", .words = WORDS_BOX,
		.examples = "atoll snapshot dev\natoll snapshot dev before-upgrade"},
	{"snapshots", "List or delete the snapshots of a box", "ID [rm SNAPSHOT...]", "", verb_snapshots, OWN_CODES,
		.words = WORDS_BOX, .examples = "atoll snapshots dev\natoll snapshots dev rm snap-6f9b3ab5cd5772e7"},
	{"restore", "Put the files of a snapshot or a backup back", "ID SNAPSHOT | ID --backup BACKUP",
		"SNAPSHOT is an id or a name. The processes of the box end; the next command starts it on the old "
		"files.\n"
		"A backup may be of another box. Ctrl-C leaves the box as it was, or with the files of the backup.",
		verb_restore, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll restore dev before-upgrade\natoll restore dev --backup bak-5f0c7a91d2e3b4c5"},
	{"backup", "Copy a whole box to where it outlives it", "ID [NAME] [--ttl TIME]",
		"The box runs on. The first backup of a box is whole, the next ones hold what has changed since. "
		"Prints\n"
		"the id. Ctrl-C cancels it and leaves nothing.",
		verb_backup, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll backup dev\natoll backup dev before-holidays --ttl 720h"},
	{"backups", "List or delete backups", "[ID | rm BACKUP...]",
		"Lists the backups of all boxes, or of one, which need not exist any more. One that others build on "
		"is\n"
		"only hidden by rm; it goes with the last of them.",
		verb_backups, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll backups\natoll backups dev\natoll backups rm bak-5f0c7a91d2e3b4c5"},
	{"diff", "List the files that changed since a snapshot", "ID SNAPSHOT",
		"Prints a line for each path: A added, C changed, D deleted.", verb_diff, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll diff dev before-upgrade\natoll diff dev before-upgrade --json | jq .added"},
	{"fork", "Make boxes with the files of another box", "ID [NAME...] [--count N]",
		"Variables, limits, network and labels come along; processes do not. Prints the names.", verb_fork,
		OWN_CODES, .words = WORDS_BOX, .examples = "atoll fork dev try\natoll fork dev --count 5"},
	{"replace", "Give a box the files of another box", "ID OTHER",
		"The processes of box ID end; OTHER runs on. So a fork that turned out well becomes its parent.",
		verb_replace, OWN_CODES, .words = WORDS_BOXES, .examples = "atoll replace dev dev-3"},

	{"create", "Make a box with its own limits and settings", "ID [options]", "", verb_create, OWN_CODES,
		.section = "Boxes",
		.examples = "atoll create dev --memory 2g --cpus 2\n"
			    "atoll create job --instance basic -e MODE=test --label team=a --sleep-after 1h --network "
			    "list"},
	{"update", "Change the settings of a box", "ID [options]",
		"Other settings stay. Variables reach programs that start later; everything else takes effect at once.",
		verb_update, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll update dev --memory 4g\natoll update dev --label team=b --sleep-after 0\n"
			    "atoll update dev --backup-every 1h --backup-keep 24"},
	{"list", "List the boxes", "[-q] [-l K[=V]]", "", verb_list, OWN_CODES,
		.examples = "atoll list\natoll list -q\natoll list --label team=a"},
	{"inspect", "Show one box: state, limits, usage", "ID", "", verb_inspect, OWN_CODES, .words = WORDS_BOX,
		.examples = "atoll inspect dev\natoll inspect dev --json | jq .usage"},
	{"stats", "Show CPU and memory of boxes", "[ID...]",
		"A terminal shows a live table, busiest box first, until q or Ctrl-C. With --once, --json or another\n"
		"output it measures once, over half a second. CPU % is the share of one CPU.",
		verb_stats, OWN_CODES, .words = WORDS_BOXES, .examples = "atoll stats\natoll stats dev --json"},
	{"stop", "End the processes of boxes and keep their files", "ID...",
		"Every process gets SIGTERM, and SIGKILL after 5 s. The next command starts the box again, with its\n"
		"services.",
		verb_stop, OWN_CODES, .words = WORDS_BOXES, .examples = "atoll stop dev"},
	{"sleep", "Freeze boxes; nothing in them is lost", "ID...",
		"The next command, or a byte of an open connection, wakes the box.", verb_sleep, OWN_CODES,
		.words = WORDS_BOXES, .examples = "atoll sleep dev"},
	{"wake", "Wake boxes, or start stopped ones", "ID...", "", verb_wake, OWN_CODES, .words = WORDS_BOXES,
		.examples = "atoll wake dev"},
	{"rm", "Destroy boxes with their files", "ID... | --all", "", verb_rm, OWN_CODES, .words = WORDS_BOXES,
		.examples = "atoll rm dev\natoll rm --all"},

	{"console", "Open the web console", "[--print]",
		"Prints a link that signs a browser in once, within five minutes, and opens it on a desktop.",
		verb_console, OWN_CODES, .section = "Access", .examples = "atoll console\natoll console --print"},
	{"token", "Make, list and revoke named tokens", "[list | create NAME [--ttl TIME] | rm NAME...]",
		"create prints the value, which is not shown again: give it to a program as ATOLL_TOKEN. A named "
		"token\n"
		"may do all that the token in ATOLL_DATA may. rm acts at once, also on open terminals and streams.",
		verb_token, OWN_CODES,
		.examples = "atoll token create ci --ttl 30d\natoll token list\natoll token rm ci"},

	{"mcp", "Serve boxes as tools to a language model (MCP)", "[--sandbox ID]",
		"Speaks the Model Context Protocol over stdin and stdout. Each client has a box of its own, which is\n"
		"destroyed when the client leaves.",
		verb_mcp, OWN_CODES, .section = "Agents",
		.examples = "claude mcp add atoll -- atoll mcp\natoll mcp --sandbox dev"},

	{"docker", "Put atoll-docker in the place of docker, or take it away", "install | remove",
		"Makes /usr/local/bin/docker a link to atoll-docker, so that 'wrangler dev' needs no variables. "
		"Refuses when\n"
		"there is a real docker.",
		verb_docker, OWN_CODES, .section = "Other", .examples = "atoll docker install\natoll docker remove"},
	{"completion", "Print the completion of bash, zsh or fish", "bash | zsh | fish",
		"'make install' installs the completions. By hand: source the output in bash and zsh; for fish, write\n"
		"it to ~/.config/fish/completions/atoll.fish. Names of boxes and processes are completed too.",
		verb_completion, OWN_CODES, .words = WORDS_SHELLS,
		.examples = "source <(atoll completion bash)\natoll completion fish > "
			    "~/.config/fish/completions/atoll.fish"},
	{"version", "Print the version", "", "", verb_version, OWN_CODES},
};
const size_t cli_verbs_count = ARRAY_LEN(cli_verbs);
