//go:build !linux

package child

import "syscall"

// endsWithParent can ask for nothing where the kernel has no death signal.
func endsWithParent() *syscall.SysProcAttr { return nil }
