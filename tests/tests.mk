# tests.mk - how the test programs are built; tests/run.sh runs them and counts.
#
#	tests/apps/NAME.c   a CUDA program -> build/apps/NAME, linked with the simulated driver
#	tests/unit/test_*.c a cmocka program; its first line names the sources it needs
#	tests/t/*.bats      end to end
#
# A first line `/* flags: ... */` adds compiler flags to an app.

# sim_*.c speak to the driver under its literal names; tests/t/sim.bats builds them.
apps := $(patsubst tests/apps/%.c,$(B)/apps/%,$(filter-out tests/apps/sim_%,$(wildcard tests/apps/*.c)))
units := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))

$(B)/apps/%: tests/apps/%.c $(G)/driver_calls.h $(B)/sim/libcuda.so.1 Makefile $(B)/flags tests/tests.mk
	$(call say,APP,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -std=gnu11 $(warnings) -Wno-strict-prototypes -D_GNU_SOURCE= $(san_flags) -Iinclude -I$(G) -Itests/sim \
		-isystem $(cuda_include) -MMD -MP -o $@ $< \
		$$(sed -n '1s,^/\* flags: \(.*\) \*/$$,\1,p' $<) -L$(B)/sim -Wl,--as-needed -lcuda -ldl -lpthread
# The formats that the header has, so that a new one fails the test that knows them all.
$(G)/array_formats.h: $(G)/driver_calls.h tests/tests.mk
	$(call say,GEN,$@)
	$(Q)awk '/CU_AD_FORMAT_MAX *=/ { next } /^ *CU_AD_FORMAT_[A-Za-z0-9_]+ *= *0x[0-9a-fA-F]+,?/ { list = list " X(" $$1 ")" } \
		END { print "#define ARRAY_FORMATS(X)" list }' $(G)/cuda.i > $@
$(B)/unit/test_array_size: $(G)/array_formats.h
# The compiler leaves the headers of one of its sources only: so all that are shared.
unit_links = $(shell sed -n '1s,^/\* links: \(.*\) \*/$$,\1,p' tests/unit/$(1).c)
.SECONDEXPANSION:
$(B)/unit/%: tests/unit/%.c $$(call unit_links,$$*) $(wildcard include/cuward/*.h shim/report*.h) \
		$(G)/driver_calls.h Makefile $(B)/flags tests/tests.mk
	$(call say,UNIT,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) -Ishim -Itools -Itests/sim -isystem $(cuda_include) \
		-DCUWARD_VERSION='"$(version)"' -o $@ $< $(call unit_links,$*) -lcmocka -ldl -lpthread -lm
$(B)/bench/traced: bench_flags = -Iinclude -Ishim -Ishim/provider -llttng-ust -ldl
$(B)/bench/traced: include/cuward/events.h shim/provider/events_tp.h
$(B)/bench/%: tests/bench/%.c $(B)/sim/libcuda.so.1 Makefile $(B)/flags tests/tests.mk
	$(call say,BENCH,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -fno-omit-frame-pointer -std=gnu11 $(warnings) -D_GNU_SOURCE -isystem $(cuda_include) -o $@ $< \
		-L$(B)/sim -Wl,--as-needed -lcuda -lpthread $(bench_flags)

# The model-based test and its relatives: tests/model/README.md.
model_alone := faults refuse contend dying births reissued
model_parts := $(filter-out $(patsubst %,tests/model/%.c,seen told $(model_alone)),$(wildcard tests/model/*.c))
model_programs := $(patsubst %,$(B)/model/%,model $(model_alone))

$(G)/fault_calls.h: tests/model/fault_calls.awk $(G)/driver_calls.h
	$(call say,GEN,$@)
	$(Q)LC_ALL=C awk -f tests/model/fault_calls.awk $(G)/driver_calls.h > $@
# The calls that have a policy, as the shim's objects say.
$(B)/model/hooked: $(shim_objects) tests/tests.mk
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)nm $(shim_objects) | sed -n 's/.* T on_\(cu[A-Za-z0-9_]*\)$$/\1/p' | sort -u > $@
# The one tries every call that there is, and is linked to the driver that has them all.
$(B)/model/faults: sim_of := $(B)/sim/future
$(B)/model/faults: $(B)/sim/future/libcuda.so.1
$(patsubst %,$(B)/model/%,$(model_alone)): $(B)/model/%: tests/model/%.c tests/model/seen.c \
		tests/model/seen.h $(G)/driver_calls.h $(G)/fault_calls.h $(B)/sim/libcuda.so.1 Makefile \
		tests/tests.mk $(wildcard include/cuward/*.h)
	$(call say,MODEL,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) $(cuda_flags) -Ishim -Itests/sim -Itests/model -MF $@.d -o $@ \
		$(filter %.c,$^) -L$(or $(sim_of),$(B)/sim) -Wl,--as-needed -lcuda -ldl -lpthread
# The shim finds its trace provider beside itself.
$(B)/model/told/libcuward-lttng.so: tests/model/told.c tests/model/told.h include/cuward/events.h \
		shim/trace.h Makefile tests/tests.mk
	$(call say,MODEL,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) -Ishim -fPIC -shared -Wl,-soname,$(@F) -MF $@.d -o $@ $<
	$(Q)ln -sf ../../libcuward.so $(@D)/libcuward.so
$(B)/model/model: $(model_parts) tests/model/seen.c $(wildcard tests/model/*.h) $(G)/driver_calls.h $(G)/array_formats.h \
		$(B)/sim/libcuda.so.1 Makefile tests/tests.mk $(wildcard include/cuward/*.h)
	$(call say,MODEL,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) $(cuda_flags) -Itests/sim -Itests/model -MF $@.d -o $@ \
		$(filter %.c,$^) -L$(B)/sim -Wl,--as-needed -lcuda -ldl -lpthread

-include $(apps:=.d) $(units:=.d)

# All that is made of test code, and what of the project that needs.
programs: $(apps) $(units) $(model_programs) $(B)/model/hooked $(B)/sim/truth $(sim_drivers) \
	$(B)/model/told/libcuward-lttng.so \
	$(B)/bench/bench $(B)/bench/steps $(B)/bench/starts
test-programs: all programs
# What runs under sanitizers.
sanitized: lib sim $(units) $(sim_drivers) $(model_programs) $(B)/model/hooked $(B)/apps/train $(B)/apps/threads

# Set-up comes first and alone; then every core, unless make was told how many.
all_cores = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

check: ## install what is missing, build, run every test
	@tests/setup.sh check
	@$(MAKE) --no-print-directory $(all_cores) test-programs
	@B=$(abspath $(B)) CC="$(CC)" tests/run.sh

# In a tree of its own. The build says so if there is a driver call that nobody has decided about.
check-newest: ## the same with the newest CUDA headers there are (TESTS="tests/t/x.bats ...": these alone)
	@tests/setup.sh check
	@home=$$(tests/get_headers.sh $(B)/newest/cuda) && export CUDA_HOME="$$home" && \
	$(MAKE) --no-print-directory $(all_cores) B=$(B)/newest CUDA_HOME="$$home" test-programs && \
	B=$(abspath $(B))/newest CC="$(CC)" SECONDS_A_FILE=2700 tests/run.sh $(TESTS)

check-model: ## ten million random calls, the ledger compared after each
	@tests/setup.sh check
	@$(MAKE) --no-print-directory $(all_cores) test-programs
	@B=$(abspath $(B)) tests/model/long.sh

check-chaos: ## minutes of processes that are killed, stopped and restarted under limits (SECONDS=300)
	@tests/setup.sh check
	@$(MAKE) --no-print-directory $(all_cores) test-programs
	@B=$(abspath $(B)) CC="$(CC)" SECONDS_OF_CHAOS=$(or $(SECONDS),300) tests/run.sh tests/t/box_chaos.bats

check-clients: ## unmodified CUDA programs, bare and under cuward
	@tests/setup.sh clients
	@$(MAKE) --no-print-directory $(all_cores) test-programs
	@B=$(abspath $(B)) CC="$(CC)" tests/run.sh tests/clients/*.bats

check-clusters: ## the recipes for Docker, Podman, Kubernetes and Slurm, for real (as root; fetches 120 MB)
	@tests/setup.sh clusters
	@$(MAKE) --no-print-directory $(all_cores) all $(B)/apps/play $(B)/apps/group $(B)/apps/filtered
	@B=$(abspath $(B)) CC="$(CC)" tests/run.sh tests/clusters/*.bats

# Without packages: where LTTng's headers are missing, WITH_LTTNG=0 leaves the provider out.
check-gpu: ## what only a real GPU can show (WITH_LTTNG=0: needs no package)
	@$(MAKE) --no-print-directory lib sim $(addprefix $(B)/apps/,train play families graphs lives versions) \
		$(B)/bench/bench
	@B=$(abspath $(B)) tests/gpu/run.sh || [ $$? -eq 77 ]

bench: ## what cuward costs, as ratios in one run
	@tests/setup.sh check
	@$(MAKE) --no-print-directory all $(B)/bench/bench $(B)/bench/steps $(B)/bench/starts $(B)/apps/group $(B)/apps/play \
		$(B)/sim/truth $(if $(filter 0,$(WITH_LTTNG)),,$(B)/bench/traced)
	@failed=0; export B=$(abspath $(B)) CC="$(CC)"; \
		for bench in run $(if $(filter 0,$(WITH_LTTNG)),,traced) box reader; do tests/bench/$$bench.sh || failed=1; done; exit $$failed

# On a machine that does nothing else; `git add` what it leaves.
bench-record: ## bench, and its results as one more line of docs/bench.jsonl
	@rm -f $(B)/bench.json $(B)/bench.failed
	@$(MAKE) --no-print-directory bench || touch $(B)/bench.failed
	@B=$(abspath $(B)) tests/bench/record.sh && [ ! -e $(B)/bench.failed ]

demo: ## a small training program with a planted leak, under cuward
	@tests/setup.sh build
	@$(MAKE) --no-print-directory all $(B)/apps/train
	@B=$(abspath $(B)) tests/demo.sh

.PHONY: programs sanitized test-programs bench-record
