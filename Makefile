# A small front to CMake. ./demo.sh and ./check.sh install what is needed first; these targets assume it is there.
BUILD ?= build
CMAKE_FLAGS ?=
PREFIX ?=
DESTDIR ?=
ARGS ?=
T ?=
FUZZ_SECONDS ?= 60
export DESTDIR
export CCACHE_DIR ?= $(CURDIR)/.cache/ccache
jobs = $(shell scripts/jobs.sh)
# Where python3 is a script that looks for the real one (pyenv), each of the tests' 200 starts takes 0.08 s more.
shim = $(shell head -c 2 "$$(command -v python3)" 2>/dev/null | grep -qa '^.!' && python3 -c 'import os, sys; print(os.path.dirname(sys.executable) + ":")')
ctest = cd $(1) && PATH="$(shim)$$PATH" ctest --output-on-failure --no-tests=error

all: $(BUILD)/build.ninja ## the libraries and the tool
	@cmake --build $(BUILD) --target product

# Line numbers alone for a debugger: variables would make the compiler take a fifth more.
lines = '-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG' '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG'

$(BUILD)/build.ninja:
	@cmake -S . -B $(BUILD) -G Ninja --no-warn-unused-cli $(lines) -DGW_TESTS=OFF $(if $(PREFIX),-DCMAKE_INSTALL_PREFIX=$(PREFIX)) $(CMAKE_FLAGS)

examples: all             ## the programs of examples/
	@cmake --build $(BUILD) --target examples

tests: $(BUILD)/build.ninja ## everything: tests, benchmarks and examples, too
	@grep -qx 'GW_TESTS:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -S . -B $(BUILD) -DGW_TESTS=ON
	@cmake --build $(BUILD)

figures:                  ## figures of two papers, from what was measured: CSV files in BUILD/figures, and plots where gnuplot is installed
	@mkdir -p $(BUILD)/figures && cp bench/figures/post.csv bench/figures/throughput.csv bench/figures/flows.csv $(BUILD)/figures
	@! command -v gnuplot >/dev/null || gnuplot -e "folder='$(BUILD)/figures'" bench/figures/figures.gp
	@! command -v gnuplot >/dev/null || gnuplot -e "folder='$(BUILD)/figures'" bench/figures/flows.gp
	@bench/figures/modes.py $(BUILD)/figures && ls $(BUILD)/figures/*

demo: all                 ## a real picture, enlarged by a worker process, and where the time went
	@$(BUILD)/bin/gpuwire demo $(ARGS)

check: tests              ## every test but those of soak, then the fuzzers for 2 s each; the fuzzers run even when a test fails
	@nice -n 19 scripts/fuzz.sh --build & \
	    failed=0; ($(call ctest,$(BUILD)) -LE long -j$(jobs)) || failed=1; wait; scripts/fuzz.sh 2 || failed=1; exit $$failed

test: $(BUILD)/build.ninja ## make test T=NAME: builds what the test needs, and runs it (a regular expression names several)
	@grep -qx 'GW_TESTS:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -S . -B $(BUILD) -DGW_TESTS=ON
	@scripts/one_test.py $(BUILD) '$(T)'

soak: tests                ## the tests that take minutes: mixed verbs traffic on an unkind network, 100,000 large requests to a server
	@$(call ctest,$(BUILD)) -L long

check-asan:               ## every test but those of soak under AddressSanitizer and UndefinedBehaviorSanitizer (half an hour on two busy cores)
	@$(MAKE) --no-print-directory tests BUILD=build-asan CMAKE_FLAGS="-DGW_SANITIZE=address,undefined -DGW_CUDA=OFF"
	@$(call ctest,build-asan) -LE long -j$(jobs)

check-tsan:               ## the same under ThreadSanitizer (an hour on two busy cores)
	@$(MAKE) --no-print-directory tests BUILD=build-tsan CMAKE_FLAGS="-DGW_SANITIZE=thread -DGW_CUDA=OFF"
	@export TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp; $(call ctest,build-tsan) -LE long -j$(jobs)

check-interop: tests      ## the software NIC against Linux' own soft-RoCE in a QEMU guest: as an Ethernet station, and over a tap (root)
	@GPUWIRE=$(BUILD)/bin/gpuwire TRAFFIC=$(BUILD)/bin/traffic tests/interop/run.sh

fuzz:                     ## every fuzz target for FUZZ_SECONDS each
	@scripts/fuzz.sh $(FUZZ_SECONDS)

bench: tests              ## the CPU benchmarks, and the software NIC beside UCX and iperf3: ours, the peer's, the ratio
	@bench/run.sh $(BUILD)

bundle: tests             ## bundle/: programs, tests and their libraries, for machines where nothing can be installed
	@scripts/bundle.sh $(BUILD) bundle

gpu-check: $(if $(wildcard bundle/gpu-check.sh),,bundle) ## the tests that need an NVIDIA GPU, from the bundle (an unpacked one will do: no network, nothing installed)
	@bundle/gpu-check.sh

gpu-bench: $(if $(wildcard bundle/gpu-bench.sh),,bundle) ## the GPU benchmarks: tables beside the limits of the same run (bench/README.md)
	@bundle/gpu-bench.sh

deb:                      ## build/deb/*.deb: the tool, the libraries, and what programs are built with; lintian looks at them
	@scripts/deb.sh $(BUILD)/deb

wheel: all                ## build/wheel/*.whl: the Python package with the libraries inside; pip installs it
	@scripts/wheel.py $(BUILD)

docs:                     ## build/docs/api.md and api.html: the API reference, out of the public headers
	@scripts/api.py $(BUILD)/docs/api.md
	@scripts/api_html.py $(BUILD)/docs/api.md $(BUILD)/docs/api.html

install: all              ## into PREFIX (/usr/local unless configured otherwise), below DESTDIR if that is given; stripped
	@scripts/install.sh $(BUILD) "$(PREFIX)"

uninstall:                ## removes what `make install` with the same PREFIX and DESTDIR put there
	@scripts/install.sh $(BUILD) "$(PREFIX)" remove

hwcheck: $(BUILD)/build.ninja ## the test programs that `gpuwire hwcheck` runs; `make install` then installs them, too
	@grep -qx 'GW_TESTS:BOOL=ON' $(BUILD)/CMakeCache.txt || cmake -S . -B $(BUILD) -DGW_TESTS=ON
	@cmake --build $(BUILD) --target hwcheck

clean:
	rm -rf build build-check build-asan build-tsan build-fuzz bundle bundle.tar.xz

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

.PHONY: all examples tests figures demo check test soak check-asan check-tsan check-interop fuzz bench bundle gpu-check gpu-bench deb wheel docs install uninstall hwcheck clean help
