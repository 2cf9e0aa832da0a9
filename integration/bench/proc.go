package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What the kernel tells of processes. A process that is gone has used nothing.

const ticksPerSecond = 100 // USER_HZ, the same on every Linux architecture Go runs on

// machineSeconds is the busy time of all processors.
func machineSeconds() float64 {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	var busy float64
	for i, f := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq
			v, _ := strconv.ParseFloat(f, 64)
			busy += v
		}
	}
	return busy / ticksPerSecond
}

// cpuSeconds is the user and system time of a process so far.
func cpuSeconds(pid int) float64 { return statSeconds(fmt.Sprintf("/proc/%d/stat", pid)) }

func statSeconds(path string) float64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may hold anything; field 3 is first
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond
}

// threadSeconds is the time of the threads that are alive, by name without its number.
func threadSeconds(pid int) map[string]float64 {
	byName := map[string]float64{}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, t := range tasks {
		name, _ := os.ReadFile(filepath.Join(t, "comm"))
		byName[strings.TrimRight(strings.TrimSpace(string(name)), "0123456789#-")] += statSeconds(filepath.Join(t, "stat"))
	}
	for name, s := range byName {
		if s < 0.05 {
			delete(byName, name)
		}
	}
	return byName
}

// Fields of memoryMB.
const (
	peakResident      = "VmHWM"
	anonymousResident = "RssAnon" // without mapped files
)

// memoryMB is a field of a process's memory in MiB.
func memoryMB(pid int, field string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1024
		}
	}
	return 0
}

// diskMB is what the files below dir hold, in MiB.
func diskMB(dir string) float64 {
	var size int64
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // a file that is gone meanwhile counts nothing
	})
	return float64(size) / (1 << 20)
}
