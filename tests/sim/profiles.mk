# profiles.mk - the simulated driver's profiles: one set of objects, one library for each profile.
#
# A profile is a version script (which names are exported) and one small object (which version the
# library says it is); both are made from driver_facts.tsv. Each has a symbol that no real driver
# has, cuward_simulated_driver, for who must tell them apart. See tests/sim/README.md.

sim_flags += $(tls_flags)
sim_facts := tests/sim/driver_facts.tsv
sim_version_13.0 := 13000
sim_version_12.2 := 12020
sim_version_11.0 := 11000
sim_version_future := 15000
# Which rows of the table a profile exports.
sim_rows_13.0 := $$$$5 != "future" && $$$$5 != "newer"
sim_rows_12.2 := $$$$5 == "y"
sim_rows_11.0 := $$$$6 == "y"
sim_rows_future := 1
# ... and that of the future whatever a header declares that is newer than the table.
sim_more_future := $(G)/driver_calls.h
sim_link := -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs -Wl,--as-needed

$(G)/sim_calls.h: tests/sim/sim_calls.awk $(G)/driver_calls.h $(sim_facts)
	$(call say,GEN,$@)
	$(Q)LC_ALL=C awk -f tests/sim/sim_calls.awk $(G)/driver_calls.h FS='\t' $(sim_facts) > $@
# The error codes, as enumerators of CUresult.
$(G)/sim_errors.h: $(G)/driver_calls.h tests/sim/profiles.mk
	$(call say,GEN,$@)
	$(Q)awk '/^ *CUDA_(SUCCESS|ERROR_[A-Z0-9_]+) *= *[0-9]+,?/ { list = list " X(" $$1 ")" } \
		END { print "#define SIM_ERRORS(X)" list }' $(G)/cuda.i > $@
$(sim_objects): $(G)/sim_calls.h $(G)/sim_errors.h

define sim_profile
$(G)/sim_$(1).map: $(sim_facts) $(sim_more_$(1)) tests/sim/profiles.mk
	$$(call say,GEN,$$@)
	@mkdir -p $$(@D)
	$$(Q)awk -F'\t' 'BEGIN { print "{ global: cuward_simulated_driver; cuward_simulated_driver_control;" } \
		FNR == NR && !/^#/ && ($(sim_rows_$(1))) { print "\t" $$$$1 ";" } \
		FNR != NR && sub(/^\tX\(/, "") { sub(/,.*/, ""); print "\t" $$$$0 ";" } \
		END { print "local: *; };" }' $(sim_facts) $(sim_more_$(1)) > $$@
$(G)/sim_profile_$(1).o: tests/sim/profiles.mk
	@mkdir -p $$(@D)
	$$(Q)printf '%s\n' 'extern const int sim_profile_version, cuward_simulated_driver;' \
		'const int sim_profile_version = $(sim_version_$(1));' \
		'__attribute__((visibility("default"))) const int cuward_simulated_driver = 1;' \
		| $$(CC) $$(CFLAGS) $$(san_flags) -fPIC -fvisibility=hidden -x c -c -o $$@ -
$(2): $$(sim_objects) $(G)/sim_profile_$(1).o $(G)/sim_$(1).map
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(san_flags) $$(LDFLAGS) $$(sim_link) \
		$(3) -Wl,--version-script,$(G)/sim_$(1).map -o $$@ $$(filter %.o,$$^) -lpthread -ldl
	@ln -sf libcuda.so.1 $$(@D)/libcuda.so
endef
$(eval $(call sim_profile,13.0,$(B)/sim/libcuda.so.1))
$(eval $(call sim_profile,12.2,$(B)/sim/12.2/libcuda.so.1))
$(eval $(call sim_profile,11.0,$(B)/sim/11.0/libcuda.so.1))
$(eval $(call sim_profile,future,$(B)/sim/future/libcuda.so.1))

# The drivers between, for tests of look-ups: each exports what had been brought by then.
sim_steps := 11.2 11.3 11.4 11.5 11.6 11.7 11.8 12.0 12.1 12.3 12.4 12.5 12.6 12.8 12.9 13.1 13.2 13.3 13.4 13.5
sim_bare := -Wl,--strip-debug
sim_drivers := $(foreach p,$(sim_steps),$(B)/drivers/$(p)/libcuda.so.1)
define sim_step
sim_version_$(1) := $(subst .,0,$(1))0
sim_rows_$(1) := ($$$$$$$$4 <= $(subst .,0,$(1))0 || $$$$$$$$4 == 999999) && $$$$$$$$5 != "future"
endef
$(foreach p,$(sim_steps),$(eval $(call sim_step,$(p)))$(eval $(call sim_profile,$(p),$(B)/drivers/$(p)/libcuda.so.1,$(sim_bare))))

# The reader of truth files, a program of its own.
$(B)/sim/truth: tests/sim/reader/truth.c tests/sim/truth.h
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) -MF $(G)/truth.d -Itests/sim $(LDFLAGS) -o $@ $<
sim: $(B)/sim/truth

# The simulated NVML, which reads truth files as well: one library a layout, and the newest for all.
sim_nvml := $(foreach l,1 2 3 4,$(B)/sim/nvml/v$(l)/libnvidia-ml.so.1) $(B)/sim/nvml/libnvidia-ml.so.1
$(B)/sim/nvml/v%/libnvidia-ml.so.1: tests/sim/nvml/nvml.c tests/sim/truth.h tests/sim/profiles.mk $(B)/flags
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(base_flags) -MF $(G)/nvml_$*.d -Wno-missing-prototypes -fPIC -fvisibility=hidden \
		-DNVML_LAYOUT=$* -Itests/sim $(san_flags) $(LDFLAGS) -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $<
$(B)/sim/nvml/libnvidia-ml.so.1: $(B)/sim/nvml/v3/libnvidia-ml.so.1
	$(Q)cp $< $@
sim all: $(sim_nvml)
