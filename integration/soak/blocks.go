package soak

import (
	"io/fs"
	"syscall"
)

// blocks is the bytes that a file takes up on disk.
func blocks(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Blocks) * 512
	}
	return info.Size()
}
