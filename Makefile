# Calls the tools in their order. meson builds the programs (meson.build).
#
#   make run     install missing packages, build the programs and the image, start on 127.0.0.1:8700
#   make test    install missing packages, build, run every suite
#   make build   the programs: build/atoll, build/atolld and the eight others of ARCHITECTURE.md, and the link build/atoll-docker
#   make unit | integration | security | compat | sdk | browser | wrangler   one suite; tests/run names them all
#   make guest   the machine of tests/host
#   make docs    the site of docs/, into build/docs
#   make lint | asan | fuzz | bench | soak
#   make ci      every suite, lint and a short pass of the fuzz targets that changed: before a merge
#   make nightly all that there is, for hours: before an issue is closed
#   make man     the manual page, where scdoc is installed: build/man/atoll.1
#   make install PREFIX=/usr/local DESTDIR=   programs, completions, the manual page and the systemd unit

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build deps deps-test image guest run test unit integration security compat sdk browser wrangler docs lint ci nightly asan fuzz fuzz-build fuzz-changed bench soak clean install man help

# The steps of run and test follow each other, whatever -j says; ninja is parallel by itself.
.NOTPARALLEL:

B := build
ARCH := $(shell uname -m)
PREFIX ?= /usr/local
# Two runs in one checkout build one after the other: the shell of a recipe holds the lock until it ends, its children do not inherit it.
LOCK = mkdir -p $(B) && exec 9>>$(B)/.lock && flock 9
NINJA = ninja --quiet 9>&-
PROGRAMS_STATIC := atoll atoll-warden atoll-agent atoll-escape atoll-fusermount
PROGRAMS_HOST := atolld atoll-gate atoll-mover atoll-images atoll-backup

help:
	@sed -n 's/^#   //p' Makefile

deps:
	@tools/deps run

deps-test:
	@tools/deps run test

# musl's package has no kernel headers: use the machine's, after musl's own.
$(B)/kernel-headers:
	@mkdir -p $@ && ln -sfn /usr/include/linux $@/linux && ln -sfn /usr/include/asm-generic $@/asm-generic \
	  && ln -sfn /usr/include/$(ARCH)-linux-gnu/asm $@/asm

# Debian's musl-gcc ignores -static-pie and links dynamically. Its specs link a static PIE with musl's start file for it.
$(B)/musl.specs: /usr/lib/$(ARCH)-linux-musl/musl-gcc.specs
	@$(LOCK); sed 's|/Scrt1.o|/rcrt1.o|; s|^-dynamic-linker [^ ]*|-static -pie --no-dynamic-linker -z text|' $< > $@

$(B)/musl.ini: Makefile $(B)/musl.specs | $(B)/kernel-headers
	@$(LOCK); printf "[binaries]\nc = ['gcc', '-specs=$(CURDIR)/$(B)/musl.specs']\nar = 'ar'\nstrip = 'strip'\npkgconfig = 'pkg-config'\n[built-in options]\nc_args = ['-idirafter', '$(CURDIR)/$(B)/kernel-headers']\n[host_machine]\nsystem = 'linux'\ncpu_family = '$(ARCH)'\ncpu = '$(ARCH)'\nendian = 'little'\n[properties]\nneeds_exe_wrapper = false\n" > $@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }

$(B)/host/build.ninja:
	@$(LOCK); [ -f $@ ] || meson setup $(B)/host -Dvariant=host >/dev/null 9>&- || { cat $(B)/host/meson-logs/meson-log.txt | tail -30; exit 1; }

$(B)/static/build.ninja: $(B)/musl.ini
	@$(LOCK); [ ! $@ -nt $< ] || exit 0; rm -rf $(B)/static; \
	  meson setup $(B)/static --cross-file $(B)/musl.ini -Dvariant=static >/dev/null 9>&- || { tail -30 $(B)/static/meson-logs/meson-log.txt; exit 1; }

# Everything with one compiler and the address and undefined behaviour sanitizers, laid out like $(B). The agent runs
# inside a box, which has no library of the sanitizers: link them statically.
$(B)/asan/host/build.ninja:
	@$(LOCK); [ -f $@ ] || meson setup $(B)/asan/host -Dvariant=all -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fno-sanitize-recover=all \
	  "-Dc_link_args=['-static-libasan', '-static-libubsan']" >/dev/null 9>&- || { tail -30 $(B)/asan/host/meson-logs/meson-log.txt; exit 1; }

# Users other than root execute some of the programs: a umask of 077 must not forbid it.
build: $(B)/host/build.ninja $(B)/static/build.ninja
	@$(LOCK); \
	for d in host static; do $(NINJA) -C $(B)/$$d | { grep -v '^ninja: no work to do' || true; }; [ $${PIPESTATUS[0]} -eq 0 ] || exit 1; done; \
	for p in $(PROGRAMS_STATIC); do f=$$(find $(B)/static/src -type f -name $$p -perm -u+x); [ -z "$$f" ] || { chmod a+rx $$f && ln -f $$f $(B)/$$p; }; done; \
	for p in $(PROGRAMS_HOST); do f=$$(find $(B)/host/src -type f -name $$p -perm -u+x); [ -z "$$f" ] || { chmod a+rx $$f && ln -f $$f $(B)/$$p; }; done; \
	ln -sf atoll $(B)/atoll-docker

image:
	@tools/image/build

