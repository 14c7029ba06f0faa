// What becomes of the services when the runner itself is killed? On Linux the kernel ends them with it.
package main

import "syscall"

// dieWithUs puts a child in a process group of its own, so that ctrl-C reaches only the runner (which then stops its
// children itself), and asks the kernel to kill the child when the runner dies.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
