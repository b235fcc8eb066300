# A small front to CMake. ./demo.sh and ./check.sh install what is needed first; these targets assume it is there.
BUILD ?= build
CMAKE_FLAGS ?=
PREFIX ?= /usr/local
ARGS ?=
FUZZ_SECONDS ?= 60
export CCACHE_DIR ?= $(CURDIR)/.cache/ccache

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD)

$(BUILD)/build.ninja:
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)

demo: all                 ## a real picture, enlarged by a worker process, and where the time went
	@$(BUILD)/bin/gpuwire demo $(ARGS)

check: all                ## every test but those of soak, the fuzzers for 10 s each, all in parallel where it pays
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -LE long -j$$(nproc)
	@scripts/fuzz.sh 10

soak: all                 ## the tests that take minutes: mixed verbs traffic on an unkind network, 100,000 large requests to a server
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -L long

check-asan:               ## every test but those of soak under AddressSanitizer and UndefinedBehaviorSanitizer (half an hour on two busy cores)
	@$(MAKE) --no-print-directory all BUILD=build-asan CMAKE_FLAGS="-DGW_SANITIZE=address,undefined -DGW_CUDA=OFF"
	@cd build-asan && ctest --output-on-failure --no-tests=error -LE long -j$$(nproc)

check-tsan:               ## the same under ThreadSanitizer (an hour on two busy cores)
	@$(MAKE) --no-print-directory all BUILD=build-tsan CMAKE_FLAGS="-DGW_SANITIZE=thread -DGW_CUDA=OFF"
	@cd build-tsan && TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp \
		ctest --output-on-failure --no-tests=error -LE long -j$$(nproc)

check-interop: all        ## the software NIC against Linux' own soft-RoCE in a QEMU guest: as an Ethernet station, and over a tap (root)
	@GPUWIRE=$(BUILD)/bin/gpuwire TRAFFIC=$(BUILD)/bin/traffic tests/interop/run.sh

fuzz:                     ## every fuzz target for FUZZ_SECONDS each
	@scripts/fuzz.sh $(FUZZ_SECONDS)

bench: all                ## the CPU benchmarks, and the software NIC beside UCX and iperf3: ours, the peer's, the ratio
	@bench/run.sh $(BUILD)

bundle: all               ## bundle/: programs, tests and their libraries, for machines where nothing can be installed
	@scripts/bundle.sh $(BUILD) bundle

gpu-check: $(if $(wildcard bundle/gpu-check.sh),,bundle) ## the tests that need an NVIDIA GPU, from the bundle (an unpacked one will do: no network, nothing installed)
	@bundle/gpu-check.sh

gpu-bench: $(if $(wildcard bundle/gpu-bench.sh),,bundle) ## the GPU benchmarks: tables beside the limits of the same run (bench/README.md)
	@bundle/gpu-bench.sh

docs:                     ## build/docs/api.md: the API reference, out of the public headers
	@scripts/api.py $(BUILD)/docs/api.md

install: all
	@cmake --install $(BUILD)

clean:
	rm -rf build build-asan build-tsan build-fuzz bundle bundle.tar.gz

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

.PHONY: all demo check soak check-asan check-tsan check-interop fuzz bench bundle gpu-check gpu-bench docs install clean help
