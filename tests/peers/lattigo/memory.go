package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// peakBytes returns the peak resident memory of this process.
func peakBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, isPeak := strings.CutPrefix(line, "VmHWM:"); isPeak {
			kibibytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kibibytes << 10, err
		}
	}
	return 0, errors.New("the kernel does not report the peak memory")
}
