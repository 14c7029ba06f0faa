//go:build unix && !linux

package blackbox

// What becomes of the services when whoever runs them is killed? Outside Linux there is no parent-death signal: they
// outlive it.

import "syscall"

// DieWithUs puts a child in a process group of its own, so that ctrl-C reaches only the parent.
func DieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
