package servers

import (
	"os/exec"
	"syscall"
)

// isolate gives the command namespaces, and a session, of its own: nothing it mounts is seen outside, a ctrl-C in the
// terminal does not reach it, and all of its processes end with the first one. dieWithUs has the kernel kill that first
// one when the thread that started it ends.
func isolate(cmd *exec.Cmd, dieWithUs bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	if dieWithUs {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}