# The machine of tests/host, which the suite makes itself where it is missing or old.
guest: deps-test image
	@tests/host/make-guest --image $${ATOLL_IMAGES:-/var/lib/atoll/images}/default

run: deps build image
	@exec $(B)/atoll up

# BESIDE="lint fuzz ratios" runs these beside the suites: the first two compute, while most tests wait, and get the processor time that the suites leave.
test: deps-test build image
	@tests/run every $(BESIDE)

unit: build
	@tests/run unit

integration: build image
	@tests/run integration

security: build image
	@tests/run security

compat: build image
	@tests/run compat

sdk: build image
	@tests/run sdk

browser: build image
	@tests/run browser

wrangler: build image
	@tests/run wrangler

docs:
	@tools/deps docs
	@mkdocs build --strict --quiet && echo "build/docs/index.html"

lint: build
	@tools/deps lint
	@tools/lint

asan: $(B)/asan/host/build.ninja
	@$(LOCK); $(NINJA) -C $(B)/asan/host || exit 1; \
	for p in $(PROGRAMS_STATIC) $(PROGRAMS_HOST); do f=$$(find $(B)/asan/host/src -type f -name $$p -perm -u+x); [ -z "$$f" ] || ln -f $$f $(B)/asan/$$p; done; \
	ln -sf atoll $(B)/asan/atoll-docker
	@tools/asan

FUZZ_SECONDS ?= 30
$(B)/fuzz/build.ninja:
	@$(LOCK); [ -f $@ ] || CC=clang meson setup $(B)/fuzz -Dvariant=host -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null 9>&- || { tail -30 $(B)/fuzz/meson-logs/meson-log.txt; exit 1; }

fuzz-build: $(B)/fuzz/build.ninja
	@$(LOCK); $(NINJA) -C $(B)/fuzz fuzz

fuzz: $(B)/fuzz/build.ninja
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

# Seconds per target: enough to notice a broken target. `make fuzz` runs longer and finds bugs.
CI_FUZZ_SECONDS ?= 5
fuzz-changed: $(B)/fuzz/build.ninja
	@FUZZ_SECONDS=$(CI_FUZZ_SECONDS) tools/fuzz --changed

ci:
	@.ci/run

# An issue is closed with this passed and with tools/lint-base moved to the commit that passed: lint and fuzz of later runs skip what has
# not changed since. Every step runs, also after one that failed.
nightly: deps-test
	@tools/deps lint bench
	@$(MAKE) --no-print-directory build image
	@failed=; step() { echo "nightly: $$*"; "$$@" || failed="$$failed $${*: -1},"; }; m="$(MAKE) --no-print-directory"; \
	step tests/run --nightly every lint ratios; \
	FUZZ_SECONDS=600 step $$m fuzz; \
	step $$m asan; step $$m soak; step $$m bench; \
	[ -z "$$failed" ] || { echo "make nightly failed:$${failed%,}"; exit 1; }; \
	echo "make nightly passed: write $$(git rev-parse HEAD) into tools/lint-base"

# The program generates its manual from the tables of its options.
man: build
	@command -v scdoc >/dev/null || { echo "scdoc is not installed (tools/deps run): no manual page"; exit 0; }; \
	  mkdir -p $(B)/man && $(B)/atoll help --scdoc > $(B)/man/atoll.1.scd && scdoc < $(B)/man/atoll.1.scd > $(B)/man/atoll.1

# The programs look for each other in their own directory.
install: build man
	@install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system
	@install -m 0755 $(addprefix $(B)/,$(PROGRAMS_STATIC) $(PROGRAMS_HOST)) $(DESTDIR)$(PREFIX)/bin
	@ln -sf atoll $(DESTDIR)$(PREFIX)/bin/atoll-docker
	@[ ! -f $(B)/man/atoll.1 ] || install -D -m 0644 $(B)/man/atoll.1 $(DESTDIR)$(PREFIX)/share/man/man1/atoll.1
	@for s in bash:bash-completion/completions/atoll zsh:zsh/site-functions/_atoll fish:fish/vendor_completions.d/atoll.fish; do \
	  mkdir -p $(B)/completion && $(B)/atoll completion $${s%%:*} > $(B)/completion/$${s%%:*} && \
	  install -D -m 0644 $(B)/completion/$${s%%:*} $(DESTDIR)$(PREFIX)/share/$${s#*:} || exit 1; done
	@sed 's|@BINDIR@|$(PREFIX)/bin|' packaging/atoll.service.in > $(B)/atoll.service
	@install -m 0644 $(B)/atoll.service $(DESTDIR)$(PREFIX)/lib/systemd/system
	@echo "installed into $(DESTDIR)$(PREFIX): start with 'systemctl enable --now atoll' or 'sudo atoll up'"

clean:
	@rm -rf $(B)

# BENCH="--quick cold" passes options and rows.
bench: build image
	@tools/deps run test bench
	@tests/bench/bench.py $(BENCH)

# Fifty sessions with two hundred commands each: kills, time limits, clients that disconnect. Takes minutes; not part of `make test`.
soak: build image
	@ATOLL_SOAK=50x200 ATOLL_SLEEP_SOAK=10000 ATOLL_STORAGE_SOAK=1000 ATOLL_BACKUP_SOAK=210 tests/run integration -k soak
	@ATOLL_BACKUP_ROUNDS=24 tests/run integration -k every_backup_that_is_ready
