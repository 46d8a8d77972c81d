# SPDX-License-Identifier: Apache-2.0
# The two commands, in front of Meson: make demo, make test.
BUILD ?= build
MESON_FLAGS ?=
DESTDIR ?=
EXAMPLE = examples/ddp-gloo-2host

all: build

deps:
	@tools/ensure-deps

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD) $(MESON_FLAGS)

# Leaves the command at $(BUILD)/taut. TARGETS: only these.
TARGETS ?=
build: deps $(BUILD)/build.ninja
	@ninja -C $(BUILD) $(TARGETS)

# All tests, or those of some suites (and then only what they need is built), or all
# but some: make test SUITES='base trace', make test BUT=frameworks
SUITES ?=
BUT ?=
FRAMEWORKS = $(if $(SUITES),$(filter frameworks,$(SUITES)),\
	$(filter-out $(BUT),frameworks))
test: $(if $(SUITES),$(BUILD)/build.ninja,build)
	@tools/ensure-deps test
	@$(if $(FRAMEWORKS),tools/ensure-python torch tensorflow mxnet || \
		echo "tests of frameworks that are not there will be skipped",:)
	@rm -f $(BUILD)/meson-logs/testlog.json
	@meson test -C $(BUILD) $(if $(SUITES),,--no-rebuild) --print-errorlogs \
		$(foreach suite,$(SUITES),--suite $(suite)) \
		$(foreach suite,$(BUT),--no-suite $(suite)); \
	status=$$?; tools/tally $(BUILD) && exit $$status

# What a person sees first: a real two-host recording, explained.
demo: build
	@$(BUILD)/taut report $(EXAMPLE) --html $(BUILD)/demo.html
	@echo
	@echo "The same as a page, with the timeline of both ranks: $(BUILD)/demo.html"

install: build
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

# Runs every fuzz target, or one, for SECONDS_EACH on a copy of its corpus:
# make fuzz TARGET=kineto SECONDS_EACH=600
TARGET ?=
SECONDS_EACH ?= 60
fuzz: deps
	@tools/ensure-deps ci
	@tools/fuzz "$(BUILD)-fuzz" "$(SECONDS_EACH)" $(TARGET)

format:
	clang-format -i $$(git ls-files -co --exclude-standard \
		'src/*.[ch]' 'src/*.cpp' 'include/*.h' 'tests/*.[ch]')

clean:
	rm -rf $(BUILD) $(BUILD)-fuzz build-ci

.PHONY: all deps build test demo install fuzz format clean
