package blackbox

// What becomes of the services when whoever runs them is killed? On Linux the kernel ends them with it.

import "syscall"

// DieWithUs puts a child in a process group of its own, so that ctrl-C reaches only the parent (which then stops its
// children itself), and asks the kernel to kill the child when the parent dies.
func DieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
