package bench

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwnProcess(t *testing.T) {
	for n := 0; cpuSeconds(os.Getpid()) == 0; n++ { // burns until the first tick is counted
		if n > 1e7 {
			t.Fatal("no processor time is counted for a busy process")
		}
	}
	if machineSeconds() < cpuSeconds(os.Getpid()) {
		t.Error("the machine has worked less than this process")
	}
	peak, anon := memoryMB(os.Getpid(), peakResident), memoryMB(os.Getpid(), anonymousResident)
	if anon <= 0 || peak < anon {
		t.Errorf("peak %f MB, anonymous %f MB", peak, anon)
	}
}

func TestNoProcess(t *testing.T) {
	if cpuSeconds(noProcess) != 0 || memoryMB(noProcess, peakResident) != 0 || len(threadSeconds(noProcess)) != 0 {
		t.Error("a process that does not exist has used something")
	}
}

func TestDiskMB(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := diskMB(dir); got != 1 {
		t.Errorf("%f MB, want 1", got)
	}
}
