# cuward - build, test and install. `make help` lists the targets.
#
# Everything made goes under build/. Useful variables: CC, CFLAGS, LDFLAGS, CUDA_HOME, prefix,
# DESTDIR, SAN=address|thread|undefined (own tree under build/), WITH_LTTNG=0, V=1.

version := 0.1.0
prefix ?= /usr/local
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
mandir ?= $(prefix)/share/man
zshdir ?= $(prefix)/share/zsh/$(if $(filter /usr,$(prefix)),vendor-completions,site-functions)
sysconfdir ?= /etc
rundir ?= /run
CC ?= cc
CFLAGS ?= -O2 -g
WITH_LTTNG ?= 1
Q := $(if $(V),,@)
say = $(if $(V),@:,@printf '  %-6s %s\n' $(1) '$(2)')

B := build$(if $(SAN),/san-$(SAN))
G := $(B)/gen

# ---- settings of the compiler ----

san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
tls_flags := $(shell echo 'int x;' | $(CC) -mtls-dialect=gnu2 -x c -c -o /dev/null - 2>/dev/null && echo -mtls-dialect=gnu2)
warnings := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Werror \
	-Wno-unknown-warning-option -Wno-format-truncation -Wno-stringop-truncation
base_flags = -std=gnu11 $(warnings) -Iinclude -I$(G) -D_GNU_SOURCE -MMD -MP $(san_flags)
cuda_flags = -isystem $(cuda_include) -D__CUDA_API_VERSION_INTERNAL
place_flags = -DCUWARD_SYSCONFDIR='"$(sysconfdir)/cuward"' -DCUWARD_RUNDIR='"$(rundir)/cuward"'
shim_flags = $(base_flags) $(cuda_flags) -Ishim -fPIC -fvisibility=hidden -fno-plt \
	-fno-semantic-interposition $(tls_flags) -DCUWARD_VERSION='"$(version)"' $(place_flags)
# Two numbers that were just written one by one and are then read as one vector stall the reader of traces.
tool_flags = $(base_flags) -fno-tree-slp-vectorize -Itools -Ishim -DCUWARD_VERSION='"$(version)"' $(place_flags) \
	-DCUWARD_LIBDIR='"$(libdir)/cuward"' $(if $(filter 0,$(WITH_LTTNG)),-DCUWARD_WITHOUT_LTTNG)
sim_flags = $(base_flags) $(cuda_flags) -Itests/sim -fPIC -fvisibility=hidden
shim_link := -shared -Wl,-soname,libcuward.so -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now \
	-Wl,-z,defs -Wl,--as-needed -Wl,--version-script,shim/libcuward.map

# Given as an argument of make, it is not in the environment of this shell.
cuda_include := $(shell CUDA_HOME='$(CUDA_HOME)' tests/cuda_headers.sh)

# ---- what is built from what ----

