//go:build unix && !linux

// What becomes of the services when the runner itself is killed? Outside Linux there is no parent-death signal: they outlive it.
package main

import "syscall"

// dieWithUs puts a child in a process group of its own, so that ctrl-C reaches only the runner.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
