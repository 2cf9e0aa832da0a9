package child

import "syscall"

// endsWithParent has the kernel kill the child when the starting thread ends.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
