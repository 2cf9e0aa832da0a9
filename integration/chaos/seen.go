package chaos

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// tally are counters in a mapped file. What was counted is in the file however the process ends.
type tally struct{ slots []int64 }

func openTally(path string, slots int) (*tally, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open counters: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(int64(8 * slots)); err != nil {
		return nil, fmt.Errorf("size counters: %w", err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, 8*slots, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map counters in %s: %w", path, err)
	}
	return &tally{unsafe.Slice((*int64)(unsafe.Pointer(&b[0])), slots)}, nil
}

// Seen adds one.
func (t *tally) Seen(slot int) { atomic.AddInt64(&t.slots[slot], 1) }

// addTallies adds up the counters in all files of a folder.
func addTallies(dir string, slots int) ([]int64, error) {
	sum := make([]int64, slots)
	files, err := filepath.Glob(filepath.Join(dir, "*.seen"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read counters: %w", err)
		}
		for i := 0; i < slots && 8*i+8 <= len(b); i++ {
			sum[i] += int64(binary.NativeEndian.Uint64(b[8*i:]))
		}
	}
	return sum, nil
}
