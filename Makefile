# A small front to CMake. `./demo.sh` and `./check.sh` install what is needed first; these targets assume it is there.
BUILD ?= build
CMAKE_FLAGS ?=

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD)

$(BUILD)/build.ninja:
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS)

check: all
	@cd $(BUILD) && ctest --output-on-failure

clean:
	rm -rf $(BUILD)

.PHONY: all check clean