shim_sources := $(wildcard shim/*.c) $(wildcard shim/*.S)
shim_objects := $(patsubst shim/%,$(B)/obj/shim/%.o,$(shim_sources))
# The parts of the shim that the command needs too: text in, text out, no driver.
shared_sources := $(wildcard $(addprefix shim/,admin.c admin_dir.c admin_name.c calls.c json.c limit.c policy.c report*.c settings.c text.c trace.c))
tool_sources := $(wildcard tools/*.c)
tool_objects := $(patsubst tools/%,$(B)/obj/tools/%.o,$(tool_sources)) \
	$(patsubst shim/%,$(B)/obj/tools/shim/%.o,$(shared_sources))
provider_sources := $(wildcard shim/provider/*.c)
provider_objects := $(patsubst shim/provider/%,$(B)/obj/provider/%.o,$(provider_sources))
sim_sources := $(wildcard tests/sim/*.c)
sim_objects := $(patsubst tests/sim/%,$(B)/obj/sim/%.o,$(sim_sources))

tool_packages := jansson libmicrohttpd
tool_libs = $(shell pkg-config --libs $(tool_packages)) -ldw -lelf -lm -lpthread
tool_cflags = $(shell pkg-config --cflags $(tool_packages))

provider := $(B)/libcuward-lttng.so
libraries := $(B)/libcuward.so $(if $(filter 0,$(WITH_LTTNG)),,$(provider))
sim_profiles := 13.0 12.2 11.0 future
sim := $(B)/sim/libcuda.so.1 $(foreach p,$(filter-out 13.0,$(sim_profiles)),$(B)/sim/$(p)/libcuda.so.1)

.DEFAULT_GOAL := all
.PHONY: all lib tool sim check check-newest check-clients check-clusters check-model check-gpu demo bench install uninstall clean help setup-build setup-check FORCE
.DELETE_ON_ERROR:
.SECONDARY:

# What was built with other flags is built again: all that is compiled depends on one of these files,
# which change when the flags do. Those of the command alone are of no matter to the libraries.
$(B)/flags $(B)/flags-tools: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$built_with" | cmp -s - $@ || printf '%s\n' "$$built_with" > $@
	@$(if $(filter 0,$(WITH_LTTNG)),rm -f $(provider))
$(B)/flags: export built_with = $(CC) $(CFLAGS) $(LDFLAGS) $(tls_flags) $(cuda_include) $(sysconfdir) $(rundir)
$(B)/flags-tools: export built_with = $(libdir) $(WITH_LTTNG)
FORCE:

manuals := $(patsubst docs/%.scd,$(B)/man/%,$(wildcard docs/*.scd))

all: $(libraries) $(B)/cuward $(sim) $(manuals) ## build everything (default)
lib: $(libraries)
tool: $(B)/cuward
sim: $(sim)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile tests/tests.mk | expand -t 18

setup-build:
	@tests/setup.sh build
setup-check:
	@tests/setup.sh check

# A newcomer's `make` says what is missing before the compiler does.
ifeq ($(cuda_include),none)
cuda_missing := $(filter-out clean help demo check check-newest check-clients check-clusters check-model setup-build setup-check,$(or $(MAKECMDGOALS),all))
ifneq ($(cuda_missing),)
$(error no CUDA headers >= 13.0 found; set CUDA_HOME, or let `tests/setup.sh build` fetch them)
endif
endif

# ---- generated ----

# Headers may become newer where they are.
$(G)/driver_calls.h: shim/driver_calls.awk shim/decided.awk shim/decided.txt shim/cuda_headers.h Makefile $(B)/flags \
		$(wildcard $(cuda_include)/cuda.h $(cuda_include)/cudaProfiler.h)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -E -P -D__CUDA_API_VERSION_INTERNAL -isystem $(cuda_include) shim/cuda_headers.h > $(G)/cuda.i
	$(Q)LC_ALL=C awk -f shim/driver_calls.awk $(G)/cuda.i > $@
	$(Q)awk -f shim/decided.awk shim/decided.txt $@

# ---- the shim ----

$(B)/obj/shim/%.c.o: shim/%.c $(G)/driver_calls.h Makefile $(B)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(shim_flags) -c -o $@ $<
$(B)/obj/shim/%.S.o: shim/%.S Makefile $(B)/flags
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -fPIC -c -o $@ $<
$(B)/libcuward.so: $(shim_objects) shim/libcuward.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(san_flags) $(LDFLAGS) $(shim_link) -o $@ $(shim_objects) -ldl -lpthread

# Asked by every dlsym of the process, also those of a sanitizer that is about to start.
$(addprefix $(B)/obj/shim/,lookup.c.o calls.c.o library.c.o bypass.c.o): san_flags :=

# ---- the trace provider ----

$(B)/obj/provider/%.c.o: shim/provider/%.c $(G)/driver_calls.h Makefile $(B)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) -Ishim/provider -Ishim -fPIC -fvisibility=hidden $(tls_flags) -c -o $@ $<
$(B)/libcuward-lttng.so: $(provider_objects)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(san_flags) $(LDFLAGS) -shared -Wl,-soname,libcuward-lttng.so -Wl,-z,nodelete \
		-o $@ $(provider_objects) -llttng-ust -ldl

# ---- the command ----

$(B)/obj/tools/%.c.o: tools/%.c $(G)/driver_calls.h Makefile $(B)/flags $(B)/flags-tools
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(tool_flags) $(tool_cflags) -c -o $@ $<
$(B)/obj/tools/shim/%.c.o: shim/%.c $(G)/driver_calls.h Makefile $(B)/flags $(B)/flags-tools
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(tool_flags) -c -o $@ $<
$(B)/obj/tools/view_html.c.o: tools/share/timeline.html
$(B)/cuward: $(tool_objects)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(san_flags) $(LDFLAGS) -o $@ $(tool_objects) $(tool_libs)

# ---- the simulated driver: one set of objects, one library a profile ----

$(B)/obj/sim/%.c.o: tests/sim/%.c $(G)/driver_calls.h Makefile $(B)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(sim_flags) -c -o $@ $<
include tests/sim/profiles.mk

-include $(patsubst %.o,%.d,$(shim_objects) $(tool_objects) $(provider_objects) $(sim_objects))

# ---- manual pages ----

$(B)/man/%: docs/%.scd
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)scdoc < $< > $@

# ---- tests ----

include tests/tests.mk

# Commands that have no page of their own, PAGE:COMMAND.
man_links := fit:env fit:explain kill:clean kill:pause kill:resume leaks:mark ps:top queue:release queue:reserve report:advise
installed_texts = $(addprefix $(mandir)/man1/,$(notdir $(manuals))) \
	$(addprefix $(prefix)/share/cuward/,kubernetes-pod.yml docker-compose.yml slurm-task-prolog.sh)

install: all ## install to $(DESTDIR)$(prefix)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/cuward $(DESTDIR)$(prefix)/include/cuward
	install -m 755 $(B)/cuward $(DESTDIR)$(bindir)/cuward
	install -m 755 $(libraries) $(DESTDIR)$(libdir)/cuward/
	cp -a $(B)/sim $(DESTDIR)$(libdir)/cuward/
	rm -rf $(DESTDIR)$(libdir)/cuward/sim/nvml
	install -d $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(prefix)/share/bash-completion/completions
	install -m 644 $(manuals) $(DESTDIR)$(mandir)/man1/
	install -m 644 tools/share/cuward.bash-completion $(DESTDIR)$(prefix)/share/bash-completion/completions/cuward
	install -d $(DESTDIR)$(zshdir) $(DESTDIR)$(prefix)/share/fish/vendor_completions.d
	install -m 644 tools/share/cuward.zsh-completion $(DESTDIR)$(zshdir)/_cuward
	install -m 644 tools/share/cuward.fish $(DESTDIR)$(prefix)/share/fish/vendor_completions.d/cuward.fish
	install -m 644 include/cuward/cuward.h $(DESTDIR)$(prefix)/include/cuward/
	install -d $(DESTDIR)$(prefix)/share/cuward
	install -m 644 tools/share/pytest_cuward.py tools/share/github-leaks.yml tools/share/cuward.tmpfiles.conf \
		tools/share/cuward-clean.timer tools/share/kubernetes-pod.yml tools/share/docker-compose.yml tools/share/prometheus-rules.yml tools/share/grafana-gpu-memory.json $(DESTDIR)$(prefix)/share/cuward/
	install -m 755 tools/share/slurm-task-prolog.sh $(DESTDIR)$(prefix)/share/cuward/
	sed 's|@bindir@|$(bindir)|' tools/share/cuward-clean.service > $(DESTDIR)$(prefix)/share/cuward/cuward-clean.service
	sed 's|@bindir@|$(bindir)|' tools/share/cuward-export.service > $(DESTDIR)$(prefix)/share/cuward/cuward-export.service
	sed -i 's|/usr/local/lib/cuward|$(libdir)/cuward|g; s|/usr/local/share/cuward|$(prefix)/share/cuward|g' $(addprefix $(DESTDIR),$(installed_texts))
	for link in $(man_links); do ln -sf cuward-$${link%:*}.1 $(DESTDIR)$(mandir)/man1/cuward-$${link#*:}.1 || exit 1; done

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(bindir)/cuward $(DESTDIR)$(mandir)/man1/cuward.1 $(DESTDIR)$(mandir)/man1/cuward-*.1
	rm -f $(DESTDIR)$(prefix)/share/bash-completion/completions/cuward $(DESTDIR)$(zshdir)/_cuward
	rm -f $(DESTDIR)$(prefix)/share/fish/vendor_completions.d/cuward.fish
	rm -rf $(DESTDIR)$(libdir)/cuward $(DESTDIR)$(prefix)/include/cuward $(DESTDIR)$(prefix)/share/cuward

clean: ## remove everything made
	rm -rf build
