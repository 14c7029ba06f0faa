package main

import "syscall"

// attributes: a group of its own (no ctrl-C from the terminal), and SIGTERM when the thread that
// started it ends, which is when this program does, also by SIGKILL.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
